package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/audit/stats"
	"github.com/aviary-audit/aviary/report"
)

// figureCheck compares figures of a report with what the score files say.
type figureCheck struct {
	load    report.Loader
	report  *audit.Report
	bounder *onerun.Bounder
	coins   map[[2]int][]bool // memberships of each set and audit, of the first method that has them
	checked int
	found   []string
}

// wrongFigures compares the figures of r, the report of the run in dir, with
// what the score files say, bit by bit, and counts them.
func wrongFigures(dir string, r *audit.Report) (checked int, found []string, err error) {
	c := &figureCheck{load: loader(dir), report: r, coins: map[[2]int][]bool{}}
	if c.bounder, err = onerun.NewBounder(r.Delta); err != nil {
		return 0, []string{fmt.Sprintf("%s: %v", report.JSONFile, err)}, nil
	}
	whole := true
	var methods []audit.Method // with the figures of the score files
	for _, m := range r.Methods {
		runs, err := c.method(m)
		if err != nil {
			return 0, nil, err
		}
		whole = whole && len(runs) == len(m.Runs)
		methods = append(methods, audit.Method{Name: m.Name, Runs: runs})
	}
	if whole {
		c.paired(methods)
	}
	if c.checked == 0 && len(c.found) == 0 {
		return 0, nil, fmt.Errorf("%s: no figures to check", dir)
	}
	return c.checked, c.found, nil
}

