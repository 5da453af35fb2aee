package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

// lengths are 0, 1 and ±1 around vectors, unrolled loops and the chunks in
// which threads share work.
var lengths = []int{0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 49, 63, 64, 65, 127, 128, 129,
	255, 257, 1023, 1025, 4097, 16383, 16384, 16385, 40001}

func fillCase(f *fixture) {
	for _, n := range lengths {
		for _, x := range []float64{0, -3, 0x1p-30} {
			c := f.call("n=%d value=%v", n, x)
			dst := c.dst(n, false, nil)
			ref.Fill(dst.want, x)
			c.run(func(dev kernels.Device) { dev.Fill(dst.Mem, x) })
		}
	}
	f.fillExtreme()
}

// fillExtreme: what training can meet, and the rounding of the value.
func (f *fixture) fillExtreme() {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0.1} {
		c := f.call("value=%v", x)
		dst := c.dst(19, false, nil)
		ref.Fill(dst.want, x)
		dst.tol = func(int) float64 { return roundTol(f.unit, 1, 0.1) }
		c.run(func(dev kernels.Device) { dev.Fill(dst.Mem, x) })
	}
}

func copyCase(f *fixture) {
	for _, n := range lengths {
		c := f.call("n=%d", n)
		x := f.normals(n)
		if n > 8 {
			x[n/2], x[n-1], x[0] = math.NaN(), math.Inf(-1), 0x1p-140
		}
		src, dst := c.in("x", x), c.dst(n, false, nil)
		ref.Copy(dst.want, src.before)
		c.run(func(dev kernels.Device) { dev.Copy(dst.Mem, src.Mem) })
	}
}

func addCase(f *fixture) {
	for _, n := range lengths {
		f.add(n, 2, -3, f.integers, 0)
		f.add(n, rounded(0.7), rounded(-1.3), f.normals, 3)
	}
	f.add(33, 1, 1, f.broken, 0)
}

// broken are integers with a NaN and both infinities among them.
func (f *fixture) broken(n int) []float64 {
	x := f.integers(n)
	for i, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		x[f.rng.IntN(n/3)+i*(n/3)] = bad
	}
	return x
}

// add checks Add with roundings of its two products and their sum, with and
// without y, and in place.
func (f *fixture) add(n int, alpha, beta float64, values func(int) []float64, roundings int) {
	for _, way := range []string{"dst", "no y", "x in place", "y in place", "doubled"} {
		c := f.call("n=%d %v %v %s", n, alpha, beta, way)
		var dst *array
		x, y := values(n), values(n)
		var mx, my kernels.Mem
		switch way {
		case "dst":
			mx, my = c.in("x", x).Mem, c.in("y", y).Mem
			dst = c.dst(n, false, nil)
		case "no y":
			mx, y = c.in("x", x).Mem, nil
			dst = c.dst(n, false, nil)
		case "x in place":
			dst, my = c.inout("x", x), c.in("y", y).Mem
			mx = dst.Mem
		case "y in place":
			mx, dst = c.in("x", x).Mem, c.inout("y", y)
			my = dst.Mem
		case "doubled":
			dst, y = c.inout("x", x), x
			mx, my = dst.Mem, dst.Mem
		}
		if roundings > 0 {
			dst.tol = func(i int) float64 {
				abs := math.Abs(alpha * x[i])
				if y != nil {
					abs += math.Abs(beta * y[i])
				}
				return roundTol(f.unit, roundings, abs)
			}
		}
		ref.Add(dst.want, x, y, alpha, beta)
		c.run(func(dev kernels.Device) { dev.Add(dst.Mem, mx, my, alpha, beta) })
	}
}

func mulCase(f *fixture) {
	for _, n := range lengths {
		for _, acc := range []bool{false, true} {
			f.mul(n, acc, f.integers, 0)
			f.mul(n, acc, f.normals, 2)
		}
	}
	f.mul(33, false, f.broken, 0)
	f.mul(33, true, f.broken, 0)
}

func (f *fixture) mul(n int, acc bool, values func(int) []float64, roundings int) {
	c := f.call("n=%d acc=%v", n, acc)
	x, y, dst := c.in("x", values(n)), c.in("y", values(n)), c.dst(n, acc, values)
	if roundings > 0 {
		dst.tol = func(i int) float64 {
			abs := math.Abs(x.before[i] * y.before[i])
			if acc {
				abs += math.Abs(dst.before[i])
			}
			return roundTol(f.unit, roundings, abs)
		}
	}
	ref.Mul(dst.want, x.before, y.before, acc)
	c.run(func(dev kernels.Device) { dev.Mul(dst.Mem, x.Mem, y.Mem, acc) })
}

func keepCase(f *fixture) {
	values := func(n int) []float64 {
		x := f.normals(n)
		for i := range x {
			switch f.rng.IntN(8) {
			case 0:
				x[i] = 0
			case 1:
				x[i] = math.Copysign(0, -1)
			case 2:
				x[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0x1p-149, -0x1p-149}[f.rng.IntN(5)]
			}
		}
		return x
	}
	for _, n := range lengths {
		c := f.call("n=%d", n)
		x, mask, dst := c.in("x", values(n)), c.in("mask", values(n)), c.dst(n, false, nil)
		ref.Keep(dst.want, x.before, mask.before)
		c.run(func(dev kernels.Device) { dev.Keep(dst.Mem, x.Mem, mask.Mem) })

		c = f.call("n=%d in place", n)
		mask, dst = c.in("mask", values(n)), c.inout("x", values(n))
		ref.Keep(dst.want, dst.before, mask.before)
		c.run(func(dev kernels.Device) { dev.Keep(dst.Mem, dst.Mem, mask.Mem) })

		c = f.call("n=%d, ReLU", n)
		z, dst := c.in("z", values(n)), c.dst(n, false, nil)
		ref.Keep(dst.want, z.before, z.before)
		c.run(func(dev kernels.Device) { dev.Keep(dst.Mem, z.Mem, z.Mem) })

		c = f.call("n=%d, ReLU in place", n)
		dst = c.inout("z", values(n))
		ref.Keep(dst.want, dst.before, dst.before)
		c.run(func(dev kernels.Device) { dev.Keep(dst.Mem, dst.Mem, dst.Mem) })
	}
}

func tanhCase(f *fixture) {
	for _, n := range lengths {
		f.tanh(f.scaled(n, 2))
	}
	special := []float64{0, 0x1p-149, -0x1p-120, 0x1p-30, -0x1p-12, 9, -9, 30, 88, -89, 1e30, -1e30,
		math.MaxFloat32, math.NaN(), math.Inf(1), math.Inf(-1)}
	for x := -10.0; x <= 10; x += 1.0 / 128 {
		special = append(special, rounded(x+0x1p-20))
	}
	f.tanh(special)
}

func (f *fixture) tanh(values []float64) {
	c := f.call("n=%d", len(values))
	x, dst := c.in("x", values), c.dst(len(values), false, nil)
	ref.Tanh(dst.want, values)
	dst.tol = func(i int) float64 { return roundTol(f.unit, tanhTol, math.Abs(dst.want[i])) }
	c.run(func(dev kernels.Device) { dev.Tanh(dst.Mem, x.Mem) })
}
