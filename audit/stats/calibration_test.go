package stats

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/aviary-audit/aviary/audit"
)

type calibrator func(s audit.Scores, bins int, alpha float64) ([]Bin, error)

// share is modular scores on a scale from 0 to 1.
func share() audit.Scores {
	s := modular(1009, false)
	for i := range s.Value {
		s.Value[i] /= 1009
	}
	return s
}

// checkCalibration compares with values computed in Python (numpy, scipy) and,
// for ties, on paper.
func checkCalibration(f calibrator) error {
	bins, err := f(share(), 8, .05)
	if err != nil {
		return err
	}
	if len(bins) != 8 {
		return fmt.Errorf("%d bins, want 8", len(bins))
	}
	b := bins[0]
	if b.Candidates != 125 || b.Members != 53 || b.Low != 0 || b.High != .12388503468780972 || b.Share.Value != 53./125 ||
		!near(b.MeanScore, .06194648166501487, 1e-13) || !near(b.Share.Low, .3361236639692546, 1e-9) || !near(b.Share.High, .5155619192498164, 1e-9) {
		return fmt.Errorf("first bin %+v", b)
	}
	// tiny has the scores 0 0 1 1 2 2 2 3: halves would cut the 2s.
	if bins, err = f(tiny(), 2, .05); err != nil {
		return err
	}
	want := []Bin{{Low: 0, High: 1, MeanScore: .5, Candidates: 4, Members: 1}, {Low: 2, High: 3, MeanScore: 2.25, Candidates: 4, Members: 3}}
	if fmt.Sprint(strip(bins)) != fmt.Sprint(want) {
		return fmt.Errorf("two bins %+v, want %+v", strip(bins), want)
	}
	// Thirds begin at the candidates 2 and 5, the second among the 2s.
	if bins, err = f(tiny(), 3, .05); err != nil {
		return err
	}
	want = []Bin{{Low: 0, High: 0, MeanScore: 0, Candidates: 2}, {Low: 1, High: 2, MeanScore: 1.6, Candidates: 5, Members: 3}, {Low: 3, High: 3, MeanScore: 3, Candidates: 1, Members: 1}}
	if fmt.Sprint(strip(bins)) != fmt.Sprint(want) {
		return fmt.Errorf("three bins %+v, want %+v", strip(bins), want)
	}
	return nil
}

// strip leaves out the intervals.
func strip(bins []Bin) []Bin {
	out := slices.Clone(bins)
	for i := range out {
		out[i].Share = Estimate{}
	}
	return out
}

func TestCalibrate(t *testing.T) {
	if err := checkCalibration(Calibrate); err != nil {
		t.Error(err)
	}
}

func TestPlantedCalibrationFaults(t *testing.T) {
	// Bins cut at equal counts, through ties, in the order of the file.
	cut := func(s audit.Scores, n int, alpha float64) ([]Bin, error) {
		untied := audit.Scores{Value: slices.Clone(s.Value), Member: s.Member}
		for i := range untied.Value {
			untied.Value[i] += 1e-9 * float64(i)
		}
		bins, err := Calibrate(untied, n, alpha)
		for i := range bins {
			bins[i].Low, bins[i].High = math.Floor(bins[i].Low), math.Floor(bins[i].High)
			bins[i].MeanScore = math.Round(bins[i].MeanScore*1e6) / 1e6
		}
		return bins, err
	}
	// Bins of equal width.
	wide := func(s audit.Scores, n int, alpha float64) ([]Bin, error) {
		grouped := audit.Scores{Value: slices.Clone(s.Value), Member: s.Member}
		most := slices.Max(s.Value)
		for i, v := range s.Value {
			grouped.Value[i] = math.Min(math.Floor(v/most*float64(n)), float64(n-1))
		}
		return Calibrate(grouped, n, alpha)
	}
	oneSided := func(s audit.Scores, n int, alpha float64) ([]Bin, error) { return Calibrate(s, n, 2*alpha) }
	oneFewer := func(s audit.Scores, n int, alpha float64) ([]Bin, error) { return Calibrate(s, n-1, alpha) }
	for name, f := range map[string]calibrator{"ties cut": cut, "equal widths": wide, "one-sided level": oneSided, "one bin fewer": oneFewer} {
		if checkCalibration(f) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
}

// TestCalibrateProperties: bins hold every candidate once, in order, and no
// more in one than its part and one tie.
func TestCalibrateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScores(t)
		n := rapid.IntRange(1, 40).Draw(t, "bins")
		bins, err := Calibrate(s, n, .05)
		if err != nil {
			t.Fatal(err)
		}
		if len(bins) > n {
			t.Errorf("%d bins, want %d at most", len(bins), n)
		}
		largest := map[float64]int{}
		tie := 0
		for _, v := range s.Value {
			largest[v]++
			tie = max(tie, largest[v])
		}
		candidates, members := 0, 0
		for i, b := range bins {
			candidates += b.Candidates
			members += b.Members
			slack := 1e-12 * (1 + math.Abs(b.High) + math.Abs(b.Low)) // of the mean's roundings
			if !(b.Low <= b.MeanScore+slack && b.MeanScore <= b.High+slack) || i > 0 && !(b.Low > bins[i-1].High) {
				t.Errorf("bin %d of %+v", i, bins)
			}
			if b.Candidates < 1 || b.Candidates > (len(s.Value)+n-1)/n+tie {
				t.Errorf("%d of %d candidates in one of %d bins, with ties of %d", b.Candidates, len(s.Value), n, tie)
			}
			if !(b.Share.Low <= b.Share.Value && b.Share.Value <= b.Share.High) {
				t.Errorf("share %+v", b.Share)
			}
		}
		if candidates != len(s.Value) || members != len(split(s)[0]) {
			t.Errorf("%d candidates and %d members in bins", candidates, members)
		}
	})
}

