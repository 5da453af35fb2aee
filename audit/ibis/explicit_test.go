package ibis

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/internal/rng"
)

// explicit computes influences of an MLP with one hidden layer by the book: full
// gradients, full curvature matrices, dense inverses.
type explicit struct {
	x      [][]float64
	y      []int
	w1, w2 *mat.Dense // with the bias as their last row
}

func newExplicit(t *testing.T, r *rig) *explicit {
	t.Helper()
	e := &explicit{y: r.cloud.y}
	for _, x := range r.cloud.x {
		wide := make([]float64, len(x))
		for j, v := range x {
			wide[j] = float64(v)
		}
		e.x = append(e.x, wide)
	}
	theta := must[[]float64](t)(r.m.Theta.Floats(r.m.Device()))
	layer := func(in, out int) *mat.Dense { // the bias follows its weights
		w := mat.NewDense(in+1, out, theta[:(in+1)*out])
		theta = theta[(in+1)*out:]
		return w
	}
	shape := func(i int) (int, int) { s := r.m.Params[i].Shape; return s[0], s[1] }
	e.w1, e.w2 = layer(shape(0)), layer(shape(2))
	return e
}

// sides are the factors of one gradient, for both layers.
type sides struct{ a, delta [2][]float64 }

// gradient is that of example i at a label, and the probabilities.
func (e *explicit) gradient(i, label int) (s sides, prob []float64) {
	s.a[0] = append(append([]float64(nil), e.x[i]...), 1)
	h := times(s.a[0], e.w1)
	for j, v := range h {
		h[j] = max(v, 0)
	}
	s.a[1] = append(h, 1)
	z := times(s.a[1], e.w2)
	total := 0.0
	for _, v := range z {
		total += math.Exp(v)
	}
	for k, v := range z {
		prob = append(prob, math.Exp(v)/total)
		s.delta[1] = append(s.delta[1], prob[k])
	}
	s.delta[1][label]--
	for j := range h[:len(h):len(h)] {
		back := 0.0
		for k, d := range s.delta[1] {
			back += e.w2.At(j, k) * d
		}
		if h[j] <= 0 {
			back = 0
		}
		s.delta[0] = append(s.delta[0], back)
	}
	return s, prob
}

func times(x []float64, w *mat.Dense) []float64 {
	var y mat.Dense
	y.Mul(mat.NewDense(1, len(x), x), w)
	return y.RawRowView(0)
}

// weighted is a gradient with its weight in the Fisher matrix.
type weighted struct {
	sides
	weight float64
}

// labels are the ways to take the Fisher matrix's labels.
type labels string

const (
	fromModel labels = "expected"  // all, by the model's probabilities
	drawn     labels = "sampled"   // from the model
	fromData  labels = "empirical" // a planted fault
)

func (e *explicit) fisher(how labels, seed uint64) (all []weighted) {
	r := rng.New(seed, rng.Fisher)
	for i, y := range e.y {
		s, prob := e.gradient(i, y)
		switch how {
		case fromData:
			all = append(all, weighted{s, 1})
		case drawn:
			u, k, sum := r.Float64(), 0, prob[0]
			for u >= sum {
				k++
				sum += prob[k]
			}
			s, _ = e.gradient(i, k)
			all = append(all, weighted{s, 1})
		case fromModel:
			for k, p := range prob {
				s, _ = e.gradient(i, k)
				all = append(all, weighted{s, p})
			}
		}
	}
	return all
}

// moments are those of one side of a layer.
func (e *explicit) moments(all []weighted, side func(sides) []float64) *mat.SymDense {
	m := mat.NewSymDense(len(side(all[0].sides)), nil)
	for _, g := range all {
		v := side(g.sides)
		m.SymRankOne(m, g.weight/float64(len(e.y)), mat.NewVecDense(len(v), v))
	}
	return m
}

// faults are mistakes that a comparison must see.
type faults struct {
	labels     labels
	swapped    bool // A and S in each other's place
	split      bool // π the wrong way round
	absolute   bool // damping not relative to the curvature
	unit       bool // π = 1
	transposed bool // gradients laid out as [out, in]
	plain      bool // EK-FAC: eigenvalues of K-FAC
	noDamping  bool // EK-FAC
}

