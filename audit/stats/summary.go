package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/aviary-audit/aviary/audit"
)

var inf = math.Inf(1)

// Level is the confidence level of the intervals in summaries.
const Level = 0.95

// Summarize describes one figure over audits; sets[i] is the canary set that
// values[i] was measured on.
func Summarize(values []float64, sets []int) (audit.Summary, error) {
	s := audit.Summary{Values: slices.Clone(values)}
	var err error
	if s.Low, s.High, err = Interval(values, sets, Level); err != nil {
		return audit.Summary{}, err
	}
	s.Mean, s.Min = mean(values), slices.Min(values)
	if len(values) > 1 {
		sd := sampleSD(values)
		s.SD = &sd
	}
	return s, nil
}

// SummarizeRate is Summarize for figures that lie in [0, 1], such as AUC, TPR
// and accuracy. Their interval is intersected with [0, 1]: the expected figure
// lies there, so that the cut takes away no chance of covering it. The interval
// is never empty, since the mean is in both.
func SummarizeRate(values []float64, sets []int) (audit.Summary, error) {
	for i, v := range values {
		if !(v >= 0 && v <= 1) {
			return audit.Summary{}, fmt.Errorf("stats: value %d is %v; want a rate from 0 to 1", i, v)
		}
	}
	s, err := Summarize(values, sets)
	if err == nil && s.Low != nil {
		*s.Low, *s.High = max(*s.Low, 0), min(*s.High, 1)
	}
	return s, err
}

// Interval is a two-sided confidence interval of the expected figure,
// clustered by canary set. Audits of one set share its canaries and are not
// independent; the sets are, so the interval is that of the mean of k set
// means,
//
//	mean ± t_{k-1,(1+level)/2} · sd(set means) / √k,
//
// exact for normal set means. It is nil for fewer than two sets. Where all sets
// have equally many audits, as in every game, its middle is the plain mean.
func Interval(values []float64, sets []int, level float64) (low, high *float64, err error) {
	if err := check(values, sets); err != nil {
		return nil, nil, err
	}
	if !(level > 0 && level < 1) {
		return nil, nil, fmt.Errorf("stats: confidence level %v: want a number between 0 and 1", level)
	}
	means := setMeans(values, sets)
	k := float64(len(means))
	if k < 2 {
		return nil, nil, nil
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: k - 1}.Quantile((1 + level) / 2)
	half := t * sampleSD(means) / math.Sqrt(k)
	lo, hi := mean(means)-half, mean(means)+half
	return &lo, &hi, nil
}

func check(values []float64, sets []int) error {
	if len(values) == 0 {
		return fmt.Errorf("stats: no values to summarise")
	}
	if len(values) != len(sets) {
		return fmt.Errorf("stats: %d values for %d set numbers", len(values), len(sets))
	}
	for i, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("stats: value %d is %v; want a finite number", i, v)
		}
	}
	return nil
}

// setMeans returns the mean of each set, in ascending order of set number, so
// that the order of the audits changes no bits.
func setMeans(values []float64, sets []int) []float64 {
	groups := map[int][]float64{}
	for i, v := range values {
		groups[sets[i]] = append(groups[sets[i]], v)
	}
	numbers := make([]int, 0, len(groups))
	for n := range groups {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	means := make([]float64, len(numbers))
	for i, n := range numbers {
		slices.Sort(groups[n])
		means[i] = mean(groups[n])
	}
	return means
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// sampleSD is the standard deviation with n-1 in the denominator.
func sampleSD(x []float64) float64 {
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(x)-1))
}
