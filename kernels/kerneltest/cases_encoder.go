package kerneltest

import (
	"math"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

func geluCase(f *fixture) {
	for _, n := range lengths {
		f.gelu(f.scaled(n, 2))
	}
	special := []float64{0, math.Copysign(0, -1), 0x1p-149, -0x1p-120, 0x1p-30, 14.9, -14.9, 15, 88, -89, 1e30, -1e30,
		math.MaxFloat32, math.NaN(), math.Inf(1), math.Inf(-1)}
	for x := -10.0; x <= 10; x += 1.0 / 128 {
		special = append(special, rounded(x+0x1p-20))
	}
	f.gelu(special)
}

func (f *fixture) gelu(values []float64) {
	for _, place := range []bool{false, true} {
		c := f.call("n=%d in place=%v", len(values), place)
		var x, dst *array
		if place {
			dst = c.inout("x", append([]float64(nil), values...))
			x = dst
		} else {
			x, dst = c.in("x", values), c.dst(len(values), false, nil)
		}
		ref.GELU(dst.want, values)
		dst.tol = func(i int) float64 { return roundTol(f.unit, geluTol, math.Abs(values[i])) }
		c.run(func(dev kernels.Device) { dev.GELU(dst.Mem, x.Mem) })
	}
}

func layerNormCase(f *fixture) {
	for _, rows := range []int{0, 1, 2, 5, 17} {
		for _, cols := range []int{1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 384, 1000, 5000} {
			for _, way := range []string{"dst", "no y", "x in place", "y in place", "no y, x in place"} {
				f.layerNorm(rows, cols, way, f.normals, 1e-5)
			}
			f.layerNorm(rows, cols, "dst", f.far, 1e-12)
		}
	}
	f.layerNorm(3, 0, "dst", f.normals, 1)
	f.layerNorm(700, 33, "x in place", f.normals, 1e-12)
	f.layerNorm(3, 40, "dst", func(n int) []float64 { return fill(n, 3) }, 1) // no spread
	f.layerNorm(6, 40, "dst", func(n int) []float64 {
		x := f.normals(n)
		if n > 40 { // not gain and shift
			x[45], x[130] = math.NaN(), math.Inf(1) // their rows are NaN, and no others
		}
		return x
	}, 1)
	f.layerNormExact()
}

// far are numbers around 100, whose variance by E h² - (E h)² would cancel.
func (f *fixture) far(n int) []float64 {
	x := f.normals(n)
	for i := range x {
		x[i] = rounded(x[i] + 100)
	}
	return x
}

func (f *fixture) layerNorm(rows, cols int, way string, values func(int) []float64, stabilizer float64) {
	c := f.call("%d×%d %s stabilizer=%v", rows, cols, way, stabilizer)
	stabilizer = rounded(stabilizer)
	x, y := values(rows*cols), values(rows*cols)
	gain, shift := c.in("gain", values(cols)), c.in("shift", values(cols))
	var dst *array
	var mx, my kernels.Mem
	switch way {
	case "dst":
		mx, my, dst = c.in("x", x).Mem, c.in("y", y).Mem, c.dst(rows*cols, false, nil)
	case "no y":
		mx, y, dst = c.in("x", x).Mem, nil, c.dst(rows*cols, false, nil)
	case "x in place":
		dst, my = c.inout("x", x), c.in("y", y).Mem
		mx = dst.Mem
	case "y in place":
		mx, dst = c.in("x", x).Mem, c.inout("y", y)
		my = dst.Mem
	case "no y, x in place":
		dst, y = c.inout("x", x), nil
		mx = dst.Mem
	}
	ref.LayerNorm(dst.want, x, y, gain.before, shift.before, rows, cols, stabilizer)
	tols := make([]func(c int) float64, rows)
	for r := range tols {
		var other []float64
		if y != nil {
			other = row(y, r, cols)
		}
		tols[r] = layerNormTol(f.unit, row(x, r, cols), other, gain.before, shift.before, stabilizer)
	}
	dst.tol = func(i int) float64 { return tols[i/cols](i % cols) }
	c.run(func(dev kernels.Device) { dev.LayerNorm(dst.Mem, mx, my, gain.Mem, shift.Mem, rows, cols, stabilizer) })
}

// layerNormExact: halves of the rows are ±a with mean b, and the variance a² with
// stabilizer 3a² gives a root of 2a: every number is exact.
func (f *fixture) layerNormExact() {
	for _, cols := range []int{2, 16, 32, 64, 1024} {
		const rows = 5
		c := f.call("exact, %d×%d", rows, cols)
		x, y := make([]float64, rows*cols), f.integers(rows*cols)
		for i := range x {
			x[i] = 32 - y[i]
			if (i%cols)%2 == 0 {
				x[i] += 4
			} else {
				x[i] -= 4
			}
		}
		gain, shift := f.integers(cols), f.integers(cols)
		mx, my, mg, ms, dst := c.in("x", x), c.in("y", y), c.in("gain", gain), c.in("shift", shift), c.dst(rows*cols, false, nil)
		ref.LayerNorm(dst.want, x, y, gain, shift, rows, cols, 48)
		c.run(func(dev kernels.Device) { dev.LayerNorm(dst.Mem, mx.Mem, my.Mem, mg.Mem, ms.Mem, rows, cols, 48) })
	}
}

func attentionCase(f *fixture) {
	batches := [][]int{{1}, {2, 3}, {16, 1, 15}, {7, 0, 33, 0, 31, 32}, {65, 14}, {130}, {}, {0, 0}}
	for _, lengths := range batches {
		for _, dim := range []int{1, 4, 8, 16, 31, 32, 33, 64} {
			for _, heads := range []int{1, 3} {
				for _, bias := range []bool{false, true} {
					f.attention(lengths, heads, dim, bias, f.normals)
				}
			}
		}
	}
	f.attention([]int{520, 3}, 2, 32, true, f.normals)
	f.attention([]int{3}, 0, 32, false, f.normals)
	f.attention([]int{3, 20}, 2, 0, true, f.normals)
	// Scores far beyond exp.
	f.attention([]int{20, 9}, 2, 16, true, func(n int) []float64 { return f.scaled(n, 30) })
	f.attentionMeans()
	f.attentionPicks()
	f.attentionNaN()
}

// attentionCall makes the operands of a call.
func (f *fixture) attentionCall(lengths []int, heads, dim, spare int, qkv []float64, bias func(n int) []float64, label string) (*call, *array, *array, *array, *array, kernels.Attention) {
	a := kernels.Attention{Sequences: len(lengths), Heads: heads, Dim: dim, Longest: 1, Scale: rounded(1 / math.Sqrt(float64(max(dim, 1))))}
	offsets := []int32{0}
	for _, n := range lengths {
		a.Tokens += n
		a.Longest = max(a.Longest, n)
		offsets = append(offsets, int32(a.Tokens))
	}
	a.Longest += spare
	c := f.call("%s lengths=%v heads=%d dim=%d bias=%v", label, lengths, heads, dim, bias != nil)
	mq, mo := c.in("qkv", qkv), c.ints("offsets", offsets)
	mb := &array{}
	if bias != nil {
		mb = c.in("bias", bias(heads*(2*a.Longest-1)))
	}
	return c, c.dst(a.Tokens*heads*dim, false, nil), mq, mo, mb, a
}

func (f *fixture) runAttention(c *call, dst, qkv, offsets, bias *array, a kernels.Attention) {
	ints := make([]int32, len(offsets.before))
	for i, x := range offsets.before {
		ints[i] = int32(x)
	}
	if err := ref.Attention(dst.want, qkv.before, ints, bias.before, ref.Heads(a)); err != nil {
		f.fail("%s: %v", c.label, err)
	}
	c.run(func(dev kernels.Device) { dev.Attention(dst.Mem, qkv.Mem, offsets.Mem, bias.Mem, a) })
}

func total(lengths []int) int {
	n := 0
	for _, l := range lengths {
		n += l
	}
	return n
}

func (f *fixture) attention(lengths []int, heads, dim int, withBias bool, values func(int) []float64) {
	var bias func(int) []float64
	if withBias {
		bias = f.normals
	}
	c, dst, qkv, offsets, mb, a := f.attentionCall(lengths, heads, dim, len(lengths)%2*3, values(3*total(lengths)*heads*dim), bias, "")
	tol := attentionTol(f.unit, qkv.before, offsets.before, mb.before, a)
	dst.tol = func(i int) float64 { return tol[i] }
	f.runAttention(c, dst, qkv, offsets, mb, a)
}

// attentionMeans: queries of 0 make means, exact for 2ⁿ tokens.
func (f *fixture) attentionMeans() {
	for _, dim := range []int{3, 32, 40} {
		lengths, heads := []int{8, 1, 64, 16}, 2
		values := f.integers(3 * total(lengths) * heads * dim)
		for t := range total(lengths) {
			clear(values[3*t*heads*dim : (3*t+1)*heads*dim])
		}
		c, dst, qkv, offsets, bias, a := f.attentionCall(lengths, heads, dim, 0, values, nil, "means")
		f.runAttention(c, dst, qkv, offsets, bias, a)
	}
}

// attentionPicks: a bias so large that each token sees one other, two to its right
// for the first head and one to its left for the second.
func (f *fixture) attentionPicks() {
	for _, spare := range []int{0, 5} {
		lengths, heads, dim := []int{5, 40, 3}, 2, 20
		c, dst, qkv, offsets, bias, a := f.attentionCall(lengths, heads, dim, spare, f.integers(3*total(lengths)*heads*dim),
			func(n int) []float64 {
				b := fill(n, 0)
				middle := n / 4 // [2 heads, 2 Longest - 1]
				for i := range b {
					j := i%(n/2) - middle // j - i
					want := []int{2, -1}[i/(n/2)]
					b[i] = -0x1p20 * math.Abs(float64(j-want))
				}
				return b
			}, "picks")
		f.runAttention(c, dst, qkv, offsets, bias, a)
	}
}

// attentionNaN: a NaN in a query spoils its token, in a key or value its
// sequence, and no other head or sequence.
func (f *fixture) attentionNaN() {
	lengths, heads, dim := []int{3, 4, 20, 2}, 2, 5
	values := f.integers(3 * total(lengths) * heads * dim)
	spoil := func(token, which, head int, x float64) { values[((token*3+which)*heads+head)*dim+2] = x }
	spoil(1, 0, 1, math.NaN())
	spoil(5, 1, 0, math.NaN())
	spoil(8, 2, 1, math.NaN())
	c, dst, qkv, offsets, bias, a := f.attentionCall(lengths, heads, dim, 0, values, nil, "NaN")
	tol := attentionTol(f.unit, qkv.before, offsets.before, nil, a)
	dst.tol = func(i int) float64 { return tol[i] }
	f.runAttention(c, dst, qkv, offsets, bias, a)
}
