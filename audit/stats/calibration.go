package stats

import (
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/audit"
)

// Bin is candidates of like scores, in a calibration plot.
type Bin struct {
	Low, High  float64  // smallest and largest score
	MeanScore  float64  // the plot's abscissa
	Candidates int      // how many there are
	Members    int      // and how many of them are members
	Share      Estimate // of members, with its Clopper-Pearson interval
}

// Calibrate sorts the candidates into at most bins bins of equal count and
// says what share of each are members, with an interval at confidence 1-alpha
// for each bin on its own. Candidates that tie share a bin, so bins are only as
// equal as ties allow, and there may be fewer. Bins are in order of their
// scores, which may be on any scale but must be finite.
func Calibrate(s audit.Scores, bins int, alpha float64) ([]Bin, error) {
	if err := checkAlpha(alpha); err != nil {
		return nil, err
	}
	if bins < 1 {
		return nil, fmt.Errorf("stats: bins: %d, expected 1 or more", bins)
	}
	bs, _, _, err := blocks(s)
	if err != nil {
		return nil, err
	}
	slices.Reverse(bs) // lowest score first
	n := len(s.Value)
	bins = min(bins, n)
	var out []Bin
	done, edge := 0, 0 // candidates in bins; edge e is at e·n/bins candidates
	for _, b := range bs {
		if b.score-b.score != 0 {
			return nil, fmt.Errorf("stats: a score is %v: its bin would have no mean", b.score)
		}
		if done >= edge*n/bins {
			out = append(out, Bin{Low: b.score})
			for edge*n/bins <= done {
				edge++
			}
		}
		bin := &out[len(out)-1]
		bin.High = b.score
		bin.Candidates += b.members + b.others
		bin.Members += b.members
		// A running mean stays finite where a sum would not.
		bin.MeanScore += (b.score - bin.MeanScore) * (float64(b.members+b.others) / float64(bin.Candidates))
		done += b.members + b.others
	}
	for i := range out {
		bin := &out[i]
		bin.Share.Value = float64(bin.Members) / float64(bin.Candidates)
		if bin.Share.Low, bin.Share.High, err = BinomialInterval(bin.Members, bin.Candidates, alpha); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ECE is the expected calibration error of scores that are probabilities of
// membership: the mean over candidates of |share of members - mean score| in
// their bin, with the equal-count bins of Calibrate (Naeini, Cooper and
// Hauskrecht, AAAI 2015). It depends on the number of bins, and exceeds 0 by
// chance alone.
func ECE(s audit.Scores, bins int) (float64, error) {
	if err := checkProbabilities(s); err != nil {
		return 0, err
	}
	found, err := Calibrate(s, bins, .5) // the intervals are not used
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, b := range found {
		gap := b.Share.Value - b.MeanScore
		sum += float64(b.Candidates) * max(gap, -gap)
	}
	return sum / float64(len(s.Value)), nil
}

// Brier is the mean of (score - membership)² for scores that are probabilities
// of membership (Brier, Monthly Weather Review 78, 1950): 0 for a perfect
// attack, ¼ for one that always says ½.
func Brier(s audit.Scores) (float64, error) {
	if err := checkProbabilities(s); err != nil {
		return 0, err
	}
	sum := 0.0
	for i, v := range s.Value {
		if s.Member[i] {
			v = 1 - v
		}
		sum += v * v
	}
	return sum / float64(len(s.Value)), nil
}

// checkProbabilities refuses scores outside [0, 1].
func checkProbabilities(s audit.Scores) error {
	if err := s.Check(); err != nil {
		return err
	}
	for i, v := range s.Value {
		if !(v >= 0 && v <= 1) {
			return fmt.Errorf("stats: score %d is %v; want a probability from 0 to 1", i, v)
		}
	}
	return nil
}
