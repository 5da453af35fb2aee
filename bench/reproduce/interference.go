package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/aviary-audit/aviary/audit/multirun"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// interference prints one table of the results of `audit interference`, given as
// NAME=FILE, and keeps them in one file.
func interference(w io.Writer, out string, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("no results, expected NAME=FILE")
	}
	all := map[string]*multirun.Measured{}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "canaries\tmean gap\tmean variance / mean gap², 95 %\tmedian of variance / gap², 95 %")
	for _, arg := range args {
		name, path, found := strings.Cut(arg, "=")
		if !found {
			return fmt.Errorf("%q, expected NAME=FILE", arg)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m := &multirun.Measured{}
		if err := json.Unmarshal(text, m); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(m.Canaries) == 0 {
			return fmt.Errorf("%s: no canary was toggled", path)
		}
		all[name] = m
		fmt.Fprintf(t, "%s\t%.3f\t%s\t%s\n", name, m.MeanGap, interval(m.Ratio), interval(m.Median))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return atomicfile.Write(out, 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(all)
	})
}

func interval(i multirun.Interval) string {
	return fmt.Sprintf("%s (%s to %s)", number(i.Value), number(i.Low), number(i.High))
}

func number(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.4f", *v)
}
