package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/aviary-audit/aviary/audit"
)

// checkPaired refuses comparisons that cannot be shown, or of methods that the
// report does not hold.
func checkPaired(r *audit.Report) error {
	known := map[string]bool{}
	for _, m := range r.Methods {
		known[m.Name] = true
	}
	for _, p := range r.Paired {
		for _, name := range []string{p.Method, p.Baseline} {
			if !known[name] {
				return fmt.Errorf("report: a comparison with %q, which is no method of the report", name)
			}
		}
		for _, v := range []float64{p.AUC.Mean, p.TPR.Mean} {
			if !(v >= -1 && v <= 1) { // NaN too
				return fmt.Errorf("report: %s against %s: a difference of %v, expected a number from -1 to 1", p.Method, p.Baseline, v)
			}
		}
	}
	return nil
}

// pairedText writes the comparisons as a table.
func pairedText(w io.Writer, r *audit.Report) error {
	fmt.Fprint(w, "\nDifferences at the same coins, mean and 95 % interval clustered by set:\n")
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "canaries\tagainst\tAUC\tinterval\tlarger in\tTPR at 5 % FPR\tinterval\tlarger in\n")
	for _, p := range r.Paired {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d of %d\t%s\t%s\t%d of %d\n", p.Method, p.Baseline,
			signed(p.AUC.Mean), signedInterval(p.AUC), p.WinsAUC, p.Runs, signed(p.TPR.Mean), signedInterval(p.TPR), p.WinsTPR, p.Runs)
	}
	return t.Flush()
}

// signed is a difference with its sign.
func signed(v float64) string { return strings.ReplaceAll(fmt.Sprintf("%+.3f", v), "-", "−") }

// signedInterval is "low to high", or a dash where there is none.
func signedInterval(s audit.Summary) string {
	if s.Low == nil || s.High == nil {
		return "–"
	}
	return signed(*s.Low) + " to " + signed(*s.High)
}
