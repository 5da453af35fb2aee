// Command reproduce prints a report of `make reproduce-mnist` or
// `make reproduce-fashion` beside the paper's figures on MNIST, and keeps a copy.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// Of arXiv:2605.27292, on MNIST: mean ± standard deviation over 15 runs.
const paper = ".86 ± .02\t\t.29 ± .07"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: reproduce REPORT COPY")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2]); err != nil {
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
	var mislabeled *audit.Method
	for i, m := range r.Methods {
		fmt.Fprintf(t, "%s\t%s\t%s\n", m.Name, figures(m.AUC), figures(m.TPR))
		if m.Name == "mislabeled" {
			mislabeled = &r.Methods[i]
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if mislabeled == nil {
		return errors.New("no mislabeled canaries to compare with")
	}
	fmt.Fprintln(w, "\nAUC less that of mislabeled canaries, same coins:")
	for _, m := range r.Methods {
		if m.Name == mislabeled.Name {
			continue
		}
		d, err := difference(m.Runs, mislabeled.Runs)
		if err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		fmt.Fprintf(w, "  %s: %s\n", m.Name, figures(d))
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

// difference is that of two methods' AUC, run by run.
func difference(a, b []audit.Run) (audit.Summary, error) {
	if len(a) == 0 || len(a) != len(b) {
		return audit.Summary{}, fmt.Errorf("%d and %d runs, expected equally many", len(a), len(b))
	}
	values, sets := make([]float64, len(a)), make([]int, len(a))
	for i := range a {
		if a[i].Set != b[i].Set || a[i].Audit != b[i].Audit {
			return audit.Summary{}, fmt.Errorf("run %d is set %d audit %d, and set %d audit %d", i, a[i].Set, a[i].Audit, b[i].Set, b[i].Audit)
		}
		values[i], sets[i] = a[i].AUC-b[i].AUC, a[i].Set
	}
	return stats.Summarize(values, sets)
}
