package models

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/kernels"
)

// EncoderConfig is the shape of a transformer encoder as in BERT (Devlin et al.
// 2019): embeddings of words and positions, then layers of self-attention and of a
// two-layer network with GELU, each added to its input and normalised. MPNet's
// (Song et al. 2020) adds a bias by relative position to the scores.
type EncoderConfig struct {
	Vocabulary, Positions, Types int // rows of the tables; no Types in MPNet
	Width, Heads, Layers, Inner  int // Inner: width between the two linear layers
	Stabilizer                   float64
	// Counted is false if the first token takes position 0 and each the next, as in
	// BERT. Else tokens other than Padding take Padding+1 and on, and Padding takes
	// the position of that number, as in MPNet.
	Counted bool
	Padding int
	Buckets int // of relative positions; 0: no bias
}

// Longest is the largest number of tokens in a sequence.
func (c EncoderConfig) Longest() int {
	if c.Counted {
		return c.Positions - c.Padding - 1
	}
	return c.Positions
}

// Check says what is wrong with a configuration.
func (c EncoderConfig) Check() error {
	for _, f := range []struct {
		name         string
		value, least int
	}{{"vocabulary", c.Vocabulary, 1}, {"positions", c.Positions, 1}, {"types", c.Types, 0}, {"width", c.Width, 1},
		{"heads", c.Heads, 1}, {"layers", c.Layers, 0}, {"inner width", c.Inner, 1}, {"buckets", c.Buckets, 0}, {"padding", c.Padding, 0},
		{"longest sequence", c.Longest(), 1}} {
		if f.value < f.least {
			return fmt.Errorf("models: encoder: %s is %d, expected at least %d", f.name, f.value, f.least)
		}
	}
	switch {
	case c.Width%c.Heads != 0:
		return fmt.Errorf("models: encoder: a width of %d for %d heads, expected a multiple", c.Width, c.Heads)
	case !(c.Stabilizer > 0):
		return fmt.Errorf("models: encoder: stabilizer is %v, expected a positive number", c.Stabilizer)
	case c.Buckets != 0 && (c.Buckets < 4 || c.Buckets%2 != 0):
		return fmt.Errorf("models: encoder: %d buckets of relative positions, expected an even number of at least 4", c.Buckets)
	}
	return nil
}

// EncoderWeights gives the parameter of a name as numbers of the given shape, which
// the caller may change. A linear layer's weight is [out, in]. The names are
//
//	words, positions, types, norm.gain, norm.shift, relative [Buckets, Heads]
//
// and for each layer n, with LayerName(n, …),
//
//	query, key, value, output, inner, outer, each .weight and .bias,
//	attention.gain, attention.shift, outer.gain, outer.shift (the two norms)
type EncoderWeights func(name string, shape ...int) ([]float32, error)

// LayerName is the name of a parameter of layer n.
func LayerName(n int, name string) string { return fmt.Sprintf("layer.%d.%s", n, name) }

// Encoder turns sequences of tokens into vectors. It only infers: it is made of
// operations on a device and not of layers, and has no derivatives. A batch is the
// tokens of its sequences one after the other, without padding, so a sequence's
// numbers do not depend on what else is in the batch. Not for use by several
// goroutines at a time.
type Encoder struct {
	Config EncoderConfig
	// BatchTokens is about how many tokens are computed at a time: memory is this
	// many times 6 Width numbers, or 2 Width + Inner if that is more. The vectors do
	// not depend on it.
	BatchTokens int

	dev                  kernels.Device
	owned                []kernels.Mem
	words, positions     kernels.Mem
	gain, shift          kernels.Mem
	layers               []encoderLayer
	bias                 kernels.Mem // [Heads, 2 Longest - 1], or none
	room                 int         // tokens that the work memory is for
	x, y, big, ids, cuts kernels.Mem
}

type encoderLayer struct {
	qkv, qkvBias                  kernels.Mem // [Width, 3 Width]
	output, outputBias            kernels.Mem
	attentionGain, attentionShift kernels.Mem
	inner, innerBias              kernels.Mem
	outer, outerBias              kernels.Mem
	outerGain, outerShift         kernels.Mem
}

// NewEncoder makes an encoder and puts its weights on the device. Free gives the
// memory back.
func NewEncoder(dev kernels.Device, c EncoderConfig, weights EncoderWeights) (*Encoder, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	e := &Encoder{Config: c, BatchTokens: 4096, dev: dev}
	l := encoderLoader{e: e, weights: weights}
	l.load()
	if l.err == nil {
		l.err = dev.Sync()
	}
	if l.err != nil {
		e.Free()
		return nil, l.err
	}
	return e, nil
}

