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
	return around([][]counted{boundSum(parts, d, 0), boundSum(parts, d, 1)}, dt, tail)
}

// boundSum is the sum of the losses' bounds from above (b = 0) or below (b = 1).
func boundSum(parts []part, d, b int) []counted {
	var sum []counted
	for _, pt := range parts {
		sum = append(sum, counted{pt.bounds[d][b], pt.count})
	}
	return sum
}

// guessWindow is the same for the guess, whose grid is coarser.
func guessWindow(parts []part, d int, dt, tail float64) window {
	var sum []counted
	for _, pt := range parts {
		sum = append(sum, counted{pt.guess[d], pt.count})
	}
	w := around([][]counted{sum}, dt*nearStep, tail)
	w.first *= nearStep
	w.points *= nearStep
	return w
}

// counted is a distribution and how often it is drawn from; a sum of losses is a
// list of them.
type counted struct {
	pmf
	count int
}

func around(sums [][]counted, dt, tail float64) window {
	high, over := chernoff(sums, dt, 1, tail)
	low, under := chernoff(sums, dt, -1, tail)
	first := int(math.Floor(-low/dt)) - 1
	return window{first, int(math.Ceil(high/dt)) + 2 - first, over + under}
}

// chernoff gives an end >= 0 and the mass, about tail, that any of the sums may
// have beyond it on the side of sign.
func chernoff(sums [][]counted, dt, sign, tail float64) (end, outside float64) {
	logTail := math.Log(tail)
	lambda, moment := make([]float64, len(sums)), make([]float64, len(sums))
	for b, sum := range sums {
		rough, every := coarse(sum)
		lambda[b] = bestLambda(rough, dt*float64(every), sign, logTail)
		moment[b] = logMoment(sum, dt, sign*lambda[b])
		end = math.Max(end, (moment[b]-logTail)/lambda[b])
	}
	for b := range sums {
		outside = math.Max(outside, math.Exp(moment[b]-lambda[b]*end))
	}
	return end, math.Min(1, outside)
}

// coarse is sum on a grid with some 512 nodes, every'th of them, to look for a
// good λ; any λ is valid.
func coarse(sum []counted) (rough []counted, every int) {
	every = 1
	for _, c := range sum {
		every = max(every, len(c.p)/512)
	}
	node := func(i int) int { return int(math.Floor(float64(i) / float64(every))) }
	for _, c := range sum {
		first := node(c.first)
		p := make([]float64, node(c.first+len(c.p)-1)-first+1)
		for j, v := range c.p {
			p[node(c.first+j)-first] += v
		}
		rough = append(rough, counted{pmf{first: first, p: p}, c.count})
	}
	return rough, every
}

// bestLambda looks for the λ that gives the narrowest bound.
func bestLambda(sum []counted, dt, sign, logTail float64) float64 {
	bound := func(logLambda float64) float64 {
		lambda := math.Exp(logLambda)
		return (logMoment(sum, dt, sign*lambda) - logTail) / lambda
	}
	reach := 0.0 // the greatest |S|; λ times it must keep its digits in an exponent
	for _, c := range sum {
		reach += float64(c.count) * dt * math.Max(math.Abs(float64(c.first)), math.Abs(float64(c.first+len(c.p)-1)))
	}
	low, high := math.Log(1e-3), math.Log(math.Max(1e-2, math.Min(1e15, 1e10/reach)))
	for range 25 {
		left, right := low+(high-low)/3, high-(high-low)/3
		if bound(left) <= bound(right) {
			high = right
		} else {
			low = left
		}
	}
	return math.Exp((low + high) / 2)
}

// logMoment is ln E[e^(λS)] of the composition, over nodes of positive mass.
func logMoment(sum []counted, dt, lambda float64) float64 {
	total := 0.0
	for _, c := range sum {
		low, high := 0, len(c.p)-1
		for low < high && !(c.p[low] > 0) {
			low++
		}
		for high > low && !(c.p[high] > 0) {
			high--
		}
		// The largest term is set apart, so that it neither over- nor underflows.
		top := math.Max(lambda*float64(c.first+low)*dt, lambda*float64(c.first+high)*dt)
		moment := 0.0
		weight, grow := 0.0, math.Exp(lambda*dt)
		for j := low; j <= high; j++ {
			if weight *= grow; j&127 == 0 || j == low || !(weight > 1e-290 && weight < 2) { // found afresh
				weight = math.Exp(lambda*float64(c.first+j)*dt - top)
			}
			if v := c.p[j]; v > 0 {
				moment += v * weight
			}
		}
		total += float64(c.count) * (top + math.Log(moment))
	}
	return total
}
