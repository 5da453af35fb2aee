package bench

import (
	"fmt"

	"github.com/aviary-audit/aviary/audit/accounting"
	"github.com/aviary-audit/aviary/audit/stats"
)

// The mechanism and the calibration of the accounting works.
// accounting_peers.py has the same.
var (
	Accounted       = accounting.DPSGD(0.01, 1, 10_000)
	AccountedDelta  = 1e-5
	Calibrated      = accounting.Noise{SampleRate: 0.04096, Steps: 2441, Delta: 1e-5}
	CalibratedUntil = 10.0
)

// cpuWork is a work that needs no device and keeps nothing.
func cpuWork(run func() error) *Work { return &Work{Run: run, Free: func() {}} }

// OpacusMesh is Opacus' number for Accounted, on Opacus' own mesh.
func OpacusMesh() *Work {
	return cpuWork(func() error {
		_, err := accounting.Opacus(Accounted, AccountedDelta)
		return err
	})
}

// Tight is ε of Accounted within MaxWidth, so that the middle is right to half
// of that, 1e-4.
func Tight() *Work {
	return cpuWork(func() error {
		c, err := accounting.NewCurve(Accounted, AccountedDelta)
		if err != nil {
			return err
		}
		v, err := c.Epsilon(AccountedDelta)
		if err == nil && !(v.Upper-v.Lower <= accounting.MaxWidth) {
			err = fmt.Errorf("bench: an interval %+v is not tight", v)
		}
		return err
	})
}

// Calibration finds the noise for an ε, tight.
func Calibration() *Work {
	return cpuWork(func() error {
		_, err := Calibrated.Calibrate(CalibratedUntil)
		return err
	})
}

// CalibrationOpacus finds the noise that Opacus finds.
func CalibrationOpacus() *Work {
	return cpuWork(func() error {
		_, err := Calibrated.CalibrateOpacus(CalibratedUntil, accounting.OpacusPRV)
		return err
	})
}

// The Clopper-Pearson bounds of one Run: a lower and an upper one for each of
// BoundCounts, as often as it takes.
const (
	Bounds      = 1000
	boundTrials = 1_000_000
	boundAlpha  = 0.005 // both sides
)

// BoundCounts go from hardly any success to one half.
var BoundCounts = []int{1, 10, 136, 10_000, 500_000}

// ClopperPearson is Bounds bounds.
func ClopperPearson() *Work {
	return cpuWork(func() error {
		for i := range Bounds / 2 {
			if _, _, err := stats.BinomialInterval(BoundCounts[i%len(BoundCounts)], boundTrials, boundAlpha); err != nil {
				return err
			}
		}
		return nil
	})
}