// encoderLoader loads parameters until one fails.
type encoderLoader struct {
	e       *Encoder
	weights EncoderWeights
	err     error
}

func (l *encoderLoader) read(name string, shape ...int) []float32 {
	if l.err != nil {
		return nil
	}
	x, err := l.weights(name, shape...)
	n := 1
	for _, s := range shape {
		n *= s
	}
	if err == nil && len(x) != n {
		err = fmt.Errorf("models: encoder: %s has %d numbers, expected %v", name, len(x), shape)
	}
	l.err = err
	return x
}

func (l *encoderLoader) put(x []float32) kernels.Mem {
	if l.err != nil {
		return kernels.Mem{}
	}
	m, err := l.e.dev.Alloc(kernels.Elem, len(x))
	if err != nil {
		l.err = err
		return kernels.Mem{}
	}
	l.e.owned = append(l.e.owned, m)
	l.e.dev.UploadF32(m, x)
	return m
}

func (l *encoderLoader) vector(name string, n int) kernels.Mem { return l.put(l.read(name, n)) }

// linear puts weights [out, in] of several layers side by side, as [in, Σ out].
func (l *encoderLoader) linear(in, out int, names ...string) (w, b kernels.Mem) {
	all := len(names) * out
	weights, biases := make([]float32, in*all), make([]float32, 0, all)
	for i, name := range names {
		x := l.read(name+".weight", out, in)
		if l.err != nil {
			return
		}
		for o := range out {
			for k, v := range x[o*in : (o+1)*in] {
				weights[k*all+i*out+o] = v
			}
		}
		biases = append(biases, l.read(name+".bias", out)...)
	}
	return l.put(weights), l.put(biases)
}

func (l *encoderLoader) load() {
	c := l.e.Config
	l.e.words = l.put(l.read("words", c.Vocabulary, c.Width))
	l.e.positions = l.put(l.read("positions", c.Positions, c.Width))
	if c.Types > 0 { // every token is of type 0
		types := l.put(l.read("types", c.Types, c.Width))
		if l.err == nil {
			per := kernels.Per{Batch: 1, Rows: c.Positions, Cols: c.Width, Axis: kernels.PerCol}
			l.e.dev.Shift(l.e.positions, l.e.positions, types.Slice(0, c.Width), 1, per)
		}
	}
	l.e.gain, l.e.shift = l.vector("norm.gain", c.Width), l.vector("norm.shift", c.Width)
	for n := range c.Layers {
		at := func(name string) string { return LayerName(n, name) }
		var y encoderLayer
		y.qkv, y.qkvBias = l.linear(c.Width, c.Width, at("query"), at("key"), at("value"))
		y.output, y.outputBias = l.linear(c.Width, c.Width, at("output"))
		y.attentionGain, y.attentionShift = l.vector(at("attention.gain"), c.Width), l.vector(at("attention.shift"), c.Width)
		y.inner, y.innerBias = l.linear(c.Width, c.Inner, at("inner"))
		y.outer, y.outerBias = l.linear(c.Inner, c.Width, at("outer"))
		y.outerGain, y.outerShift = l.vector(at("outer.gain"), c.Width), l.vector(at("outer.shift"), c.Width)
		l.e.layers = append(l.e.layers, y)
	}
	if c.Buckets > 0 {
		if table := l.read("relative", c.Buckets, c.Heads); l.err == nil {
			l.e.bias = l.put(relativeBias(table, c))
		}
	}
}

// relativeBias is [Heads, 2 Longest - 1]: for key j and query i, number
// Longest-1 + j-i of a head.
func relativeBias(table []float32, c EncoderConfig) []float32 {
	n := 2*c.Longest() - 1
	bias := make([]float32, c.Heads*n)
	for i := range n {
		bucket := relativeBucket(i-(c.Longest()-1), c.Buckets)
		for h := range c.Heads {
			bias[h*n+i] = table[bucket*c.Heads+h]
		}
	}
	return bias
}

// relativeBucket is the bucket of a key that is distance to the right of the query
// (Raffel et al. 2020, section 2.1; both sides): half of the buckets for each side, of
// these half for one distance each, the rest for ranges growing geometrically to
// 128. In float32, as the models were trained with, since ranges end at integers.
func relativeBucket(distance, buckets int) int {
	const farthest = 128
	buckets /= 2
	first := 0
	if distance > 0 {
		first = buckets
	}
	n, exact := max(distance, -distance), buckets/2
	if n < exact {
		return first + n
	}
	ratio := float32(math.Log(float64(float32(n)/float32(exact)))) / float32(math.Log(farthest/float64(exact)))
	return first + min(exact+int(ratio*float32(buckets-exact)), buckets-1)
}

