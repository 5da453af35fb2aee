package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aviary-audit/aviary/audit"
)

// significance is the chance that a report says "found" of any method when
// the scores know nothing of the coins. It is shared by all methods and by the
// two figures of each (Bonferroni). The warning of reversed scores, which is no
// finding, has the same chance of its own.
const significance = 0.01

// verdict is what an audit found with one kind of canary, in plain words.
type verdict struct {
	Method string
	Found  bool
	P      float64 // of the stronger of AUC and TPR, for this method alone
	// Reversed: the scores do tell members apart, but the wrong way round.
	Reversed bool
	Text     string
}

// verdicts says of each method whether it found anything, strongest first.
func verdicts(r *audit.Report) []verdict {
	vs := make([]verdict, 0, len(r.Methods))
	for _, m := range r.Methods {
		v := verdict{Method: m.Name, P: min(1, 2*min(aucPValue(r, m), tprPValue(r, m)))}
		v.Found = v.P*float64(len(r.Methods)) <= significance
		v.Reversed = !v.Found && reversedPValue(r, m)*float64(len(r.Methods)) <= significance
		v.Text = sentence(m, v)
		vs = append(vs, v)
	}
	slices.SortStableFunc(vs, func(a, b verdict) int {
		switch {
		case a.weight() != b.weight():
			return b.weight() - a.weight()
		case a.P < b.P:
			return -1
		case a.P > b.P:
			return 1
		}
		return 0
	})
	return vs
}

// weight says how much a verdict matters to a reader.
func (v verdict) weight() int {
	switch {
	case v.Found:
		return 2
	case v.Reversed:
		return 1
	}
	return 0
}

func sentence(m audit.Method, v verdict) string {
	auc := fmt.Sprintf("AUC %.2f", m.AUC.Mean)
	if len(m.Runs) > 1 {
		auc += fmt.Sprintf(" (min %.2f)", m.AUC.Min)
	}
	name := capitalise(m.Name)
	if v.Reversed {
		return fmt.Sprintf("%s canaries: %s, far below one half: the scores tell which were in, but the wrong way round. Are they losses, low for what a model has learnt?", name, auc)
	}
	if !v.Found {
		return fmt.Sprintf("%s canaries: %s; no evidence of leakage by this attack; this does not show that the training is private.", name, auc)
	}
	return fmt.Sprintf("%s canaries: %s; an attacker who accepts 5 %% false alarms finds %.0f %% of them.", name, auc, 100*m.TPR.Mean)
}

func capitalise(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// aucPValue is the chance of a mean AUC at least this large if the scores know
// nothing of the coins. Then, given how many coins fell on "in", each audit's
// AUC has mean 1/2 and variance (n₁+n₀+1)/(12 n₁n₀) (Mann and Whitney 1947;
// less with ties), and audits are independent even within a set, because their
// coins are.
func aucPValue(r *audit.Report, m audit.Method) float64 {
	return math.Erfc(aucZ(r, m)/math.Sqrt2) / 2
}

// reversedPValue is the chance of a mean AUC at most this small. An AUC near 0
// is leakage too, for an attacker who turns the scores round; most likely
// somebody gave confidences for losses.
func reversedPValue(r *audit.Report, m audit.Method) float64 {
	return math.Erfc(-aucZ(r, m)/math.Sqrt2) / 2
}

// aucZ is how many standard deviations the mean AUC is above 1/2.
func aucZ(r *audit.Report, m audit.Method) float64 {
	excess, variance := 0.0, 0.0
	for _, run := range m.Runs {
		n1, n0 := float64(run.Members), float64(r.Canaries-run.Members)
		excess += run.AUC - 0.5
		variance += (n1 + n0 + 1) / (12 * n1 * n0)
	}
	return excess / math.Sqrt(variance)
}

// tprPValue is the same for the number of members found at 5 % FPR. With k
// false alarms allowed among n₀ non-members, the members above non-member
// k+1 are beta-binomial(n₁; k+1, n₀-k) (Wilks 1942; fewer with ties); the sum
// over audits is convolved exactly.
func tprPValue(r *audit.Report, m audit.Method) float64 {
	found := 0
	total := []float64{1} // total[s]: probability of s members found so far
	for _, run := range m.Runs {
		n1, n0 := run.Members, r.Canaries-run.Members
		found += int(math.Round(run.TPR * float64(n1)))
		k := n0 / 20
		total = convolve(total, betaBinomial(n1, float64(k+1), float64(n0-k)))
	}
	p := 0.0
	for _, t := range total[min(found, len(total)):] {
		p += t
	}
	return p
}

// betaBinomial is the distribution of 0 to n successes.
func betaBinomial(n int, alpha, beta float64) []float64 {
	lbeta := func(a, b float64) float64 {
		x, _ := math.Lgamma(a)
		y, _ := math.Lgamma(b)
		z, _ := math.Lgamma(a + b)
		return x + y - z
	}
	p := make([]float64, n+1)
	for s := range p {
		choose := -math.Log(float64(n+1)) - lbeta(float64(n-s+1), float64(s+1))
		p[s] = math.Exp(choose + lbeta(float64(s)+alpha, float64(n-s)+beta) - lbeta(alpha, beta))
	}
	return p
}

// convolve is the distribution of a sum. Terms too small to matter are left
// out, which keeps large audits cheap.
func convolve(a, b []float64) []float64 {
	const negligible = 1e-18
	sum := make([]float64, len(a)+len(b)-1)
	for i, x := range a {
		if x < negligible {
			continue
		}
		for j, y := range b {
			if y > negligible {
				sum[i+j] += x * y
			}
		}
	}
	return sum
}
