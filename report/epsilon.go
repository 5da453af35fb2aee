package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// paperRule is the guess rule that looks first and chooses then.
var paperRule = stats.PaperMaximum{}.Name()

// standing says in words for which mechanisms a bound holds.
func standing(b audit.Bound) string {
	family, ok := strings.CutPrefix(b.Scope, string(stats.Family("")))
	switch {
	case b.Sound:
		return "sound"
	case ok && b.Rule != paperRule:
		return strings.ToUpper(family) + " only"
	case b.Rule == paperRule:
		return "as papers, no bound"
	}
	return "estimate"
}

// boundName is the name of a bound's estimator for people.
func boundName(b audit.Bound) string {
	switch b.Estimator {
	case "steinke":
		return "Steinke"
	case "mahloujifar-eps-delta":
		return "f-DP"
	case "mahloujifar-gdp":
		return "GDP"
	}
	return b.Estimator
}

// checkBounds refuses bounds that say more than they may, and methods with
// other bounds than the first, which could not share a table.
func checkBounds(r *audit.Report) error {
	first := r.Methods[0].Bounds
	for _, m := range r.Methods {
		if len(m.Bounds) != len(first) {
			return fmt.Errorf("report: %s has %d bounds, %s has %d", m.Name, len(m.Bounds), r.Methods[0].Name, len(first))
		}
		for i, b := range m.Bounds {
			name := fmt.Sprintf("%s: bound by %s, rule %s", m.Name, b.Estimator, b.Rule)
			if b.Sound && (!stats.Scope(b.Scope).Sound() || b.Rule == paperRule) {
				return fmt.Errorf("report: %s: it is called sound, and its scope is %q", name, b.Scope)
			}
			if b.Rule == paperRule && b.Scope != string(stats.Estimated) {
				return fmt.Errorf("report: %s: its scope is %q, expected %q: the number of guesses was chosen by the result", name, b.Scope, stats.Estimated)
			}
			if b.Estimator != first[i].Estimator || b.Rule != first[i].Rule || b.Delta != r.Delta {
				return fmt.Errorf("report: %s, δ = %v: expected %s, rule %s, δ = %v as in the report's first method and header",
					name, b.Delta, first[i].Estimator, first[i].Rule, r.Delta)
			}
			for _, eps := range append([]float64{b.Epsilon.Mean, b.Epsilon.Min}, b.Epsilon.Values...) {
				if !finite(eps) || eps < 0 {
					return fmt.Errorf("report: %s: ε is %v, expected a number from 0 up", name, eps)
				}
			}
		}
	}
	if e := r.Accounted; e != nil && !(*e >= 0 && finite(*e)) {
		return fmt.Errorf("report: the accounted ε is %v, expected a number from 0 up", *e)
	}
	return nil
}

// boundsView is the table of bounds: a column for each kind, under what it is
// worth.
type boundsView struct {
	Delta, Confidence string
	Guesses           int // of the rows whose guesses are fixed
	Groups            []boundsGroup
	Columns           []string
	Accounted         string // "" where it is not known
	Refuted           string // a sentence, "" if the bounds agree with the accounted ε
}

type boundsGroup struct {
	Name    string
	Columns int
}

// viewBounds is nil for a report without bounds.
func viewBounds(r *audit.Report) *boundsView {
	bounds := r.Methods[0].Bounds
	if len(bounds) == 0 {
		return nil
	}
	fixed := stats.DefaultGuesses(r.Canaries)
	v := &boundsView{Delta: significant(r.Delta), Confidence: percent(bounds[0].Confidence), Guesses: fixed.Plus + fixed.Minus, Refuted: refuted(r)}
	for _, b := range bounds {
		v.Columns = append(v.Columns, boundName(b))
		group := standing(b)
		if last := len(v.Groups) - 1; last >= 0 && v.Groups[last].Name == group {
			v.Groups[last].Columns++
		} else {
			v.Groups = append(v.Groups, boundsGroup{group, 1})
		}
	}
	if r.Accounted != nil {
		v.Accounted = fixedUp(*r.Accounted)
	}
	return v
}

