package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

func sqNormOuterCase(f *fixture) {
	for _, rows := range []int{0, 1, 2, 15, 17, 70} {
		for _, cols := range [][2]int{{0, 3}, {3, 0}, {1, 1}, {3, 10}, {17, 33}, {16, 16}, {65, 31}, {785, 10}, {10, 785}} {
			for _, bias := range []bool{false, true} {
				for _, acc := range []bool{false, true} {
					// |x|² |dy|² < 785·2²·10·2² < 2²⁴
					f.sqNormOuter(rows, cols[0], cols[1], bias, acc, f.small, false)
					f.sqNormOuter(rows, cols[0], cols[1], bias, acc, f.normals, true)
				}
			}
		}
	}
	f.sqNormOuter(1000, 65, 10, true, true, f.small, false)
	f.sqNormOuter(9, 17, 33, true, false, func(n int) []float64 {
		x := f.integers(n)
		x[n/2] = math.NaN()
		return x
	}, false)
}

// small are the numbers ±1 and ±2.
func (f *fixture) small(n int) []float64 {
	x := f.integers(n)
	for i := range x {
		x[i] = math.Copysign(1+math.Mod(math.Abs(x[i]), 2), x[i])
	}
	return x
}

// sqNormOuter: all terms are positive, so relative errors add up: of the two
// sums, and of four more operations.
func (f *fixture) sqNormOuter(rows, xcols, dycols int, bias, acc bool, values func(int) []float64, rounds bool) {
	c := f.call("rows=%d %d %d bias=%v acc=%v", rows, xcols, dycols, bias, acc)
	x, dy, dst := c.in("x", values(rows*xcols)), c.in("dy", values(rows*dycols)), c.dst(rows, acc, values)
	ref.SqNormOuter(dst.want, x.before, dy.before, rows, xcols, dycols, bias, acc)
	if rounds {
		dst.tol = func(r int) float64 {
			square := dst.want[r]
			if acc {
				square -= dst.before[r]
			}
			return sumTol(f.unit, xcols+1, square) + sumTol(f.unit, dycols, square) +
				roundTol(f.unit, 4, square+math.Abs(dst.want[r]))
		}
	}
	c.run(func(dev kernels.Device) {
		dev.SqNormOuter(dst.Mem, x.Mem, dy.Mem, rows, xcols, dycols, bias, acc)
	})
}

func clipFactorCase(f *fixture) {
	for _, n := range []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 1000} {
		squares := make([]float64, n) // of powers of two: factors are exact
		for i := range squares {
			squares[i] = math.Ldexp(1, 2*(f.rng.IntN(20)-10))
		}
		f.clipFactor(squares, 4, false)
		f.clipFactor(absolute(f.scaled(n, 10)), rounded(1.7), true)
	}
	nan, inf := math.NaN(), math.Inf(1)
	f.clipFactor([]float64{0, math.Copysign(0, -1), inf, nan, 0x1p-149, 1e38, 4, 1, nan, -1}, 1, true)
	f.clipFactor([]float64{0, inf, nan, 3}, 0, false)
}

// clipFactor: one root and one quotient, and whatever the square of the factor
// adds where a device takes the root of a quotient.
func (f *fixture) clipFactor(squares []float64, clip float64, rounds bool) {
	c := f.call("n=%d clip=%v", len(squares), clip)
	sq, dst := c.in("sq", squares), c.dst(len(squares), false, nil)
	ref.ClipFactor(dst.want, squares, clip)
	if rounds {
		dst.tol = func(i int) float64 { return roundTol(f.unit, 3, dst.want[i]) }
	}
	c.run(func(dev kernels.Device) { dev.ClipFactor(dst.Mem, sq.Mem, clip) })
}

func sgdCase(f *fixture) {
	for _, n := range lengths {
		for _, with := range []struct{ m, e bool }{{true, true}, {false, false}, {true, false}, {false, true}} {
			if n > 10000 && !with.m {
				continue
			}
			// Halves and quarters of small integers: exact.
			f.sgd(n, with.m, with.e, f.integers, kernels.SGD{LR: 0.5, Momentum: 0.5, Decay: 0.25, Scale: 2, EMA: 0.75}, false)
			s := kernels.SGD{LR: rounded(0.1), Momentum: rounded(0.9), Decay: rounded(1e-4), Scale: rounded(1.0 / 256),
				EMA: rounded(0.9), Seed: f.rng.Uint64(), Step: f.rng.Uint64()}
			f.sgd(n, with.m, with.e, f.normals, s, true)
			s.Noise = rounded(0.03)
			f.sgd(n, with.m, with.e, f.normals, s, true)
		}
	}
	// Noise alone, so that no other term hides it.
	for step := range uint64(3) {
		f.sgd(1000, false, false, func(n int) []float64 { return make([]float64, n) },
			kernels.SGD{LR: -1, Noise: 1, Seed: 5, Step: step<<32 | 1}, true)
	}
	f.noiseIsNormal()
	f.sgd(33, true, true, f.broken, kernels.SGD{LR: 0.5, Momentum: 0.5, Scale: 1, EMA: 0.5}, false)
}

// noiseIsNormal: the noise of SGD is Normal's, to the last bit.
func (f *fixture) noiseIsNormal() {
	const n, seed, step = 1003, 1<<40 + 3, 1<<33 + 1
	c := f.call("noise alone and Normal")
	p, g, z := c.inout("p", fill(n, 0)), c.in("g", fill(n, 0)), c.inout("z", fill(n, 0))
	c.sameBits(p, z,
		func() {
			f.dev.SGD(p.Mem, kernels.Mem{}, kernels.Mem{}, g.Mem,
				kernels.SGD{LR: -1, Scale: 1, Noise: 1, Seed: seed, Step: step})
		},
		func() { f.dev.Normal(z.Mem, seed, step) })
}

