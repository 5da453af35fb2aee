package report

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// With 500 members and 500 non-members and no leak, TPR at 5 % FPR has mean
// 26/501 and standard deviation 0.01401.
func TestBetaBinomial(t *testing.T) {
	p := betaBinomial(500, 26, 475)
	sum, mean, square := 0.0, 0.0, 0.0
	for s, v := range p {
		x := float64(s) / 500
		sum, mean, square = sum+v, mean+v*x, square+v*x*x
	}
	const tol = 1e-9 // Lgamma of 1e3 to 1e-16, times its size 6e3, times few terms
	if !(math.Abs(sum-1) <= tol) || !(math.Abs(mean-26.0/501) <= tol) {
		t.Errorf("sum %v, mean %v", sum, mean)
	}
	if sd := math.Sqrt(square - mean*mean); !(math.Abs(sd-0.01401) <= 5e-6) {
		t.Errorf("sd %v", sd)
	}
	q := convolve(p, p)
	twice := 0.0
	for s, v := range q {
		twice += v * float64(s) / 500
	}
	if !(math.Abs(twice-2*mean) <= tol) {
		t.Errorf("mean of the sum of two: %v, of one: %v", twice, mean)
	}
}

// findings plays games whose scores leak by gap standard deviations and
// counts those with a finding.
func findings(t *testing.T, games, canaries, audits int, gap float64) int {
	t.Helper()
	found := 0
	for game := range games {
		r := &audit.Report{Canaries: canaries, Methods: []audit.Method{{Name: "a"}, {Name: "b"}}}
		rng := rand.New(rand.NewPCG(uint64(game), uint64(canaries)))
		for i := range r.Methods {
			for range audits {
				var s audit.Scores
				run := audit.Run{}
				for range canaries {
					member := rng.IntN(2) == 1
					v := rng.NormFloat64()
					if member {
						v += gap
						run.Members++
					}
					s.Value, s.Member = append(s.Value, v), append(s.Member, member)
				}
				if s.Check() != nil {
					continue // all coins on one side: the game refuses it too
				}
				run.AUC = must(stats.AUC(s))(t)
				run.TPR = must(stats.TPRAtFPR(s, 1, 20))(t)
				r.Methods[i].Runs = append(r.Methods[i].Runs, run)
			}
		}
		for _, v := range verdicts(r) {
			if v.Found {
				found++
				break
			}
		}
	}
	return found
}

// Valid: without a leak at most 1 in 100 reports finds something, whatever the
// size. Powerful: a small leak is found.
func TestVerdictIsValidAndPowerful(t *testing.T) {
	const games = 600
	// Five standard errors above the level: a right rule fails once in 3 million.
	limit := games*significance + 5*math.Sqrt(games*significance*(1-significance))
	for _, size := range []struct{ canaries, audits int }{{12, 1}, {60, 2}, {200, 4}} {
		if n := findings(t, games, size.canaries, size.audits, 0); float64(n) > limit {
			t.Errorf("%v: %d of %d reports find something where nothing is, expected at most %.0f", size, n, games, limit)
		}
	}
	if n := findings(t, 100, 200, 4, 0.5); n < 95 {
		t.Errorf("a leak of half a standard deviation is found in %d of 100 reports", n)
	}
	// The planted fault: an AUC of 0.6 in one tiny audit is luck, and must not
	// be called a finding; the same in ten large audits must.
	for _, test := range []struct {
		canaries, runs int
		want           bool
	}{{20, 1, false}, {1000, 10, true}} {
		r := &audit.Report{Canaries: test.canaries, Methods: []audit.Method{{Name: "a"}}}
		for range test.runs {
			r.Methods[0].Runs = append(r.Methods[0].Runs, audit.Run{Members: test.canaries / 2, AUC: 0.6})
		}
		if got := verdicts(r)[0].Found; got != test.want {
			t.Errorf("AUC 0.6 in %d audits of %d canaries: found %v", test.runs, test.canaries, got)
		}
	}
}

func TestVerdictWords(t *testing.T) {
	r, _ := sample(t, 1000, 2, 2, leaky)
	vs := verdicts(r)
	if len(vs) != 2 || vs[0].Method != "mislabeled" || !vs[0].Found || vs[1].Found {
		t.Fatalf("%+v", vs)
	}
	m := r.Methods[1]
	m.AUC.Mean, m.AUC.Min, m.TPR.Mean = 0.793, 0.773, 0.2704
	const want = "Mislabeled canaries: AUC 0.79 (min 0.77); an attacker who accepts 5 % false alarms finds 27 % of them."
	if got := sentence(m, verdict{Found: true}); got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	none := vs[1].Text
	if !strings.Contains(none, "no evidence of leakage by this attack; this does not show that the training is private") {
		t.Error(none)
	}
}

// An AUC far below one half must not read as "no evidence": it is what comes of
// confidences that somebody took for losses. Chance must not look like it.
func TestVerdictReversed(t *testing.T) {
	for _, test := range []struct {
		auc            float64
		canaries, runs int
		want           bool
	}{{0.1, 40, 4, true}, {0.45, 1000, 10, true}, {0.4, 20, 1, false}, {0.5, 1000, 10, false}, {0.9, 40, 4, false}} {
		m := audit.Method{Name: "a", AUC: audit.Summary{Mean: test.auc, Min: test.auc}}
		for range test.runs {
			m.Runs = append(m.Runs, audit.Run{Members: test.canaries / 2, AUC: test.auc})
		}
		honest := audit.Method{Name: "honest"}
		for range test.runs {
			honest.Runs = append(honest.Runs, audit.Run{Members: test.canaries / 2, AUC: 0.5})
		}
		vs := verdicts(&audit.Report{Canaries: test.canaries, Methods: []audit.Method{honest, m}})
		v := vs[slices.IndexFunc(vs, func(v verdict) bool { return v.Method == "a" })]
		if v.Reversed != test.want || v.Reversed && (v.Found || vs[0].Method != "a") {
			t.Errorf("%+v: %+v", test, vs)
		}
		if told := strings.Contains(v.Text, "the wrong way round"); told != test.want || told && strings.Contains(v.Text, "no evidence") {
			t.Errorf("%+v: %q", test, v.Text)
		}
	}
}

func TestTextTellsNotes(t *testing.T) {
	r, _ := sample(t, 100, 1, 1, leaky)
	r.Notes = []string{"one.", "two."}
	var b strings.Builder
	if err := Text(&b, r); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), "\n\nnote: one.\nnote: two.\n") {
		t.Errorf("%q", b.String())
	}
}
