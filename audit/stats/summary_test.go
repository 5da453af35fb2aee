package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

func TestSummarize(t *testing.T) {
	s, err := Summarize([]float64{1, 3, 5, 7}, []int{0, 0, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	// Set means 2 and 6: sd 2√2, half width t_{1,.975}·2√2/√2 = 12.7062·2.
	if s.Mean != 4 || s.Min != 1 || !(math.Abs(*s.SD-math.Sqrt(20./3)) <= 1e-15) {
		t.Errorf("got %+v", s)
	}
	const half = 2 * 12.706204736 // tables of Student's t, ten digits
	if !(math.Abs(*s.Low-(4-half)) <= 1e-8) || !(math.Abs(*s.High-(4+half)) <= 1e-8) {
		t.Errorf("interval [%v, %v], want 4 ± %v", *s.Low, *s.High, half)
	}
}

func TestSummarizeOneValueOneSet(t *testing.T) {
	s, err := Summarize([]float64{.5}, []int{0})
	if err != nil {
		t.Fatal(err)
	}
	if s.SD != nil || s.Low != nil || s.High != nil || s.Mean != .5 || s.Min != .5 {
		t.Errorf("one value: %+v", s)
	}
	if s, err = Summarize([]float64{.5, .7}, []int{3, 3}); err != nil {
		t.Fatal(err)
	}
	if s.SD == nil || s.Low != nil || s.High != nil {
		t.Errorf("one set: %+v", s)
	}
}

func TestSummarizeRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		sets   []int
	}{
		"empty":   {nil, nil},
		"NaN":     {[]float64{1, math.NaN()}, []int{0, 1}},
		"Inf":     {[]float64{1, math.Inf(-1)}, []int{0, 1}},
		"lengths": {[]float64{1, 2}, []int{0}},
	} {
		if _, err := Summarize(c.values, c.sets); err == nil {
			t.Errorf("took %s", name)
		}
	}
	for _, level := range []float64{0, 1, -1, math.NaN()} {
		if _, _, err := Interval([]float64{1, 2}, []int{0, 1}, level); err == nil {
			t.Errorf("took the level %v", level)
		}
	}
}

// interval is what Interval must look like, so that a fault can be planted.
type interval func(values []float64, sets []int, level float64) (low, high *float64, err error)

// checkCoverage draws audits in 5 sets of 4, with set and audit effects of the
// same size, and counts how often the interval holds the true mean 0.
func checkCoverage(f interval) error {
	const draws, nsets, audits = 4000, 5, 4
	rng := rand.New(rand.NewPCG(3, 5))
	held := 0
	values, sets := make([]float64, nsets*audits), make([]int, nsets*audits)
	for range draws {
		for s := range nsets {
			effect := rng.NormFloat64()
			for a := range audits {
				values[s*audits+a] = effect + rng.NormFloat64()
				sets[s*audits+a] = s
			}
		}
		low, high, err := f(values, sets, Level)
		if err != nil {
			return err
		}
		if *low <= 0 && 0 <= *high {
			held++
		}
	}
	// Exact for normal effects, so held is binomial; five standard errors.
	if tol := 5 * math.Sqrt(draws*Level*(1-Level)); !(math.Abs(float64(held)-draws*Level) <= tol) {
		return fmt.Errorf("held the mean %d times of %d, want %v ± %.0f", held, draws, draws*Level, tol)
	}
	return nil
}

func TestIntervalCovers(t *testing.T) {
	if err := checkCoverage(Interval); err != nil {
		t.Error(err)
	}
}

// TestPlantedNoClustering: taking every audit for a set of its own makes the
// interval too short, and the coverage check must see it.
func TestPlantedNoClustering(t *testing.T) {
	unclustered := func(values []float64, sets []int, level float64) (low, high *float64, err error) {
		each := make([]int, len(values))
		for i := range each {
			each[i] = i
		}
		return Interval(values, each, level)
	}
	if checkCoverage(unclustered) == nil {
		t.Error("the coverage check does not notice that the clustering is ignored")
	}
}

// A rate is in [0, 1], and so is its expectation: whatever else an interval
// covers is cut off, and nothing more.
func TestSummarizeRate(t *testing.T) {
	for _, c := range []struct {
		values    []float64
		low, high float64
	}{
		{[]float64{.05, .07}, 0, math.NaN()},             // reaches below 0, not above 1
		{[]float64{.99, .9}, math.NaN(), 1},              // reaches above 1, not below 0
		{[]float64{.1, .9}, 0, 1},                        // both
		{[]float64{.5, .501}, math.NaN(), math.NaN()},    // neither
		{[]float64{0, 0}, 0, 0}, {[]float64{1, 1}, 1, 1}, // a point
	} {
		sets := []int{0, 1}
		got, err := SummarizeRate(c.values, sets)
		if err != nil {
			t.Fatal(err)
		}
		free, err := Summarize(c.values, sets)
		if err != nil {
			t.Fatal(err)
		}
		for _, end := range []struct{ got, free, want float64 }{{*got.Low, *free.Low, c.low}, {*got.High, *free.High, c.high}} {
			if math.IsNaN(end.want) {
				end.want = end.free
			}
			if end.got != end.want || end.got < 0 || end.got > 1 {
				t.Errorf("%v: interval [%v, %v], uncut [%v, %v]", c.values, *got.Low, *got.High, *free.Low, *free.High)
			}
		}
		got.Low, got.High = free.Low, free.High
		if fmt.Sprint(got.Mean, *got.SD, got.Min, got.Values) != fmt.Sprint(free.Mean, *free.SD, free.Min, free.Values) {
			t.Errorf("%v: %+v, expected but for the interval %+v", c.values, got, free)
		}
	}
	if s, err := SummarizeRate([]float64{.5}, []int{0}); err != nil || s.Low != nil || s.High != nil {
		t.Errorf("one set: %+v, %v", s, err)
	}
	for _, bad := range [][]float64{{-.1, .5}, {.5, 1.1}, {math.NaN()}, nil} {
		if _, err := SummarizeRate(bad, make([]int, len(bad))); err == nil {
			t.Errorf("took %v", bad)
		}
	}
}
