package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// shortAssumption says in a table what must hold beyond the setting itself;
// the JSON has it in full.
var shortAssumption = map[string]string{
	"steinke":                    "none",
	"mahloujifar-eps-delta":      "none",
	"mahloujifar-gdp":            "mechanism is Gaussian",
	"mahloujifar-dpsgd":          "mechanism is this DP-SGD",
	"xiang-iid":                  "canaries do not interfere",
	"cp-4":                       "none",
	"cp-2":                       "none",
	"joint":                      "none",
	"joint-pooled":               "canaries alike in rates",
	"family-subsampled-gaussian": "mechanism is subsampled Gaussian",
	"zanella-beguelin":           "prior on both rates",
}

// table writes the answer for people: games, rows with the sound ones first,
// and a conclusion.
func (a *boundAnswer) table(w io.Writer, s *boundSettings) error {
	if err := a.gameTable(w); err != nil {
		return err
	}
	rows := slices.Clone(a.Bounds)
	slices.SortStableFunc(rows, func(x, y boundRow) int {
		switch {
		case x.Sound == y.Sound:
			return 0
		case x.Sound:
			return -1
		}
		return 1
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head := []string{"estimator", "scope", "assumes", "confidence", "multiplicity", "ε"}
	if len(a.Games) > 1 {
		head = append(head, "mean ± sd")
	}
	if rows[0].Rule != "" {
		head = slices.Insert(head, 1, "rule")
	}
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, r := range rows {
		cells := []string{r.Estimator, r.Scope, shortAssumption[r.Estimator], confidence(r.Confidence), r.Multiplicity, lower(r.Epsilon)}
		if len(a.Games) > 1 {
			cells = append(cells, fmt.Sprintf("%.4f ± %.4f", float64(*r.Mean), float64(*r.SD)))
		}
		if rows[0].Rule != "" {
			cells = slices.Insert(cells, 1, r.Rule)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", conclusion(a.Bounds))
	return err
}

// gameTable lists the games, if scores were read.
func (a *boundAnswer) gameTable(w io.Writer) error {
	if len(a.Games) == 0 {
		return nil
	}
	const most = 20
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "game\tscores\tmembers\tAUC\tTPR at 5 % FPR\tadvantage")
	for i, g := range a.Games {
		if i == most {
			break
		}
		auc := fmt.Sprintf("%.4f", g.AUC)
		if g.AUCRange != nil {
			auc += fmt.Sprintf(" (%.4f to %.4f)", g.AUCRange[0], g.AUCRange[1])
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%.4f\t%.4f\n", g.name(), g.size(), g.Members, auc, g.TPR, g.Advantage)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if n := len(a.Games) - most; n > 0 {
		fmt.Fprintf(w, "and %d games more, which --json lists\n", n)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// conclusion is what the rows say in one line.
func conclusion(rows []boundRow) string {
	h := headline(rows)
	switch {
	case h == nil:
		return "nothing here is a bound: no row is sound"
	case !(h.Epsilon > 0):
		return fmt.Sprintf("no evidence that ε exceeds 0 (%s, δ = %s): this does not show privacy", h.Estimator, formatFloat(h.Delta))
	}
	return fmt.Sprintf("with confidence %s, ε is at least %s (%s, model-free, δ = %s)", confidence(h.Confidence), lower(h.Epsilon), h.Estimator, formatFloat(h.Delta))
}

// lower writes a lower bound with four decimals, rounded down.
func lower(v number) string {
	if math.IsInf(float64(v), 1) {
		return "∞"
	}
	return strconv.FormatFloat(math.Floor(float64(v)*1e4)/1e4, 'f', 4, 64)
}

// confidence writes 0.95 as 95 %, without the dust of 1 - alpha.
func confidence(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e12)/1e10, 'f', -1, 64) + " %"
}
