package accounting

import "math"

// window is where the loss of a composition lies, but for mass outside.
type window struct {
	first, points int
	outside       float64
}

// findWindow bounds the loss of direction d's composition on both sides by
// Chernoff's bound: P[S >= b] <= E[e^(λS)] e^(-λb). The transform is circular,
// so what lies outside the window comes back in at the wrong place; no more than
// the mass outside can go wrong.
func findWindow(parts []part, d int, dt, tail float64) window {
	high, over := chernoff(parts, d, dt, 1, tail)
	low, under := chernoff(parts, d, dt, -1, tail)
	first := int(math.Floor(-low/dt)) - 1
	return window{first, int(math.Ceil(high/dt)) + 2 - first, over + under}
}

// chernoff gives an end >= 0 and the mass, about tail, that S·sign may have
// beyond it, for the bounds from above and below both.
func chernoff(parts []part, d int, dt, sign, tail float64) (end, outside float64) {
	logTail := math.Log(tail)
	var lambda, moment [2]float64
	for b := range lambda {
		lambda[b] = bestLambda(coarse(parts, d, b), dt*coarseness, sign, logTail)
		moment[b] = logMoment(fine(parts, d, b), dt, sign*lambda[b])
		end = math.Max(end, (moment[b]-logTail)/lambda[b])
	}
	for b := range lambda {
		outside = math.Max(outside, math.Exp(moment[b]-lambda[b]*end))
	}
	return end, math.Min(1, outside)
}

// counted is a distribution and how often it is drawn from.
type counted struct {
	pmf
	count int
}

func fine(parts []part, d, b int) []counted {
	var all []counted
	for _, pt := range parts {
		all = append(all, counted{pt.bounds[d][b], pt.count})
	}
	return all
}

const coarseness = 32

// coarse is fine on a coarser grid, to look for a good λ; any λ is valid.
func coarse(parts []part, d, b int) []counted {
	all := fine(parts, d, b)
	for i, c := range all {
		first := int(math.Floor(float64(c.first) / coarseness))
		p := make([]float64, (c.first+len(c.p)-1)/coarseness-first+2)
		for j, v := range c.p {
			p[int(math.Floor(float64(c.first+j)/coarseness))-first] += v
		}
		all[i].pmf = pmf{first: first, p: p}
	}
	return all
}

// bestLambda looks for the λ that gives the narrowest bound.
func bestLambda(parts []counted, dt, sign, logTail float64) float64 {
	bound := func(logLambda float64) float64 {
		lambda := math.Exp(logLambda)
		return (logMoment(parts, dt, sign*lambda) - logTail) / lambda
	}
	low, high := math.Log(1e-3), math.Log(1e6)
	for range 40 {
		left, right := low+(high-low)/3, high-(high-low)/3
		if bound(left) <= bound(right) {
			high = right
		} else {
			low = left
		}
	}
	return math.Exp((low + high) / 2)
}

// logMoment is ln E[e^(λS)] of the composition.
func logMoment(parts []counted, dt, lambda float64) float64 {
	sum := 0.0
	for _, c := range parts {
		top := math.Max(lambda*float64(c.first)*dt, lambda*float64(c.first+len(c.p)-1)*dt)
		moment := 0.0
		for j, v := range c.p {
			if v > 0 {
				moment += v * math.Exp(lambda*float64(c.first+j)*dt-top)
			}
		}
		sum += float64(c.count) * (top + math.Log(moment))
	}
	return sum
}
