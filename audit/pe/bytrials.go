package pe

import "math"

// ByTrials is what the best of an attack's canaries proves on average with so many
// trials, each with the threshold that is best for it.
type ByTrials struct {
	Attack string    // "" for a perfect canary
	Trials []float64 // in each world
	Best   []float64
}

// ByTrials is the curves of a perfect canary and of each attack's canary with the
// largest exact ε, from 1e4 to 1e9 trials.
func (a *Audit) ByTrials(r *Result) ([]ByTrials, error) {
	ideal, err := NewLaw(perfect(a.Mechanism.Rate, a.Mechanism.Noise))
	if err != nil {
		return nil, err
	}
	curve, err := a.byTrials("", ideal)
	if err != nil {
		return nil, err
	}
	all := []ByTrials{curve}
	for _, at := range r.Attacks {
		best := at.Canaries[0]
		for _, c := range at.Canaries {
			if c.Exact.Estimate > best.Exact.Estimate {
				best = c
			}
		}
		if best.law == nil { // the attack is blind for all canaries
			all = append(all, ByTrials{at.Attack, curve.Trials, make([]float64, len(curve.Trials))})
			continue
		}
		curve, err := a.byTrials(at.Attack, best.law)
		if err != nil {
			return nil, err
		}
		all = append(all, curve)
	}
	return all, nil
}

func (a *Audit) byTrials(attack string, l Tails) (ByTrials, error) {
	t := ByTrials{Attack: attack}
	for i := 4; i <= 9; i++ {
		n := math.Pow(10, float64(i))
		p := a.Protocol
		p.Trials = int(n)
		e, err := p.best(l)
		if err != nil {
			return t, err
		}
		t.Trials, t.Best = append(t.Trials, n), append(t.Best, e.Best)
	}
	return t, nil
}
