package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/aviary-audit/aviary/audit"
)

// figure is a Summary and what it is of.
type figure struct {
	key   string // in files
	title string // for people
	audit.Summary
}

// figures lists what is known of a method.
func figures(m audit.Method) []figure {
	fs := []figure{
		{"auc", "AUC", m.AUC},
		{"tpr_at_fpr_0.05", "TPR at 5 % FPR", m.TPR},
		{"loss_in", "loss, included", m.LossIn},
		{"loss_out", "loss, left out", m.LossOut},
	}
	if m.TestAccuracy != nil {
		fs = append(fs, figure{"test_accuracy", "test accuracy", *m.TestAccuracy})
	}
	for _, b := range m.Bounds {
		fs = append(fs, figure{"epsilon_lower:" + b.Estimator + ":" + b.Rule, "lower bound on ε", b.Epsilon})
	}
	return fs
}

// summaryCSV has one row per method and figure, and then one per comparison of
// methods and figure; figures that are not known, such as the standard deviation
// of one value, are empty.
func summaryCSV(r *audit.Report) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	rows := [][]string{{"method", "figure", "mean", "sd", "min", "low95", "high95", "audits"}}
	row := func(method string, f figure) {
		rows = append(rows, []string{method, f.key, exact(&f.Mean), exact(f.SD), exact(&f.Min),
			exact(f.Low), exact(f.High), strconv.Itoa(len(f.Values))})
	}
	for _, m := range r.Methods {
		for _, f := range figures(m) {
			row(m.Name, f)
		}
	}
	for _, p := range r.Paired {
		row(p.Method, figure{key: "auc:minus:" + p.Baseline, Summary: p.AUC})
		row(p.Method, figure{key: "tpr_at_fpr_0.05:minus:" + p.Baseline, Summary: p.TPR})
	}
	if err := w.WriteAll(rows); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// exact is the shortest text that reads back as *v, and "" for nil.
func exact(v *float64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

// Text writes the headline of r for a terminal: the verdicts, the tables of
// figures, of bounds and of comparisons, and the notes.
func Text(w io.Writer, r *audit.Report) error {
	for _, f := range verdicts(r) {
		fmt.Fprintln(w, f.Text)
	}
	if text := refuted(r); text != "" {
		fmt.Fprintln(w, text)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "canaries\tAUC\tmin\tTPR at 5 % FPR\tmin\tloss in / out\ttest accuracy\taudits\n")
	for _, m := range r.Methods {
		accuracy := "-"
		if m.TestAccuracy != nil {
			accuracy = fixed(m.TestAccuracy.Mean)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s / %s\t%s\t%s\n", m.Name,
			spread(m.AUC), fixed(m.AUC.Min), spread(m.TPR), fixed(m.TPR.Min),
			significant(m.LossIn.Mean), significant(m.LossOut.Mean), accuracy, auditCount(r, m))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Methods[0].Bounds) > 0 {
		fmt.Fprintf(w, "\n%s\n", boundsCaption(r))
		if err := boundsText(w, []*audit.Report{r}); err != nil {
			return err
		}
	}
	if len(r.Paired) > 0 {
		if err := pairedText(w, r); err != nil {
			return err
		}
	}
	if len(r.Notes) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "\nnote: %s\n", strings.Join(r.Notes, "\nnote: "))
	return err
}

// spread is "mean ± sd", or the mean alone where there is one value.
func spread(s audit.Summary) string {
	if s.SD == nil {
		return fixed(s.Mean)
	}
	return fixed(s.Mean) + " ± " + fixed(*s.SD)
}

func auditCount(r *audit.Report, m audit.Method) string {
	return fmt.Sprintf("%d (%s × %d)", len(m.Runs), count(r.Sets, "set"), r.Audits)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func fixed(v float64) string       { return strconv.FormatFloat(v, 'f', 3, 64) }
func significant(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
