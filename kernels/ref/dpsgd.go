package ref

import "math"

// SqNormOuter: dst[r] (+)= |dy[r,:]|² (|x[r,:]|² + (bias ? 1 : 0)). The
// gradient of a linear layer for example r is the outer product of x and dy, and
// dy for the bias: this is its squared norm.
func SqNormOuter(dst, x, dy []float64, rows, xcols, dycols int, bias, acc bool) {
	for r := range rows {
		xx := oneIf(bias)
		for _, v := range row(x, r, xcols) {
			xx += v * v
		}
		var dd float64
		for _, v := range row(dy, r, dycols) {
			dd += v * v
		}
		put(&dst[r], dd*xx, acc)
	}
}

// ClipFactor: with f = clip / sqrt(sq[r]), dst[r] = f > 1 ? 1 : f, and 1 where
// sq[r] = 0. A NaN stays one.
func ClipFactor(dst, sq []float64, clip float64) {
	for r := range dst {
		f := clip / math.Sqrt(sq[r])
		if f > 1 || sq[r] == 0 {
			f = 1
		}
		dst[r] = f
	}
}

// Update holds the scalars of SGD; its fields are those of kernels.SGD.
type Update struct {
	LR, Momentum, Decay, Scale, EMA float64
	Noise                           float64
	Seed, Step                      uint64
}

// SGD is one step of momentum SGD with noise; m and e may be nil:
//
//	g' = Scale g[i] + Noise z_i + Decay p[i]     z_i = NormalAt(i, Seed, Step)
//	m[i] = Momentum m[i] + g'                    without m: no momentum
//	p[i] = p[i] - LR m[i]                        without m: g'
//	e[i] = e[i] + (1 - EMA) (p[i] - e[i])        without e: no average
//
// Without noise (Noise = 0) no z_i is drawn.
func SGD(p, m, e, g []float64, s Update) {
	for i := range p {
		d := s.Scale*g[i] + s.Decay*p[i]
		if s.Noise != 0 {
			d += s.Noise * NormalAt(uint64(i), s.Seed, s.Step)
		}
		if m != nil {
			m[i] = s.Momentum*m[i] + d
			d = m[i]
		}
		p[i] -= s.LR * d
		if e != nil {
			e[i] += (1 - s.EMA) * (p[i] - e[i])
		}
	}
}