func (c *figureCheck) say(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

func (c *figureCheck) same(where string, got, want float64) {
	c.checked++
	if got != want { // NaN too
		c.say("%s: %s is %s by the score files, the report has %s", report.JSONFile, where, formatFloat(got), formatFloat(want))
	}
}

// text is same for words.
func (c *figureCheck) text(where, got, want string) {
	if got != want {
		c.say("%s: %s is %q by the score files, the report has %q", report.JSONFile, where, got, want)
	}
}

func (c *figureCheck) summary(where string, got, want audit.Summary) {
	c.same(where+" mean", got.Mean, want.Mean)
	c.same(where+" min", got.Min, want.Min)
	c.same(where+" sd", orNone(got.SD), orNone(want.SD))
	c.same(where+" low", orNone(got.Low), orNone(want.Low))
	c.same(where+" high", orNone(got.High), orNone(want.High))
	if !slices.Equal(got.Values, want.Values) {
		c.say("%s: %s values are %v by the score files, the report has %v", report.JSONFile, where, got.Values, want.Values)
	}
}

// method checks the audits of a method and what sums them up, and returns the
// audits' figures by the score files.
func (c *figureCheck) method(m audit.Method) ([]audit.Run, error) {
	c.found = append(c.found, wrongRuns(c.report, m)...)
	var runs []audit.Run
	var auc, tpr, in, out []float64
	var bounds [][]onerun.AuditBound
	var sets []int
	for _, run := range m.Runs {
		where := fmt.Sprintf("%s set %d audit %d (%s)", m.Name, run.Set, run.Audit, run.Scores)
		s, err := c.load(run)
		if err == nil {
			err = s.Check()
		}
		var b []onerun.AuditBound
		if err == nil {
			b, err = c.bounder.Bound(s)
		}
		if err != nil {
			c.say("%s: %v", where, err)
			continue
		}
		f, err := figuresOf(s)
		if err != nil {
			return nil, err
		}
		c.same(where+" members", float64(f.members), float64(run.Members))
		c.same(where+" candidates", float64(len(s.Value)), float64(c.report.Canaries))
		c.same(where+" auc", f.auc, run.AUC)
		c.same(where+" tpr_at_fpr_0.05", f.tpr, run.TPR)
		c.sameCoins(where, run, s.Member)
		sets, bounds = append(sets, run.Set), append(bounds, b)
		auc, tpr = append(auc, f.auc), append(tpr, f.tpr)
		in, out = append(in, f.lossIn), append(out, f.lossOut)
		runs = append(runs, audit.Run{Set: run.Set, Audit: run.Audit, AUC: f.auc, TPR: f.tpr})
	}
	if len(sets) < len(m.Runs) || len(sets) == 0 {
		return runs, nil // a summary of some of the audits, or of none, says nothing: that they are gone has been said
	}
	for _, f := range []struct {
		name      string
		summarize func(values []float64, sets []int) (audit.Summary, error)
		values    []float64
		have      audit.Summary
	}{
		{"auc", stats.SummarizeRate, auc, m.AUC}, {"tpr_at_fpr_0.05", stats.SummarizeRate, tpr, m.TPR},
		{"loss_in", stats.Summarize, in, m.LossIn}, {"loss_out", stats.Summarize, out, m.LossOut},
	} {
		want, err := f.summarize(f.values, sets)
		if err != nil {
			return nil, err
		}
		c.summary(m.Name+" "+f.name, want, f.have)
	}
	want, err := onerun.SummarizeBounds(bounds, sets)
	if err != nil {
		return nil, err
	}
	c.bounds(m, want)
	return runs, nil
}

// sameCoins checks that all methods met the same coins, without which they
// cannot be compared audit by audit.
func (c *figureCheck) sameCoins(where string, run audit.Run, member []bool) {
	at := [2]int{run.Set, run.Audit}
	if first, ok := c.coins[at]; !ok {
		c.coins[at] = member
	} else if !slices.Equal(first, member) {
		c.say("%s: its members are not those of the first method's set %d audit %d", where, run.Set, run.Audit)
	}
}

// bounds checks the lower bounds on ε of a method.
func (c *figureCheck) bounds(m audit.Method, want []audit.Bound) {
	if len(m.Bounds) != len(want) {
		c.say("%s: %s has %d bounds on ε, expected %d", report.JSONFile, m.Name, len(m.Bounds), len(want))
		return
	}
	for i, w := range want {
		have := m.Bounds[i]
		where := fmt.Sprintf("%s bound on ε by %s (%s)", m.Name, w.Estimator, w.Rule)
		c.text(where+" estimator", w.Estimator, have.Estimator)
		c.text(where+" rule", w.Rule, have.Rule)
		c.text(where+" scope", w.Scope, have.Scope)
		c.text(where+" sound", fmt.Sprint(w.Sound), fmt.Sprint(have.Sound))
		c.same(where+" delta", w.Delta, have.Delta)
		c.same(where+" confidence", w.Confidence, have.Confidence)
		c.summary(where, w.Epsilon, have.Epsilon)
	}
}

// paired checks the comparisons of methods, given their figures by the score
// files.
func (c *figureCheck) paired(methods []audit.Method) {
	want, err := onerun.Pair(methods)
	if err != nil {
		c.say("%s: %v", report.JSONFile, err)
		return
	}
	if len(c.report.Paired) != len(want) {
		c.say("%s: %d comparisons of methods, expected %d", report.JSONFile, len(c.report.Paired), len(want))
		return
	}
	for i, w := range want {
		have := c.report.Paired[i]
		where := w.Method + " against " + w.Baseline
		c.text(where+" method", w.Method, have.Method)
		c.text(where+" baseline", w.Baseline, have.Baseline)
		c.summary(where+" auc", w.AUC, have.AUC)
		c.summary(where+" tpr_at_fpr_0.05", w.TPR, have.TPR)
		c.same(where+" wins_auc", float64(w.WinsAUC), float64(have.WinsAUC))
		c.same(where+" wins_tpr", float64(w.WinsTPR), float64(have.WinsTPR))
		c.same(where+" runs", float64(w.Runs), float64(have.Runs))
	}
}

// orNone stands for a figure that is not known by a number that no figure is.
func orNone(v *float64) float64 {
	if v == nil {
		return math.Inf(-1)
	}
	return *v
}

// auditFigures is what one score file says.
type auditFigures struct {
	members                   int
	auc, tpr, lossIn, lossOut float64
}

func figuresOf(s audit.Scores) (f auditFigures, err error) {
	if f.auc, err = stats.AUC(s); err != nil {
		return f, err
	}
	if f.tpr, err = stats.TPRAtFPR(s, 1, 20); err != nil {
		return f, err
	}
	var sum [2]float64 // of losses outside and inside, in the order of the file
	for i, v := range s.Value {
		side := 0
		if s.Member[i] {
			f.members, side = f.members+1, 1
		}
		sum[side] -= v
	}
	f.lossIn = sum[1] / float64(f.members)
	f.lossOut = sum[0] / float64(len(s.Value)-f.members)
	return f, nil
}