// kfac is the influences between all examples, from explicit Kronecker
// products.
func (e *explicit) kfac(damping float64, seed uint64, f faults) []float64 {
	all := e.fisher(f.labels, seed)
	return e.influence(func(layer int) mat.Matrix {
		a := e.moments(all, func(s sides) []float64 { return s.a[layer] })
		s := e.moments(all, func(s sides) []float64 { return s.delta[layer] })
		tA, tS := mat.Trace(a)/float64(a.SymmetricDim()), mat.Trace(s)/float64(s.SymmetricDim())
		lambda, pi := damping*tA*tS, math.Sqrt(tA/tS)
		switch {
		case f.split:
			pi = 1 / pi
		case f.unit:
			pi = 1
		case f.absolute:
			lambda = damping
		}
		addDiagonal(a, pi*math.Sqrt(lambda))
		addDiagonal(s, math.Sqrt(lambda)/pi)
		var h, inverse mat.Dense
		switch {
		case f.swapped && a.SymmetricDim() == s.SymmetricDim(), f.transposed:
			h.Kronecker(s, a)
		default:
			h.Kronecker(a, s)
		}
		if err := inverse.Inverse(&h); err != nil {
			panic(err)
		}
		return &inverse
	})
}

// ekfac is the influences between all examples, in explicit eigenvectors.
func (e *explicit) ekfac(damping float64, seed uint64, f faults) []float64 {
	all := e.fisher(f.labels, seed)
	return e.influence(func(layer int) mat.Matrix {
		a := e.moments(all, func(s sides) []float64 { return s.a[layer] })
		s := e.moments(all, func(s sides) []float64 { return s.delta[layer] })
		qa, la := eigen(a)
		qs, ls := eigen(s)
		var q mat.Dense
		q.Kronecker(qa, qs)
		n, _ := q.Dims()
		values := make([]float64, n)
		for _, g := range all {
			for k, v := range times(g.flat(layer), &q) {
				values[k] += g.weight * v * v / float64(len(e.y))
			}
		}
		mean := 0.0
		for k := range values {
			if f.plain {
				values[k] = la[k/len(ls)] * ls[k%len(ls)]
			}
			mean += values[k] / float64(n)
		}
		if f.noDamping {
			damping = 1e-9
		}
		scaled := mat.DenseCopyOf(&q)
		for k, v := range values {
			for i := range n {
				scaled.Set(i, k, q.At(i, k)/(v+damping*mean))
			}
		}
		var inverse mat.Dense
		inverse.Mul(scaled, q.T())
		return &inverse
	})
}

func eigen(m *mat.SymDense) (*mat.Dense, []float64) {
	var e mat.EigenSym
	if !e.Factorize(m, true) {
		panic("no eigenvalues")
	}
	var v mat.Dense
	e.VectorsTo(&v)
	return &v, e.Values(nil)
}

// flat is a layer's gradient by its weights [in', out], row by row.
func (s sides) flat(layer int) []float64 {
	var g []float64
	for _, a := range s.a[layer] {
		for _, d := range s.delta[layer] {
			g = append(g, a*d)
		}
	}
	return g
}

// influence sums gᵀ H⁻¹ g' over the layers.
func (e *explicit) influence(inverse func(layer int) mat.Matrix) []float64 {
	n := len(e.y)
	sum := mat.NewDense(n, n, nil)
	for layer := range 2 {
		var rows []float64
		for i, y := range e.y {
			s, _ := e.gradient(i, y)
			rows = append(rows, s.flat(layer)...)
		}
		g := mat.NewDense(n, len(rows)/n, rows)
		var half, part mat.Dense
		half.Mul(g, inverse(layer))
		part.Mul(&half, g.T())
		sum.Add(sum, &part)
	}
	return sum.RawMatrix().Data
}

func addDiagonal(m *mat.SymDense, v float64) {
	for i := range m.SymmetricDim() {
		m.SetSym(i, i, m.At(i, i)+v)
	}
}