// Free gives the memory on the device back.
func (e *Encoder) Free() {
	for _, m := range append(e.owned, e.x, e.y, e.big, e.ids, e.cuts) {
		if !m.None() {
			e.dev.Free(m)
		}
	}
	*e = Encoder{Config: e.Config}
}

// reserve makes room for batches of so many tokens.
func (e *Encoder) reserve(tokens int) error {
	if tokens <= e.room {
		return nil
	}
	c := e.Config
	e.room = 0
	for _, b := range []struct {
		mem  *kernels.Mem
		kind kernels.Kind
		n    int
	}{{&e.x, kernels.Elem, tokens * c.Width}, {&e.y, kernels.Elem, tokens * c.Width},
		{&e.big, kernels.Elem, tokens * max(4*c.Width, c.Inner)}, {&e.ids, kernels.Int32, 2 * tokens}, {&e.cuts, kernels.Int32, tokens + 1}} {
		if !b.mem.None() {
			e.dev.Free(*b.mem)
			*b.mem = kernels.Mem{}
		}
		m, err := e.dev.Alloc(b.kind, b.n)
		if err != nil {
			return err
		}
		*b.mem = m
	}
	e.room = tokens
	return nil
}

// checkTokens holds sequences to the vocabulary and the longest one.
func (e *Encoder) checkTokens(sequences [][]int32) error {
	for s, tokens := range sequences {
		if len(tokens) == 0 || len(tokens) > e.Config.Longest() {
			return fmt.Errorf("models: encoder: sequence %d has %d tokens, expected 1 to %d", s, len(tokens), e.Config.Longest())
		}
		for i, t := range tokens {
			if t < 0 || int(t) >= e.Config.Vocabulary {
				return fmt.Errorf("models: encoder: token %d of sequence %d is %d, expected less than %d", i, s, t, e.Config.Vocabulary)
			}
		}
	}
	return nil
}

// forward computes a batch. each, unless nil, sees [tokens, Width] after the
// embeddings (layer 0) and after each layer. It returns the last of these, which
// stays until the next call.
func (e *Encoder) forward(batch [][]int32, each func(layer int, x kernels.Mem) error) (kernels.Mem, error) {
	c, dev := e.Config, e.dev
	var ids, places []int32
	cuts := []int32{0}
	for _, tokens := range batch {
		next := int32(c.Padding + 1)
		for i, t := range tokens {
			switch {
			case !c.Counted:
				places = append(places, int32(i))
			case int(t) == c.Padding:
				places = append(places, t)
			default:
				places = append(places, next)
				next++
			}
		}
		ids = append(ids, tokens...)
		cuts = append(cuts, int32(len(ids)))
	}
	t, d := len(ids), c.Width
	if err := e.reserve(t); err != nil {
		return kernels.Mem{}, err
	}
	if each == nil {
		each = func(int, kernels.Mem) error { return nil }
	}
	words, positions, offsets := e.ids.Slice(0, t), e.ids.Slice(t, t), e.cuts.Slice(0, len(cuts))
	dev.UploadInts(words, ids)
	dev.UploadInts(positions, places)
	dev.UploadInts(offsets, cuts)
	x, y := e.x.Slice(0, t*d), e.y.Slice(0, t*d)
	qkv, mixed, inner := e.big.Slice(0, 3*t*d), e.big.Slice(3*t*d, t*d), e.big.Slice(0, t*c.Inner)

	dev.Gather(x, e.words, words, t, d)
	dev.Gather(y, e.positions, positions, t, d)
	dev.LayerNorm(x, x, y, e.gain, e.shift, t, d, c.Stabilizer)
	if err := each(0, x); err != nil {
		return x, err
	}
	heads := kernels.Attention{Tokens: t, Sequences: len(batch), Heads: c.Heads, Dim: d / c.Heads, Longest: c.Longest(),
		Scale: 1 / math.Sqrt(float64(d/c.Heads))}
	for n, l := range e.layers {
		dev.Gemm(qkv, x, l.qkv, l.qkvBias, kernels.Gemm{M: t, N: 3 * d, K: d})
		dev.Attention(mixed, qkv, offsets, e.bias, heads)
		dev.Gemm(y, mixed, l.output, l.outputBias, kernels.Gemm{M: t, N: d, K: d})
		dev.LayerNorm(x, x, y, l.attentionGain, l.attentionShift, t, d, c.Stabilizer)
		dev.Gemm(inner, x, l.inner, l.innerBias, kernels.Gemm{M: t, N: c.Inner, K: d})
		dev.GELU(inner, inner)
		dev.Gemm(y, inner, l.outer, l.outerBias, kernels.Gemm{M: t, N: d, K: c.Inner})
		dev.LayerNorm(x, x, y, l.outerGain, l.outerShift, t, d, c.Stabilizer)
		if err := each(n+1, x); err != nil {
			return x, err
		}
	}
	return x, nil
}

