package report

import (
	"fmt"
	"math"
	"sort"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// methodScores is what the plots need of one method.
type methodScores struct {
	audit.Method
	roc     [][]stats.Point // of each run
	in, out []float64       // scores of all runs, by membership
	low     []lowFPR
}

// lowFPR is the mean over audits of the TPR at FPR 1/Den.
type lowFPR struct {
	Den int
	TPR float64
}

// The false positive rates of the table below the ROC: 1/den.
var fprDenominators = []int{1000, 100, 20, 10, 2}

func loadAll(r *audit.Report, load Loader) ([]methodScores, error) {
	methods := make([]methodScores, len(r.Methods))
	for i, m := range r.Methods {
		ms := &methods[i]
		ms.Method = m
		for _, den := range fprDenominators {
			ms.low = append(ms.low, lowFPR{Den: den})
		}
		for _, run := range m.Runs {
			s, err := load(run)
			if err != nil {
				return nil, err
			}
			if err := ms.add(run, s, r.Canaries); err != nil {
				return nil, fmt.Errorf("%s: %w", run.Scores, err)
			}
		}
	}
	return methods, nil
}

func (m *methodScores) add(run audit.Run, s audit.Scores, canaries int) error {
	roc, err := stats.ROC(s)
	if err != nil {
		return err
	}
	if last := roc[len(roc)-1]; last.TP != run.Members || last.TP+last.FP != canaries {
		return fmt.Errorf("%d members of %d canaries, but the report says %d of %d",
			last.TP, last.TP+last.FP, run.Members, canaries)
	}
	m.roc = append(m.roc, roc)
	for i, v := range s.Value {
		if s.Member[i] {
			m.in = append(m.in, v)
		} else {
			m.out = append(m.out, v)
		}
	}
	for i := range m.low {
		tpr, err := stats.TPRAtFPR(s, 1, m.low[i].Den)
		if err != nil {
			return err
		}
		m.low[i].TPR += tpr / float64(len(m.Runs))
	}
	return nil
}

// tprAt is the TPR of the last threshold whose FPR is at most fpr. It is for
// drawing; figures come from stats.TPRAtFPR, which compares integers.
func tprAt(roc []stats.Point, fpr float64) float64 {
	after := sort.Search(len(roc), func(i int) bool { return roc[i].FPR > fpr*(1+1e-12) })
	return roc[after-1].TPR // roc[0] has FPR 0
}

// envelope is the mean, smallest and largest TPR over audits, at each fpr.
func envelope(rocs [][]stats.Point, fprs []float64) (mean, low, high []point) {
	for _, fpr := range fprs {
		sum, lo, hi := 0.0, 1.0, 0.0
		for _, roc := range rocs {
			tpr := tprAt(roc, fpr)
			sum, lo, hi = sum+tpr, min(lo, tpr), max(hi, tpr)
		}
		mean = append(mean, point{fpr, sum / float64(len(rocs))})
		low = append(low, point{fpr, lo})
		high = append(high, point{fpr, hi})
	}
	return mean, low, high
}

// logGrid is n points from lo to hi, evenly spaced in the logarithm.
func logGrid(lo, hi float64, n int) []float64 {
	grid := make([]float64, n)
	for i := range grid {
		grid[i] = lo * math.Pow(hi/lo, float64(i)/float64(n-1))
	}
	return grid
}