// checkProper compares the figures of probabilities with Python's (numpy, and
// scikit-learn's brier_score_loss) to 1e-13: sums of 1000 terms.
func checkProper(ece func(audit.Scores, int) (float64, error), brier func(audit.Scores) (float64, error)) error {
	if got, err := brier(share()); err != nil || !near(got, .33272739693600023, 1e-13) {
		return fmt.Errorf("Brier score %v, %v", got, err)
	}
	if got, err := ece(share(), 8); err != nil || !near(got, .25062933597621406, 1e-13) {
		return fmt.Errorf("ECE %v, %v", got, err)
	}
	// One bin of 3 with no member at .1 and one of 1 with a member at .7.
	s := audit.Scores{Value: []float64{.1, .1, .1, .7}, Member: []bool{false, false, false, true}}
	if got, err := ece(s, 2); err != nil || !near(got, .75*.1+.25*.3, 1e-14) {
		return fmt.Errorf("ECE of unequal bins %v, %v", got, err)
	}
	return nil
}

func TestECEAndBrier(t *testing.T) {
	if err := checkProper(ECE, Brier); err != nil {
		t.Error(err)
	}
	unweighted := func(s audit.Scores, n int) (float64, error) {
		bins, err := Calibrate(s, n, .5)
		sum := 0.0
		for _, b := range bins {
			sum += math.Abs(b.Share.Value-b.MeanScore) / float64(len(bins))
		}
		return sum, err
	}
	turned := func(s audit.Scores) (float64, error) {
		m := slices.Clone(s.Member)
		for i := range m {
			m[i] = !m[i]
		}
		return Brier(audit.Scores{Value: s.Value, Member: m})
	}
	if checkProper(unweighted, Brier) == nil || checkProper(ECE, turned) == nil {
		t.Error("not noticed: bins all weighing alike, or membership turned round")
	}
}

func TestCalibrationRefuses(t *testing.T) {
	good := share()
	out := audit.Scores{Value: []float64{.5, 1.5}, Member: []bool{true, false}}
	infinite := audit.Scores{Value: []float64{.5, inf}, Member: []bool{true, false}}
	for _, c := range []struct {
		want string
		err  error
	}{
		{"bins: 0", third(Calibrate(good, 0, .05))},
		{"alpha: 2", third(Calibrate(good, 5, 2))},
		{"+Inf", third(Calibrate(infinite, 5, .05))},
		{"both sides", third(Calibrate(audit.Scores{}, 5, .05))},
		{"score 1 is 1.5", fourth(Brier(out))},
		{"score 1 is 1.5", fourth(ECE(out, 5))},
		{"bins: -1", fourth(ECE(good, -1))},
		{"both sides", fourth(Brier(audit.Scores{}))},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("error %v, want %q", c.err, c.want)
		}
	}
}

func third(_ []Bin, err error) error    { return err }
func fourth(_ float64, err error) error { return err }
