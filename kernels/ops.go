package kernels

// Ops is what every device computes. All matrices are row-major and dense.
// Outputs come first. An output must not overlap an input unless the method
// says so. acc adds to what dst holds instead of overwriting it.
//
// The formula of each method is its definition; kernels/ref computes it in
// float64. A NaN operand gives a NaN wherever the formula uses it: ReLU, Keep
// and ClipFactor are written so that none hides one, and a row with a NaN logit
// has NaN probabilities and losses.
//
// GELU, LayerNorm and Attention serve encoders, which only infer: tensor has no
// product rules for them.
type Ops interface {
	// Gemm: dst[m,n] = act( (acc ? dst[m,n] : 0) + Σ_k op(a)[m,k] op(b)[k,n] + bias[n] ).
	// a is [M,K], or [K,M] with TransA; b is [K,N], or [N,K] with TransB; bias
	// is [N] or none; act(s) is s <= 0 ? 0 : s with ReLU (a NaN stays one), else
	// the identity. K = 0 is an empty sum.
	Gemm(dst, a, b, bias Mem, g Gemm)

	// Fill: dst[i] = value.
	Fill(dst Mem, value float64)
	// Copy: dst[i] = x[i].
	Copy(dst, x Mem)
	// Add: dst[i] = alpha x[i] + beta y[i]. y may be none. dst may be x or y.
	Add(dst, x, y Mem, alpha, beta float64)
	// Mul: dst[i] (+)= x[i] y[i].
	Mul(dst, x, y Mem, acc bool)
	// Keep: dst[i] = mask[i] <= 0 ? 0 : x[i], so that a NaN in the mask keeps
	// x[i]. dst may be x. ReLU is Keep(z, z).
	Keep(dst, x, mask Mem)
	// Tanh: dst[i] = tanh(x[i]).
	Tanh(dst, x Mem)

	// GELU: dst[i] = x[i]/2 (1 + erf(x[i]/√2)), the Gaussian error linear unit
	// (Hendrycks and Gimpel 2016). dst may be x.
	GELU(dst, x Mem)

	// ScaleBy: dst[i] (+)= x[i] s[j(i)], with j as Per says. dst may be x unless acc.
	ScaleBy(dst, x, s Mem, p Per, acc bool)
	// Shift: dst[i] = x[i] + alpha s[j(i)]. dst may be x.
	Shift(dst, x, s Mem, alpha float64, p Per)
	// Spread: dst[i] = s[j(i)].
	Spread(dst, s Mem, p Per)
	// Sum: dst[j] (+)= Σ_{i: j(i)=j} x[i].
	Sum(dst, x Mem, p Per, acc bool)
	// SumMul: dst[j] (+)= Σ_{i: j(i)=j} x[i] y[i].
	SumMul(dst, x, y Mem, p Per, acc bool)
	// Dot: dst[0] (+)= Σ_i x[i] y[i].
	Dot(dst, x, y Mem, acc bool)

	// Softmax: prob[r,c] = exp(z[r,c]) / Σ_c' exp(z[r,c']), stabilised by the row maximum.
	Softmax(prob, z Mem, rows, cols int)
	// SoftmaxTangent: dst[r,c] = p[r,c] (dz[r,c] - Σ_c' p[r,c'] dz[r,c']).
	SoftmaxTangent(dst, p, dz Mem, rows, cols int)
	// CrossEntropy: loss[r] = log Σ_c exp(z[r,c]) - z[r,y[r]]; labels hold y.
	// Here and below, a label outside [0, cols) is a device failure.
	CrossEntropy(loss, z, labels Mem, rows, cols int)
	// CrossEntropyTangent: dst[r] = Σ_c (p[r,c] - [c = y[r]]) dz[r,c]
	CrossEntropyTangent(dst, p, dz, labels Mem, rows, cols int)
	// SubOneHot: dst[r,c] = p[r,c] - [c = y[r]]. dst may be p.
	SubOneHot(dst, p, labels Mem, rows, cols int)
	// Loss64 is the cross-entropy without ties, computed in float64 into a
	// Float64 buffer: u = log Σ_{c≠y} exp(z[r,c] - z[r,y]), loss[r] =
	// log(1 + exp(u)), which is exp(u) where u < -30. Float32
	// cross-entropy is exactly 0 for many examples, and a tie at the top of the
	// ROC makes TPR at low FPR meaningless.
	Loss64(loss, z, labels Mem, rows, cols int)
	// LayerNorm (Ba, Kiros and Hinton 2016), after a residual sum: with h[c] =
	// x[r,c] + y[r,c], m = Σ_c h[c]/cols and v = Σ_c (h[c]-m)²/cols,
	// dst[r,c] = (h[c]-m) / sqrt(v + stabilizer) gain[c] + shift[c]. y may be none.
	// dst may be x or y. stabilizer is positive.
	LayerNorm(dst, x, y, gain, shift Mem, rows, cols int, stabilizer float64)
	// Attention is self-attention of several heads (Vaswani et al. 2017) within
	// each of several sequences, which lie one after the other: sequence s has the
	// tokens from offsets[s] to offsets[s+1]. qkv is [Tokens, 3, Heads, Dim], the
	// queries, keys and values; with i and j tokens of one sequence,
	// dst[i,h,:] = Σ_j p[j] v[j,h,:], where p is the softmax over j, stabilised by
	// the maximum, of Scale Σ_d q[i,h,d] k[j,h,d] + bias[h, Longest-1+j-i]. bias is
	// [Heads, 2 Longest - 1] or none. offsets (Int32, [Sequences+1]) ascend from 0 to
	// Tokens; others, and sequences of more than Longest tokens, are a device
	// failure.
	Attention(dst, qkv, offsets, bias Mem, a Attention)
	// Argmax: dst[r] (Int32) = the lowest c with the largest z[r,c]; some c of
	// the row if one of them is NaN.
	Argmax(dst, z Mem, rows, cols int)
	// TopK finds the K candidates of a bank with the largest scores for each query,
	// s[r,p] = Σ_k q[r,k] bank[p,k] + bias[p]: score[r,:] (Elem, [Queries, K]) are
	// the largest, descending, and slot[r,:] (Int32) their First+p; of equal ones
	// the lowest slots, in ascending order. q is [Queries, Dim], bank [Bank, Dim],
	// bias [Bank] or none; with -|bank[p]|²/2 the order is that of Euclidean
	// distance. With Acc what score and slot hold takes part, and goes before
	// equals, so that parts of a bank come in ascending order of First. A NaN or
	// -Inf is never kept; places for which there is no score hold -Inf and slot -1.
	TopK(score, slot, q, bank, bias Mem, t TopK)
	// TopKBytes is TopK for vectors of signed bytes with a scale for each:
	// s[r,p] = (Σ_k q[r,k] bank[p,k]) qScale[r] scale[p] + bias[p]. An Int32 of q
	// [Queries, Dim/4] or bank [Bank, Dim/4] holds four of them, the first in its
	// lowest bits. The sum is an integer; turning it into an element and the three
	// operations after it, in the order written, round once each.
	TopKBytes(score, slot, q, bank, qScale, scale, bias Mem, t TopK)

	// Gather: dst[r,:] = src[index[r],:] for r < rows; rows of cols elements.
	// index holds Int32. An index outside src is a device failure.
	Gather(dst, src, index Mem, rows, cols int)
	// CropFlip moves image b by move[b] = (dy, dx, flip), Int32 [B,3]:
	// dst[b,h,w,c] = src[b, h+dy, w'+dx, c] with w' = flip ? W-1-w : w, and 0
	// outside the image. dst and src are [B,H,W,C].
	CropFlip(dst, src, move Mem, im Image)
	// CropFlipAdjoint is the transpose of CropFlip:
	// dst[b, h+dy, w'+dx, c] = src[b,h,w,c], and 0 where nothing lands.
	CropFlipAdjoint(dst, src, move Mem, im Image)

	// SqNormOuter: dst[r] (+)= |dy[r,:]|² (|x[r,:]|² + (bias ? 1 : 0)), the
	// squared norm of example r's gradient of a linear layer.
	SqNormOuter(dst, x, dy Mem, rows, xcols, dycols int, bias, acc bool)
	// ClipFactor: dst[r] = f > 1 ? 1 : f with f = clip / sqrt(sq[r]), and 1 where
	// sq[r] = 0. A norm of +Inf gives 0; a NaN norm gives NaN, never 1, so that a
	// broken gradient is not let through unclipped. clip is not negative.
	ClipFactor(dst, sq Mem, clip float64)

	// SGD is one step of momentum SGD on a flat parameter vector, with noise:
	//	g' = scale g[i] + noise z_i + decay p[i]
	//	m[i] = momentum m[i] + g'     (m none: no momentum, g' is used)
	//	p[i] = p[i] - lr m[i]
	//	e[i] = e[i] + (1-ema) (p[i] - e[i])   (e none: no average)
	// z_i is normal number i of the Philox stream (Seed, Step); see Normal.
	SGD(p, m, e, g Mem, s SGD)
	// Normal: dst[i] = z_i, the standard normals of SGD: with
	// (u0,u1,u2,u3) = Philox4x32-10(counter (i/4 low, i/4 high, step low, step
	// high), key seed), Box-Muller on (u0,u1) gives z_{4q}, z_{4q+1} (cosine,
	// sine), on (u2,u3) z_{4q+2}, z_{4q+3}:
	// z = sqrt(-2 ln((⌊u0/2⁸⌋+½) 2⁻²⁴)) · cos|sin(2π ⌊u1/2⁸⌋ 2⁻²⁴), so that
	// |z| < 5.89: a normal is beyond that with probability 4e-9.
	Normal(dst Mem, seed, step uint64)
}

