package stats

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// SubsampledGaussian bounds ε within the family of one Poisson-sampled Gaussian
// release of a known sample rate q (the idea of Nasr et al. 2023, with the
// subsampled curve). The least distance that explains the rates is
//
//	d = Φ⁻¹((TPR_L - (1-q) FPR_U)/q) - Φ⁻¹(FPR_U),
//
// each rate at half the level, and ε that of noise multiplier 1/d. It says that
// no member of the family with a smaller d explains the counts.
type SubsampledGaussian struct{ SampleRate, Delta float64 }

// Name implements Estimator.
func (SubsampledGaussian) Name() string { return "family-subsampled-gaussian" }

// Scope implements Estimator.
func (SubsampledGaussian) Scope() Scope { return Family("subsampled-gaussian") }

// Assumption implements Estimator.
func (SubsampledGaussian) Assumption() string {
	return "independent runs of one Poisson-sampled Gaussian release of this rate"
}

// AtDelta implements Estimator.
func (e SubsampledGaussian) AtDelta() float64 { return e.Delta }

func (e SubsampledGaussian) check(c Counts, eps float64) error {
	if err := checkCounts(c, e.Delta, eps); err != nil {
		return err
	}
	if !(e.SampleRate > 0 && e.SampleRate <= 1) {
		return fmt.Errorf("stats: sample rate: %v is not above 0 and at most 1", e.SampleRate)
	}
	return checkFamilyDelta(e.Delta)
}

func (e SubsampledGaussian) lower(c Counts, alpha float64) (float64, error) {
	tpr := clopperPearsonLower(c.TP, c.Members, alpha/2)
	fpr := clopperPearsonUpper(c.FP, c.NonMembers, alpha/2)
	included := (tpr - (1-e.SampleRate)*fpr) / e.SampleRate
	if !(included > fpr) {
		return 0, nil
	}
	// More members called than the rate can include: no member explains it.
	d := math.Inf(1)
	if included < 1 {
		d = mathext.NormalQuantile(included) - mathext.NormalQuantile(fpr)
	}
	d = math.Min(d, maxMu)
	return sampledEps(e.SampleRate, 1/d, e.Delta)
}

// sampledEps is the exact ε at δ of one Poisson-sampled Gaussian release, of both
// directions the larger.
func sampledEps(q, sigma, delta float64) (float64, error) {
	if q == 1 {
		return gaussianEps(1/sigma, delta)
	}
	remove, add, err := accounting.SingleRelease(accounting.PoissonSampledGaussian{SampleRate: q, NoiseMultiplier: sigma}, delta)
	return math.Max(remove, add), err
}

// Lower implements Estimator.
func (e SubsampledGaussian) Lower(c Counts, alpha float64) (float64, error) {
	if err := e.check(c, 0); err != nil {
		return 0, err
	}
	if err := checkAlpha(alpha); err != nil {
		return 0, err
	}
	return e.lower(c, alpha)
}

// PValue implements Estimator, as ClopperPearson's does.
func (e SubsampledGaussian) PValue(c Counts, eps float64) (float64, error) {
	if err := e.check(c, eps); err != nil {
		return 0, err
	}
	var failed error
	p := leastAlpha(func(alpha float64) bool {
		low, err := e.lower(c, alpha)
		if err != nil {
			failed = err
		}
		return low > eps
	})
	return p, failed
}
