// Command reproduce prints a report of `make reproduce-mnist` or
// `make reproduce-fashion` beside the paper's figures on MNIST, and keeps a copy;
// or one table of several results of `audit interference`.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// Of arXiv:2605.27292, on MNIST: mean ± standard deviation over 15 runs.
const paper = ".86 ± .02\t\t.29 ± .07"

func main() {
	var err error
	switch {
	case len(os.Args) > 3 && os.Args[1] == "interference":
		err = interference(os.Stdout, os.Args[2], os.Args[3:])
	case len(os.Args) == 3:
		err = run(os.Stdout, os.Args[1], os.Args[2])
	default:
		fmt.Fprintln(os.Stderr, "usage: reproduce REPORT COPY\n       reproduce interference COPY NAME=RESULT...")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reproduce:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, path, copy string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var r audit.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := table(w, &r); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return atomicfile.WriteBytes(copy, 0o644, text)
}

func table(w io.Writer, r *audit.Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "canaries\tAUC mean ± sd (min)\t95 % of the mean\tTPR at 5 % FPR mean ± sd (min)\t95 % of the mean")
	fmt.Fprintf(t, "IBIS on MNIST, paper\t%s\t\n", paper)
	for _, m := range r.Methods {
		fmt.Fprintf(t, "%s\t%s\t%s\n", m.Name, figures(m.AUC), figures(m.TPR))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nwith the same coins, difference of AUC and of TPR:")
	compared := 0
	for _, p := range r.Paired {
		if p.Baseline == "mislabeled" || p.Method == "mislabeled" {
			fmt.Fprintf(t, "%s less %s\t%s\t%s\n", p.Method, p.Baseline, figures(p.AUC), figures(p.TPR))
			compared++
		}
	}
	if compared == 0 {
		return errors.New("no comparison with mislabeled canaries")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nseconds, of all sets of all kinds that were crafted in the run:")
	stages := t
	for _, stage := range []string{"select-train", "select", "theta-star", "theta-0", "refine"} {
		fmt.Fprintf(stages, "  %s\t%.1f\n", stage, r.Timing["canaries: "+stage])
	}
	fmt.Fprintf(stages, "  training of the audits\t%.1f\n  in all\t%.1f\n", r.Timing["train"], r.Timing["total"])
	return stages.Flush()
}

func figures(s audit.Summary) string {
	sd, interval := "", ""
	if s.SD != nil {
		sd = fmt.Sprintf(" ± %.3f", *s.SD)
	}
	if s.Low != nil && s.High != nil {
		interval = fmt.Sprintf("%.3f to %.3f", *s.Low, *s.High)
	}
	return fmt.Sprintf("%.3f%s (%.3f)\t%s", s.Mean, sd, s.Min, interval)
}