// HiddenStates gives what the embeddings and each layer put out for the sequences:
// Layers+1 arrays [tokens, Width], the sequences one after the other.
func (e *Encoder) HiddenStates(sequences [][]int32) ([][]float64, error) {
	if err := e.checkTokens(sequences); err != nil {
		return nil, err
	}
	var all [][]float64
	_, err := e.forward(sequences, func(_ int, x kernels.Mem) error {
		h := make([]float64, x.N)
		all = append(all, h)
		return e.dev.DownloadF64(h, x)
	})
	return all, err
}

// Pooling makes one vector of those of a sequence's tokens.
type Pooling uint8

// The ways of pooling.
const (
	PoolMean  Pooling = iota // the mean
	PoolFirst                // the first token's ("CLS")
	PoolMax                  // the largest number of each column
)

// String is the way's name in files of sentence-transformers.
func (p Pooling) String() string {
	if int(p) < len(poolings) {
		return poolings[p]
	}
	return fmt.Sprintf("Pooling(%d)", uint8(p))
}

var poolings = [...]string{"mean", "cls", "max"}

// Embed gives a vector for each sequence, [sequences, Width], in their order;
// with normalize, of length 1. It computes about BatchTokens tokens at a time, the
// longest sequences first, and calls progress, unless that is nil, with the number
// of sequences done. The pooling is done in float64.
func (e *Encoder) Embed(ctx context.Context, sequences [][]int32, pooling Pooling, normalize bool, progress func(done int)) ([]float32, error) {
	if pooling > PoolMax {
		return nil, fmt.Errorf("models: encoder: unknown pooling %d", pooling)
	}
	if e.dev == nil {
		return nil, errors.New("models: encoder: used after Free")
	}
	if err := e.checkTokens(sequences); err != nil {
		return nil, err
	}
	order := make([]int, len(sequences))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(sequences[b]) - len(sequences[a]) })

	d := e.Config.Width
	out := make([]float32, len(sequences)*d)
	sum := make([]float64, d)
	var hidden []float64
	for done := 0; done < len(order); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var batch [][]int32
		tokens := 0
		for _, s := range order[done:] {
			if len(batch) > 0 && tokens+len(sequences[s]) > e.BatchTokens {
				break
			}
			batch = append(batch, sequences[s])
			tokens += len(sequences[s])
		}
		x, err := e.forward(batch, nil)
		if err != nil {
			return nil, err
		}
		hidden = slices.Grow(hidden[:0], x.N)[:x.N]
		if err := e.dev.DownloadF64(hidden, x); err != nil {
			return nil, err
		}
		rest := hidden
		for i, b := range batch {
			pool(sum, rest[:len(b)*d], pooling)
			rest = rest[len(b)*d:]
			if normalize {
				unit(sum)
			}
			s := order[done+i]
			if !finite(sum) {
				return nil, fmt.Errorf("models: encoder: the vector of sequence %d is not finite: the weights are damaged, or too large", s)
			}
			for j, v := range sum {
				out[s*d+j] = float32(v)
			}
		}
		done += len(batch)
		if progress != nil {
			progress(done)
		}
	}
	return out, nil
}

// pool makes dst [D] of the rows x [tokens, D].
func pool(dst, x []float64, p Pooling) {
	d := len(dst)
	copy(dst, x)
	if p == PoolFirst {
		return
	}
	n := len(x) / d
	for t := 1; t < n; t++ {
		for j, v := range x[t*d : (t+1)*d] {
			if p == PoolMean {
				dst[j] += v
			} else {
				dst[j] = max(dst[j], v)
			}
		}
	}
	if p == PoolMean {
		for j := range dst {
			dst[j] /= float64(n)
		}
	}
}

func finite(x []float64) bool {
	for _, v := range x {
		if !(math.Abs(v) <= math.MaxFloat32) {
			return false
		}
	}
	return true
}

// unit divides x by its length; as sentence-transformers does, by no less than 1e-12.
func unit(x []float64) {
	square := 0.0
	for _, v := range x {
		square += v * v
	}
	length := max(math.Sqrt(square), 1e-12)
	for j := range x {
		x[j] /= length
	}
}
