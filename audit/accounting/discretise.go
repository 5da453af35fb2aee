package accounting

import (
	"math"
	"slices"
)

// A pmf is a privacy loss distribution on the grid of multiples of dt: the
// masses under P at the losses (first+j)·dt, and the mass at loss +∞. Under Q
// the mass at loss t is e^-t times that under P.
type pmf struct {
	first    int
	p        []float64
	infinite float64
}

// nodes gives the grid that covers a law, with a node to spare at both ends.
func nodes(l law, dt, tail float64) (first, n int) {
	low, high := l.span(tail)
	first = int(math.Floor(low/dt)) - 1
	return first, int(math.Ceil(high/dt)) + 2 - first
}

// above gives grid distributions whose hockey-stick curves k ↦ E[(P - kQ)+] lie
// on or above the law's, and so do those of their compositions. The mass of
// each cell between two nodes is shared between the two so that both its P and
// its Q are kept; in the plane of the curve that is drawing chords between its
// points at the nodes. Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022,
// "Connect the dots". The add direction is the mirror image.
func above(l law, dt, tail float64) (remove, add pmf) {
	first, n := nodes(l, dt, tail)
	p, q := make([]float64, n+1), make([]float64, n+1)
	l.cells(func(i int) float64 { return float64(first+i) * dt }, p, q)
	remove, add = pmf{first: first, p: make([]float64, n)}, pmf{first: 1 - first - n, p: make([]float64, n)}
	// share of the right node: P - e^left Q = right (1 - e^-dt)
	scale := -1 / math.Expm1(-dt)
	left := 0.0
	for j := range n {
		t := float64(first+j) * dt
		grow, shrink := math.Exp(t), math.Exp(-t)
		if j == 0 {
			remove.p[0] = p[0]
			add.infinite = math.Max(0, q[0]-p[0]*shrink)
		} else {
			right := math.Min(p[j], math.Max(0, (p[j]-left*q[j])*scale))
			remove.p[j-1] += p[j] - right
			remove.p[j] = right
		}
		if j == n-1 {
			right := math.Min(p[n], q[n]*grow)
			remove.p[j] += right
			remove.infinite = p[n] - right
		}
		left = grow
	}
	for j, v := range remove.p {
		add.p[n-1-j] = v * math.Exp(-float64(first+j)*dt)
	}
	return remove, add
}

// below gives grid distributions whose hockey-stick curves lie on or below the
// law's. See tangents.
func below(l law, dt, tail float64) (remove, add pmf) {
	first, n := nodes(l, dt, tail)
	p, q := make([]float64, n), make([]float64, n)
	l.cells(func(i int) float64 { return (float64(first+i) + 0.5) * dt }, p, q)
	remove = tangents(slices.Clone(p), slices.Clone(q), first, dt)
	slices.Reverse(p)
	slices.Reverse(q)
	return remove, tangents(q, p, 1-first-n, dt)
}

// tangents makes a grid distribution out of the masses of cells that each reach
// half a step around their node. The tangent to the law's curve h at the cell
// border m is L(k) = P[> m] - k Q[> m]; at a node, the smaller of the tangents
// at its two borders is taken. Lines between these points lie below one tangent
// each, hence below h; where they are not convex, their convex minorant lies
// lower still. Such a curve belongs to a pair of measures (Q's mass at a node is
// the turn of its slope there), which need not have mass one: composing keeps
// the order of curves of any pairs of measures, since the curve of a product is
// ∫ R(y) h(k S(y)/R(y)) dy.
//
// Tangents may be negative near the end of the support. The last node is the one
// before the first where that would happen; its cell takes all the mass above,
// so that the curve is zero from there on.
func tangents(p, q []float64, first int, dt float64) pmf {
	n := len(p)
	restP, restQ := 0.0, 0.0
	for j := n - 1; j > 0; j-- {
		restP, restQ = restP+p[j], restQ+q[j]
		if restP*math.Exp(-float64(first+j)*dt) < restQ {
			n = j
			p[j-1], q[j-1] = p[j-1]+restP, q[j-1]+restQ
			restP, restQ = 0, 0
		}
	}
	p, q = p[:n], q[:n]
	grow, up := math.Expm1(dt), math.Exp(dt)
	// The tangents at node j differ by k_j (e^-t_j P_j - Q_j).
	differ := func(j int) float64 {
		if j >= n {
			return 0
		}
		return p[j]*math.Exp(-float64(first+j)*dt) - q[j]
	}
	turn := make([]float64, n+1)
	last, here := 0.0, differ(0)
	for j := range n {
		next := differ(j + 1)
		right := (math.Max(0, -here) - up*math.Max(0, next)) / grow
		left := (math.Max(0, -last) - up*math.Max(0, here)) / grow
		if j == 0 {
			left = -math.Max(0, here) // the line from k = 0
		}
		turn[j] = q[j] + right - left
		last, here = here, next
	}
	convex(turn, dt)
	for j := range n {
		turn[j] *= math.Exp(float64(first+j) * dt)
	}
	return pmf{first: first, p: turn[:n]}
}

// convex replaces a polygon over the points k_j = e^(j dt) by its greatest
// convex minorant, given the turns of its slope at all but the last point, which
// is infinitely far. A node that turns the wrong way is cut off: its turn goes
// to its neighbours by the law of the lever. The line left of the first node
// starts at k = 0.
func convex(turn []float64, dt float64) {
	n := len(turn) - 1
	kept := make([]int, 0, n)
	for j := range n {
		kept = append(kept, j)
		for len(kept) > 0 && turn[kept[len(kept)-1]] < 0 {
			i := kept[len(kept)-1]
			kept = kept[:len(kept)-1]
			back := 0.0 // k of the neighbour on the left, over that of node i
			if len(kept) > 0 {
				back = math.Exp(float64(kept[len(kept)-1]-i) * dt)
			}
			rightShare := 1.0
			if j < n-1 {
				ahead := math.Exp(float64(j+1-i) * dt)
				rightShare = (1 - back) / (ahead - back)
			} else {
				rightShare = 0
			}
			if len(kept) > 0 {
				turn[kept[len(kept)-1]] += turn[i] * (1 - rightShare)
			}
			turn[j+1] += turn[i] * rightShare
			turn[i] = 0
		}
	}
}

// near gives grid distributions that are no bound, but closer to the law than
// above and below are: each sampled loss goes to its four nearest nodes so that
// its first three moments are kept (Lagrange's cubic). Some masses are negative.
func near(l law, dt float64, samples int) (remove, add pmf) {
	low, high := l.span(1e-20)
	first, n := int(math.Floor(low/dt))-3, int(math.Ceil(high/dt)-math.Floor(low/dt))+7
	remove, add = pmf{first: first, p: make([]float64, n)}, pmf{first: 1 - first - n, p: make([]float64, n)}
	l.sample(samples, func(loss, p, q float64) {
		at := loss/dt - float64(first)
		i := int(at)
		f := at - float64(i)
		for j, w := range [4]float64{
			-f * (f - 1) * (f - 2) / 6, (f + 1) * (f - 1) * (f - 2) / 2,
			-(f + 1) * f * (f - 2) / 2, (f + 1) * f * (f - 1) / 6,
		} {
			remove.p[i-1+j] += p * w
			add.p[n-i-j] += q * w
		}
	})
	return remove, add
}
