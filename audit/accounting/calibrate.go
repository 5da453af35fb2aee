package accounting

import (
	"fmt"
	"math"
)

// MaxNoise is the largest noise multiplier that calibration looks at, as in Opacus.
const MaxNoise = 1e6

// Noise is DP-SGD whose noise multiplier is wanted.
type Noise struct {
	SampleRate float64
	Steps      int
	Delta      float64
}

func (n Noise) check(target float64) error {
	if !(target > 0) || math.IsInf(target, 1) {
		return fmt.Errorf("accounting: target epsilon: %g is not a finite number above 0", target)
	}
	if _, err := flatten(DPSGD(n.SampleRate, 1, n.Steps)); err != nil {
		return err
	}
	return checkDelta(n.Delta)
}

// Calibrate gives the smallest noise multiplier, to about 1e-5 of it, whose
// accounted ε (Upper of NewCurve's interval) is at most target; 0 if no noise is
// needed, since nothing is released.
func (n Noise) Calibrate(target float64) (float64, error) {
	if err := n.check(target); err != nil {
		return 0, err
	}
	if n.free() {
		return 0, nil
	}
	// The estimate is found fast and is continuous in the noise.
	low, high := 0.0, 1.0 // ε(low) > target >= ε(high)
	for {
		eps, err := n.estimate(high)
		if err != nil {
			return 0, err
		}
		if eps <= target {
			break
		}
		if low, high = high, 2*high; high > MaxNoise {
			return 0, fmt.Errorf("accounting: target epsilon: %g needs a noise multiplier above %g", target, float64(MaxNoise))
		}
	}
	for low == 0 || high-low > 1e-7*high {
		mid := (low + high) / 2
		eps, err := n.estimate(mid)
		if err != nil {
			return 0, err
		}
		if eps <= target {
			high = mid
		} else {
			low = mid
		}
	}
	// The bound is what counts: add noise until it holds.
	for step := 1e-6; ; step *= 2 {
		curve, err := NewCurve(DPSGD(n.SampleRate, high, n.Steps), n.Delta)
		if err != nil {
			return 0, err
		}
		eps, err := curve.Epsilon(n.Delta)
		if err != nil {
			return 0, err
		}
		if eps.Upper <= target {
			return high, nil
		}
		high *= 1 + step
	}
}

// free reports whether no noise is needed for any ε: nothing is released, or a
// record takes part with probability δ at most.
func (n Noise) free() bool {
	return n.SampleRate == 0 || n.Steps == 0 || -math.Expm1(float64(n.Steps)*math.Log1p(-n.SampleRate)) <= n.Delta
}

// estimate is ε without bounds around it.
func (n Noise) estimate(noise float64) (float64, error) {
	f, err := flatten(DPSGD(n.SampleRate, noise, n.Steps))
	if err != nil {
		return 0, err
	}
	if mu, all := f.gaussians(); all {
		return gaussianEpsilon(mu, n.Delta), nil
	}
	var halves [2]*half
	_, err = fitting(firstStep(f, AddRemove, n.Delta), 0, func(dt float64) (err error) {
		halves, err = compose(f.phases, AddRemove, grid{dt: dt, tail: n.Delta * 1e-8, rough: true})
		return err
	})
	if err != nil {
		return 0, err
	}
	eps := 0.0
	for _, h := range halves {
		eps = math.Max(eps, solve(n.Delta, h.near))
	}
	return eps, nil
}

// OpacusKind is one of Opacus' accountants.
type OpacusKind string

// Opacus' accountants.
const (
	OpacusPRV OpacusKind = "prv"
	OpacusRDP OpacusKind = "rdp"
	OpacusGDP OpacusKind = "gdp"
)

// CalibrateOpacus gives the noise multiplier that Opacus' get_noise_multiplier
// gives, bit for bit: doubled from 10 until ε is at most target, then halved
// between until ε is less than 0.01 below target. Where ε stays further below
// however little noise there is, Opacus halves without end; this gives 0.
func (n Noise) CalibrateOpacus(target float64, kind OpacusKind) (float64, error) {
	if err := n.check(target); err != nil {
		return 0, err
	}
	epsilon := func(s float64) (float64, error) {
		e := DPSGD(n.SampleRate, s, n.Steps)
		switch kind {
		case OpacusPRV:
			return n.opacusNear(s, target)
		case OpacusRDP:
			eps, _, err := RDPEpsilon(e, n.Delta)
			return eps, err
		case OpacusGDP:
			g, err := GDPEpsilon(e, n.Delta)
			return g.Epsilon, err
		}
		return 0, fmt.Errorf("accounting: accountant: %q is none of prv, rdp and gdp", kind)
	}
	const tol = 0.01
	low, high, eps := 0.0, 10.0, math.Inf(1)
	var err error
	for eps > target {
		if high *= 2; high > MaxNoise {
			return 0, fmt.Errorf("accounting: target epsilon: %g needs a noise multiplier above %g", target, float64(MaxNoise))
		}
		if eps, err = epsilon(high); err != nil {
			return 0, err
		}
	}
	if n.SampleRate == 0 || n.Steps == 0 || kind == OpacusPRV && n.free() {
		return 0, nil
	}
	for target-eps > tol {
		mid := (low + high) / 2
		if mid == low || mid == high { // so seldom sampled that all accounts are 0
			return 0, nil
		}
		at, err := epsilon(mid)
		if err != nil {
			return 0, err
		}
		if at < target {
			high, eps = mid, at
		} else {
			low = mid
		}
	}
	return high, nil
}

// opacusNear is the ε that Opacus gives, or, where that is clearly on one side of
// target, an ε on the same side, found faster. Opacus is at least 0.009 above the
// exact ε, and, since δ/1000 moves ε by little, no more than 0.03 for the targets
// for which this is used.
func (n Noise) opacusNear(noise, target float64) (float64, error) {
	const far, largest = 0.05, 30
	if target <= largest {
		eps, err := n.estimate(noise)
		if err != nil {
			return 0, err
		}
		if eps >= target || eps < target-far {
			return eps + opacusError, nil
		}
	}
	v, err := Opacus(DPSGD(n.SampleRate, noise, n.Steps), n.Delta)
	return v.Upper, err
}
