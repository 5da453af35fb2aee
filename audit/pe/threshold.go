package pe

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/aviary-audit/aviary/audit/stats"
)

// For names what a threshold is locked for: different bounds are largest at
// different thresholds, and all are counted in the same trials.
type For string

// The purposes of thresholds.
const (
	ForEach    For = "each"    // the protocol's bound of each canary
	ForReverse For = "reverse" // its reverse direction, if that has a threshold of its own
	ForJoint   For = "joint"   // the joint test
	ForPooled  For = "pooled"  // the protocol's bound of all canaries' trials together
	ForFamily  For = "family"  // the bound within the Poisson-sampled Gaussians
)

// Threshold is a locked τ: a statistic at or above it means "took part".
type Threshold struct {
	For For     `json:"for"`
	Tau float64 `json:"tau"`
}

// Purposes are those that thresholds are locked for. The family is that of one
// release, and of no use for several.
func (p Protocol) Purposes(releases int) []For {
	list := []For{ForEach}
	if p.TwoThresholds {
		list = append(list, ForReverse)
	}
	list = append(list, ForJoint, ForPooled)
	if releases == 1 {
		list = append(list, ForFamily)
	}
	return list
}

// claim is a bound and its part of the level.
type claim struct {
	estimator stats.Estimator[stats.Counts]
	level     float64 // with which it may be wrong
	trials    int     // in each world
	// reverse asks how far non-members are called so more often than members.
	reverse bool
}

// level is the error of one canary's bound.
func (p Protocol) level() float64 { return p.Alpha / float64(p.Canaries) }

// claim is the bound that a threshold is for; rate is the family's.
func (p Protocol) claim(f For, rate float64) claim {
	each := stats.ClopperPearson{Delta: p.Delta, Bounds: p.Bounds}
	level := p.level()
	if p.TwoThresholds { // two bounds at each of the two
		each.Bounds = 2
		level /= 2
	}
	switch f {
	case ForReverse:
		return claim{each, level, p.Trials, true}
	case ForJoint:
		return claim{stats.Joint{Delta: p.Delta}, p.level(), p.Trials, false}
	case ForPooled:
		return claim{stats.ClopperPearson{Delta: p.Delta, Bounds: p.Bounds}, p.Alpha, p.Trials * p.Canaries, false}
	case ForFamily:
		return claim{stats.SubsampledGaussian{SampleRate: rate, Delta: p.Delta}, p.level(), p.Trials, false}
	}
	return claim{each, level, p.Trials, false}
}

func (t claim) counts(c Counts) stats.Counts {
	if t.reverse {
		return stats.Counts{FP: t.trials - c.TP, NonMembers: t.trials, TP: t.trials - c.FP, Members: t.trials}
	}
	return stats.Counts{FP: c.FP, NonMembers: t.trials, TP: c.TP, Members: t.trials}
}

func (t claim) lower(c Counts) (float64, error) { return t.estimator.Lower(t.counts(c), t.level) }

// EpsLower is the bound that counts at the locked thresholds prove of one of the
// canaries by the protocol.
func (p Protocol) EpsLower(counts map[For]Counts) (float64, error) {
	c, counted := counts[ForEach]
	if !counted {
		return 0, fmt.Errorf("pe: no counts at the threshold of the protocol's bound")
	}
	eps, err := p.claim(ForEach, 0).lower(c)
	if err != nil || !p.TwoThresholds {
		return eps, err
	}
	if c, counted = counts[ForReverse]; !counted {
		return 0, fmt.Errorf("pe: no counts at the threshold of the reverse direction")
	}
	reverse, err := p.claim(ForReverse, 0).lower(c)
	return math.Max(eps, reverse), err
}

// at is what the bound is worth where these rates are known: stats.AtExpected.
//
// The joint test takes milliseconds for one bound. It is given the lower end of a
// normal interval of ln((TPR-δ)/FPR) instead, whose top is near its own.
func (t claim) at(fpr, tpr float64) (float64, error) {
	n := float64(t.trials)
	if joint, is := t.estimator.(stats.Joint); is {
		if !(tpr > joint.Delta && fpr > 0) {
			return 0, nil
		}
		share := tpr / (tpr - joint.Delta)
		sd := math.Sqrt((share*share*(1-tpr)/tpr + (1-fpr)/fpr) / n)
		return math.Max(0, math.Log((tpr-joint.Delta)/fpr)-mathext.NormalQuantile(1-t.level)*sd), nil
	}
	if t.reverse {
		fpr, tpr = 1-tpr, 1-fpr
	}
	return stats.AtExpected(t.estimator, fpr*n, tpr*n, t.trials, t.level)
}

// Threshold is the τ that is best for a bound at the expected counts, given the law
// of the statistic, and that bound: what is locked on calibration users.
func (p Protocol) Threshold(l Tails, f For, rate float64) (tau, bound float64, err error) {
	t := p.claim(f, rate)
	at := func(tau float64) float64 {
		if err != nil {
			return 0
		}
		fpr, tpr := l.Rates(tau)
		var b float64
		b, err = t.at(fpr, tpr)
		return b
	}
	low, high := l.Range()
	tau, bound = maximise(at, low, high, 500)
	if bound == 0 { // nothing can be shown: the middle is as good as any
		tau = (low + high) / 2
	}
	return tau, bound, err
}

// Thresholds are the best for all purposes; rate is the participation rate.
func (p Protocol) Thresholds(l Tails, releases int, rate float64) ([]Threshold, error) {
	var list []Threshold
	for _, f := range p.Purposes(releases) {
		tau, _, err := p.Threshold(l, f, rate)
		if err != nil {
			return nil, err
		}
		list = append(list, Threshold{f, tau})
	}
	return list, nil
}

// empiricalPoints is the number of thresholds that the empirical rule compares.
const empiricalPoints = 200

// candidates are the thresholds that the empirical rule compares.
func candidates(l Tails) []float64 {
	low, high := l.Range()
	var list []float64
	for i := range empiricalPoints + 1 {
		list = append(list, low+(high-low)*float64(i)/empiricalPoints)
	}
	return list
}

// Empirical is the best of these thresholds for each purpose, by counts of trials on
// the calibration users.
func (p Protocol) Empirical(taus []float64, counts []Counts, releases int, rate float64) ([]Threshold, error) {
	var list []Threshold
	for _, f := range p.Purposes(releases) {
		t := p.claim(f, rate)
		best := Threshold{f, taus[len(taus)/2]}
		top := 0.0
		for i, tau := range taus {
			e, err := t.at(float64(counts[i].FP)/float64(p.Trials), float64(counts[i].TP)/float64(p.Trials))
			if err != nil {
				return nil, err
			}
			if e > top {
				top, best.Tau = e, tau
			}
		}
		list = append(list, best)
	}
	return list, nil
}
