package ref

import (
	"fmt"
	"math"
)

// GELU: dst[i] = x[i]/2 (1 + erf(x[i]/√2)). dst may be x.
func GELU(dst, x []float64) {
	for i, v := range x {
		dst[i] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
	}
}

// LayerNorm: with h[c] = x[r,c] + y[r,c] (without y if that is nil), m its mean
// and v its variance over the row,
//
//	dst[r,c] = (h[c]-m) / sqrt(v + stabilizer) gain[c] + shift[c].
//
// dst may be x or y.
func LayerNorm(dst, x, y, gain, shift []float64, rows, cols int, stabilizer float64) {
	for r := range rows {
		h := row(dst, r, cols)
		if y != nil {
			Add(h, row(x, r, cols), row(y, r, cols), 1, 1)
		} else {
			copy(h, row(x, r, cols))
		}
		var mean, variance float64
		for _, v := range h {
			mean += v
		}
		mean /= float64(cols)
		for _, v := range h {
			variance += (v - mean) * (v - mean)
		}
		scale := 1 / math.Sqrt(variance/float64(cols)+stabilizer)
		for c, v := range h {
			h[c] = (v-mean)*scale*gain[c] + shift[c]
		}
	}
}

// Heads describes self-attention; its fields are those of kernels.Attention.
type Heads struct {
	Tokens, Sequences, Heads, Dim int
	Longest                       int
	Scale                         float64
}

// Attention: qkv is [Tokens, 3, Heads, Dim], queries, keys and values, and dst
// [Tokens, Heads, Dim]. For tokens i and j of one sequence and each head h,
//
//	z[j] = Scale Σ_d q[i,h,d] k[j,h,d] + bias[h, Longest-1+j-i],  p = softmax(z),
//	dst[i,h,:] = Σ_j p[j] v[j,h,:].
//
// bias [Heads, 2 Longest - 1] may be nil. Offsets that do not ascend from 0 to
// Tokens are an error, and so is a sequence of more than Longest tokens.
func Attention(dst, qkv []float64, offsets []int32, bias []float64, a Heads) error {
	for s := range offsets {
		if err := BadOffset(offsets, s, a); err != nil {
			return err
		}
	}
	at := func(token, which, head int) []float64 { return row(qkv, (token*3+which)*a.Heads+head, a.Dim) }
	for s := range a.Sequences {
		from, to := int(offsets[s]), int(offsets[s+1])
		p := make([]float64, to-from)
		for i := from; i < to; i++ {
			for h := range a.Heads {
				q := at(i, 0, h)
				for j := range p {
					var dot float64
					for d, k := range at(from+j, 1, h) {
						dot += q[d] * k
					}
					p[j] = a.Scale * dot
					if bias != nil {
						p[j] += bias[h*(2*a.Longest-1)+a.Longest-1+from+j-i]
					}
				}
				Softmax(p, p, 1, len(p))
				out := row(dst, i*a.Heads+h, a.Dim)
				clear(out)
				for j, w := range p {
					for d, v := range at(from+j, 2, h) {
						out[d] += w * v
					}
				}
			}
		}
	}
	return nil
}

// BadOffset says what is wrong with offset s of Attention, or returns nil.
func BadOffset(offsets []int32, s int, a Heads) error {
	least, most := 0, 0
	if s > 0 {
		least = int(offsets[s-1])
		most = min(least+a.Longest, a.Tokens)
	}
	if s == a.Sequences {
		least = max(least, a.Tokens) // the last is the end
	}
	if x := int(offsets[s]); x < least || x > most {
		return fmt.Errorf("offset[%d] is %d, expected %d to %d: they ascend from 0 to %d, by at most %d", s, x, least, most, a.Tokens, a.Longest)
	}
	return nil
}
