package train

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Schedule is the factor by which the learning rate of step (from 0) of a run
// of total steps is multiplied.
type Schedule func(step, total int) float64

// ParseSchedule reads a schedule:
//
//	constant           1
//	cosine             (1 + cos(π step/total))/2 (Loshchilov and Hutter 2017)
//	step:F@P1,P2,...   F to the power of how many of the fractions P have passed
//
// For instance step:0.1@0.5,0.75 divides the rate by ten after one half and
// after three quarters of the steps. "" is constant.
func ParseSchedule(s string) (Schedule, error) {
	kind, args, _ := strings.Cut(s, ":")
	switch {
	case s == "" || s == "constant":
		return func(int, int) float64 { return 1 }, nil
	case s == "cosine":
		return func(step, total int) float64 {
			return (1 + math.Cos(math.Pi*float64(step)/float64(total))) / 2
		}, nil
	case kind == "step":
		return parseSteps(s, args)
	}
	return nil, fmt.Errorf("train: schedule is %q, expected constant, cosine or step:FACTOR@FRACTION,... as in step:0.1@0.5,0.75", s)
}

func parseSteps(s, args string) (Schedule, error) {
	word, list, _ := strings.Cut(args, "@")
	factor, err := strconv.ParseFloat(word, 64)
	if err != nil || !(factor > 0) || math.IsInf(factor, 0) {
		return nil, fmt.Errorf("train: schedule %q: factor %q is not a positive number", s, word)
	}
	var at []float64
	for _, word := range strings.Split(list, ",") {
		f, err := strconv.ParseFloat(word, 64)
		if err != nil || !(f > 0 && f < 1) {
			return nil, fmt.Errorf("train: schedule %q: %q is not a fraction of the steps between 0 and 1", s, word)
		}
		at = append(at, f)
	}
	return func(step, total int) float64 {
		rate := 1.0
		for _, f := range at {
			if float64(step) >= f*float64(total) {
				rate *= factor
			}
		}
		return rate
	}, nil
}