// The largest K and Dim of Ops.TopK.
const (
	MaxTopK    = 128
	MaxTopKDim = 1 << 14
)

// TopK describes a search; see Ops.TopK.
type TopK struct {
	Queries, Bank, Dim, K int
	First                 int // slot of the first candidate
	Acc                   bool
}

// Attention describes the shapes of Ops.Attention.
type Attention struct {
	Tokens, Sequences, Heads, Dim int
	Longest                       int // at least 1
	Scale                         float64
}

// Gemm describes a product; see Ops.Gemm.
type Gemm struct {
	M, N, K        int
	TransA, TransB bool
	Acc, ReLU      bool
}

// Axis says along what a Per shares.
type Axis uint8

// The axes of a Per.
const (
	PerRow Axis = iota // one number per row: j = batch*Rows + row
	PerCol             // one number per batch and column: j = batch*Cols + col
)

// Per says which elements i of a [Batch, Rows, Cols] array share an element j
// of a smaller one. Per example of [B, ...]: {1, B, rest, PerRow}; per channel
// of [..., C]: {1, rest, C, PerCol}; per example and channel of [B, P, C]:
// {B, P, C, PerCol}.
type Per struct {
	Batch, Rows, Cols int
	Axis              Axis
}

// Len is the number of elements of the larger array.
func (p Per) Len() int { return p.Batch * p.Rows * p.Cols }

// Small is the number of elements of the smaller array.
func (p Per) Small() int {
	if p.Axis == PerRow {
		return p.Batch * p.Rows
	}
	return p.Batch * p.Cols
}

// Image is the shape [B,H,W,C] of a batch of images.
type Image struct{ B, H, W, C int }

// Len is the number of elements.
func (im Image) Len() int { return im.B * im.H * im.W * im.C }

// SGD holds the scalars of Ops.SGD.
type SGD struct {
	LR, Momentum, Decay, Scale, EMA float64
	Noise                           float64 // standard deviation; 0: none
	Seed, Step                      uint64  // of the noise
}