// fixedUp rounds an upper bound up to three decimals.
func fixedUp(v float64) string { return fixed(math.Ceil(v*1e3) / 1e3) }

// boundsText writes the lower bounds on ε of one or more reports as a table:
// a row for each report and method, a column for each kind of bound.
func boundsText(w io.Writer, reports []*audit.Report) error {
	v := viewBounds(reports[0])
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprint(t, "canaries")
	for i, b := range reports[0].Methods[0].Bounds {
		fmt.Fprintf(t, "\t%s (%s)", v.Columns[i], standing(b))
	}
	accounted := false
	for _, r := range reports {
		accounted = accounted || r.Accounted != nil
	}
	if accounted {
		fmt.Fprint(t, "\taccounted, at most")
	}
	fmt.Fprintln(t)
	for _, r := range reports {
		for _, m := range r.Methods {
			fmt.Fprint(t, m.Name)
			for _, b := range m.Bounds {
				fmt.Fprintf(t, "\t%s, min %s", spread(b.Epsilon), fixed(b.Epsilon.Min))
			}
			if r.Accounted != nil {
				fmt.Fprintf(t, "\t%s", fixedUp(*r.Accounted))
			} else if accounted {
				fmt.Fprint(t, "\t-")
			}
			fmt.Fprintln(t)
		}
	}
	return t.Flush()
}

// Epsilons writes, for a terminal, the lower bounds on ε of several reports of
// the same kinds of bounds, as of one recipe at several ε: sound columns beside
// the one that is comparable with papers, and what the accountant promises.
func Epsilons(w io.Writer, reports []*audit.Report) error {
	if len(reports) == 0 {
		return errors.New("report: no reports to compare")
	}
	for _, r := range reports {
		if err := check(r); err != nil {
			return err
		}
		if len(r.Methods[0].Bounds) == 0 || len(r.Methods[0].Bounds) != len(reports[0].Methods[0].Bounds) {
			return fmt.Errorf("report: %d bounds, expected as many in each report, and at least one", len(r.Methods[0].Bounds))
		}
	}
	fmt.Fprintln(w, boundsCaption(reports[0]))
	return boundsText(w, reports)
}

// boundsCaption stands above tables of text.
func boundsCaption(r *audit.Report) string {
	v := viewBounds(r)
	return fmt.Sprintf("Lower bounds on ε at δ = %s from %d of %d canaries guessed, mean over audits. Each audit's bound\nholds at %s; their mean is not itself a bound. \"As papers\" is the best of many looks:",
		v.Delta, v.Guesses, r.Canaries, v.Confidence)
}

// refuted says so where the sound bounds of some method exceed the accounted ε
// in more audits than a training that keeps its promise would give. The coins
// and the training's randomness are drawn anew for each audit, so the number of
// bounds that are wrong is at most binomial. The chance of a false alarm is that
// of a false finding, shared by all methods and sound bounds.
func refuted(r *audit.Report) string {
	if r.Accounted == nil {
		return ""
	}
	for _, m := range r.Methods {
		looks := 0
		for _, b := range m.Bounds {
			if b.Sound {
				looks++
			}
		}
		for _, b := range m.Bounds {
			above := 0
			for _, eps := range b.Epsilon.Values {
				if eps > *r.Accounted {
					above++
				}
			}
			if !b.Sound || above == 0 {
				continue
			}
			wrong := distuv.Binomial{N: float64(len(b.Epsilon.Values)), P: 1 - b.Confidence}
			if p := wrong.Survival(float64(above - 1)); p*float64(looks*len(r.Methods)) <= significance {
				return fmt.Sprintf("%s canaries: the bound of %s exceeds the accounted ε of %s in %d of %s. The training does not keep its promise, or the audit is broken.",
					capitalise(m.Name), boundName(b), fixedUp(*r.Accounted), above, count(len(b.Epsilon.Values), "audit"))
			}
		}
	}
	return ""
}