func (f *fixture) sgd(n int, withM, withE bool, values func(int) []float64, s kernels.SGD, rounds bool) {
	c := f.call("n=%d m=%v e=%v %+v", n, withM, withE, s)
	p, g := c.inout("p", values(n)), c.in("g", values(n))
	m, e := &array{}, &array{} // none
	if withM {
		m = c.inout("m", values(n))
	}
	if withE {
		e = c.inout("e", values(n))
	}
	ref.SGD(p.want, m.want, e.want, g.before, ref.Update(s))
	if rounds {
		f.sgdTol(p, m, e, g, s)
	}
	c.run(func(dev kernels.Device) { dev.SGD(p.Mem, m.Mem, e.Mem, g.Mem, s) })
}

// sgdTol follows the formula: every scalar and every operation rounds once.
func (f *fixture) sgdTol(p, m, e, g *array, s kernels.SGD) {
	n := p.N
	tolM, tolP, tolE := make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range n {
		abs := math.Abs(s.Scale*g.before[i]) + math.Abs(s.Decay*p.before[i])
		var noise float64
		if s.Noise != 0 {
			u, _ := ref.Uniforms(uint64(i), s.Seed, s.Step)
			noise = s.Noise * normalTol(f.unit, u)
			abs += math.Abs(s.Noise * ref.NormalAt(uint64(i), s.Seed, s.Step))
		}
		if m.before != nil {
			abs += math.Abs(s.Momentum * m.before[i])
		}
		tolM[i] = noise + roundTol(f.unit, 5, abs)
		tolP[i] = math.Abs(s.LR)*tolM[i] + roundTol(f.unit, 3, math.Abs(s.LR)*abs+math.Abs(p.before[i]))
		if e.before != nil {
			tolE[i] = (1-s.EMA)*tolP[i] + roundTol(f.unit, 4, math.Abs(e.before[i])+math.Abs(p.want[i]))
		}
	}
	for a, tol := range map[*array][]float64{p: tolP, m: tolM, e: tolE} {
		a.tol = func(i int) float64 { return tol[i] }
	}
}

func normalCase(f *fixture) {
	for _, n := range lengths {
		f.normal(n, f.rng.Uint64(), f.rng.Uint64())
	}
	for _, word := range []uint64{0, 1, 1 << 32, 1<<32 - 1, math.MaxUint64} {
		f.normal(67, word, 0)
		f.normal(67, 0, word)
	}
	f.moments()
}

func (f *fixture) normal(n int, seed, step uint64) {
	c := f.call("n=%d seed=%d step=%d", n, seed, step)
	dst := c.dst(n, false, nil)
	ref.Normal(dst.want, seed, step)
	dst.tol = func(i int) float64 {
		u, _ := ref.Uniforms(uint64(i), seed, step)
		return normalTol(f.unit, u)
	}
	c.run(func(dev kernels.Device) { dev.Normal(dst.Mem, seed, step) })
}

// moments: 2¹⁷ normals of a few streams look standard and independent. A moment
// of n numbers has the standard error sqrt(var/n); all bounds are 5 of these,
// which chance exceeds once in 1.7 million. The seeds are fixed.
func (f *fixture) moments() {
	const n = 1 << 17
	var streams [][]float64
	for _, name := range [][2]uint64{{1, 1}, {1, 2}, {2, 1}, {1, 1 << 32}, {1 << 32, 1}} {
		c := f.call("moments of seed=%d step=%d", name[0], name[1])
		dst := c.dst(n, false, nil)
		f.dev.Normal(dst.Mem, name[0], name[1])
		z, err := download(f.dev, dst.Mem)
		if err != nil {
			f.fail("%s: %v", c.label, err)
			panic(giveUp)
		}
		dst.want = z
		c.run(func(kernels.Device) {})

		var sum [5]float64
		for _, x := range z {
			for k, pow := 1, x; k <= 4; k, pow = k+1, pow*x {
				sum[k] += pow
			}
		}
		// E z^k is 0, 1, 0, 3, and var z^k is E z^2k - (E z^k)² = 1, 2, 15, 96.
		for k, m := range [][2]float64{{}, {0, 1}, {1, 2}, {0, 15}, {3, 96}} {
			if got := sum[k] / n; !(math.Abs(got-m[0]) <= 5*math.Sqrt(m[1]/n)) {
				f.fail("%s: moment %d is %v, want %v", c.label, k, got, m[0])
			}
		}
		f.uncorrelated(c.label+" with its neighbour", z[1:], z[:n-1])
		f.uncorrelated(c.label+" with its neighbour but one", z[2:], z[:n-2])
		for _, other := range streams {
			f.uncorrelated(c.label+" with another stream", z, other)
		}
		streams = append(streams, z)
	}
}

// uncorrelated: products of independent normals have mean 0 and variance 1.
func (f *fixture) uncorrelated(what string, x, y []float64) {
	var sum float64
	for i := range x {
		sum += x[i] * y[i]
	}
	if n := float64(len(x)); !(math.Abs(sum/n) <= 5/math.Sqrt(n)) {
		f.fail("%s: correlation %v", what, sum/n)
	}
}
