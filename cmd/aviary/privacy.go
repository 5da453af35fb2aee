package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/aviary-audit/aviary/audit/accounting"
	"github.com/aviary-audit/aviary/models/train"
)

// checkPrivacy refuses settings of DP-SGD that do not go together.
func (s *settings) checkPrivacy() error {
	if !(s.delta > 0 && s.delta < 1) {
		return usageError("", "--delta is %v, expected a number above 0 and below 1", s.delta)
	}
	if len(s.targetEpsilon) == 0 {
		return nil
	}
	for _, e := range s.targetEpsilon {
		if eps, err := strconv.ParseFloat(e, 64); err != nil || !(eps > 0) || math.IsInf(eps, 1) {
			return usageError("", "--target-epsilon is %q, expected a number above 0", e)
		}
	}
	if s.clip == 0 {
		return usageError("add --clip C, the norm that the noise is relative to", "--target-epsilon without --clip")
	}
	if s.noiseMultiplier > 0 {
		return usageError("leave one of them out", "--target-epsilon finds the noise that --noise-multiplier %v gives", s.noiseMultiplier)
	}
	return nil
}

// sizes are the least and the most examples that a run trains on: the coins
// decide, and all but one in ten thousand runs lie within four standard
// deviations of the mean. Canaries of files may or may not displace examples.
func (j *job) sizes() (least, most int, err error) {
	m, n := j.game.NumCanaries, j.game.Data.Len()
	if m == 0 {
		return 0, 0, usageError("give --num-canaries M", "how private the training is depends on the number of canaries")
	}
	spread := int(math.Ceil(2 * math.Sqrt(float64(m))))
	least, most = max(1, n-m/2-spread), n-m/2+spread
	for _, kind := range j.settings.canaries {
		if isCanaryFile(kind) {
			most = n + m/2 + spread
		}
	}
	return least, most, nil
}

// privacy is what DP-SGD costs, over all sizes that the training set may have:
// the greatest sample rate and the most steps.
type privacy struct {
	noise       accounting.Noise
	least, most int
	epsilon     accounting.Interval
}

func (j *job) privacy() (privacy, error) {
	least, most, err := j.sizes()
	if err != nil {
		return privacy{}, err
	}
	return privacy{
		noise: accounting.Noise{
			SampleRate: math.Min(1, j.train.SampleRate(least)),
			Steps:      j.train.TotalSteps(most),
			Delta:      j.settings.delta,
		},
		least: least, most: most,
	}, nil
}

// calibrate finds the noise for --target-epsilon. It is rounded up to five
// digits, so that it is the same number on every machine.
func (j *job) calibrate() error {
	if len(j.settings.targetEpsilon) == 0 {
		return nil
	}
	target, err := strconv.ParseFloat(j.settings.targetEpsilon[0], 64)
	if err != nil {
		return err
	}
	p, err := j.privacy()
	if err != nil {
		return err
	}
	sigma, err := p.noise.Calibrate(target)
	if err != nil {
		return accountingError(err)
	}
	j.train.NoiseMultiplier = roundUp(sigma)
	return nil
}

// roundUp is the least number of five digits that is no smaller than v.
func roundUp(v float64) float64 {
	if v == 0 {
		return 0
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 4, 64), 64)
	if rounded < v {
		step := math.Pow(10, math.Floor(math.Log10(v))-4)
		rounded, _ = strconv.ParseFloat(strconv.FormatFloat(v+step/2, 'e', 4, 64), 64)
	}
	return rounded
}

// accounted says, as a number, for the recipe and for the notes of the report,
// which ε the training has at most; nil if that is not known.
func (j *job) accounted(c train.Config) (upper *float64, recipe, note string) {
	if c.NoiseMultiplier == 0 {
		return nil, "", "The training is DP-SGD without noise: it has no finite ε."
	}
	p, err := j.privacy()
	var curve *accounting.Curve
	if err == nil {
		curve, err = accounting.NewCurve(accounting.DPSGD(p.noise.SampleRate, c.NoiseMultiplier, p.noise.Steps), p.noise.Delta)
	}
	if err == nil {
		p.epsilon, err = curve.Epsilon(p.noise.Delta)
	}
	if err != nil {
		return nil, "", fmt.Sprintf("The training is DP-SGD. Its ε is not accounted: %s.", strings.TrimPrefix(err.Error(), "accounting: "))
	}
	eps := strconv.FormatFloat(math.Ceil(p.epsilon.Upper*1e4)/1e4, 'f', 4, 64)
	recipe = fmt.Sprintf("(ε, δ) = (%s, %s) for add/remove by %s at sample rate %.4g, %d steps",
		eps, formatFloat(p.noise.Delta), curve.Method(), p.noise.SampleRate, p.noise.Steps)
	if t := j.settings.targetEpsilon; len(t) > 0 {
		recipe += ", noise found for ε = " + t[0]
	}
	note = fmt.Sprintf("The training is DP-SGD with ε at most %s at δ = %s for an example added or removed, by %s accounting for %d steps and training sets of %d to %d examples, where the coins put all but about one run in ten thousand.",
		eps, formatFloat(p.noise.Delta), curve.Method(), p.noise.Steps, p.least, p.most)
	return &p.epsilon.Upper, recipe, note
}
