// Package layertest holds a net to everything that a layer must get right. A
// new layer is tested by one call of Check on a small net that contains it.
//
// The checks run in float64 on the reference device, against central
// differences, against batches of one, and against each other. Symmetry of the
// Hessian alone proves little: a backward pass that takes an activation for a
// constant leaves a wrong Hessian that is symmetric (docs/designs/001-layers.md).
package layertest

import (
	"fmt"
	"math/rand/v2"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// Problem is a net and the shape of its data.
type Problem struct {
	Name    string
	Net     func() models.Layer // a new net each time
	In      []int               // shape of one example
	Classes int
	Batch   int
	Eval    bool
	// Mixed says that the net mixes examples or uses a parameter twice:
	// per-example gradients must then be refused.
	Mixed bool
}

// Fixture is a problem with its numbers, on a device.
type Fixture struct {
	Problem
	Model    *models.Model
	Theta, X []float64
	Labels   []int32

	dev kernels.Device
	r   *rand.Rand
}

// New draws the numbers of a problem, the same for every device.
func New(p Problem, dev kernels.Device) (*Fixture, error) {
	m, err := models.New(dev, p.Net())
	if err != nil {
		return nil, err
	}
	f := &Fixture{Problem: p, Model: m, dev: dev, r: rand.New(rand.NewPCG(1, 2))}
	if err := m.Init(5, models.He); err != nil {
		return nil, err
	}
	if f.Theta, err = m.Theta.Floats(dev); err != nil {
		return nil, err
	}
	for i, d := range f.Random(m.Len()) { // leave special points, such as zero biases
		f.Theta[i] += 0.1 * d
	}
	n := p.Batch
	for _, d := range p.In {
		n *= d
	}
	f.X = f.Random(n)
	for range p.Batch {
		f.Labels = append(f.Labels, int32(f.r.IntN(p.Classes)))
	}
	return f, nil
}

// Random is n standard normal numbers.
func (f *Fixture) Random(n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = f.r.NormFloat64()
	}
	return v
}

// Run is one pass. Nil fields are the fixture's numbers, or no direction.
type Run struct {
	Theta, X  []float64
	Dir, XDir []float64 // directions of the parameters and of x
	W, WDir   []float64 // example weights and their direction
	From, To  int       // examples; 0, 0: all
}

// Result is what a pass gives. Absent derivatives are nil.
type Result struct {
	Losses, LossesD []float64
	Grad, HVP       []float64
	DX, Mixed       []float64
	Signs           []bool // at the kinks that layers showed
	UsedD           int    // numbers of derivatives that were made
}

// Loss is the weighted sum of the losses.
func (r Result) Loss(w []float64) float64 {
	s := 0.0
	for i, l := range r.Losses {
		if w != nil {
			l *= w[i]
		}
		s += l
	}
	return s
}

// at makes the tensors of a run: x, labels and weights.
func (f *Fixture) at(s *scratch, r Run) (x models.Value, labels *tensor.Tensor, w models.Value) {
	if r.To == 0 {
		r.To = f.Batch
	}
	theta := r.Theta
	if theta == nil {
		theta = f.Theta
	}
	f.dev.UploadF64(f.Model.Theta.Mem(), theta)
	f.Model.Moved()
	if r.X == nil {
		r.X = f.X
	}
	each := len(f.X) / f.Batch
	part := func(v []float64) []float64 {
		if v == nil {
			return nil
		}
		return v[r.From*each : r.To*each]
	}
	shape := append([]int{r.To - r.From}, f.In...)
	x = tensor.Dual(s.floats(part(r.X), shape...), s.floats(part(r.XDir), shape...))
	labels = s.ints(f.Labels[r.From:r.To])
	if r.W != nil {
		w = tensor.Dual(s.floats(r.W, len(r.W)), s.floats(r.WDir, len(r.W)))
	}
	return x, labels, w
}

// Pass is a pass of the fixture that records the signs at kinks.
func (f *Fixture) pass(signs *[]bool) *models.Pass {
	p := models.NewPass(f.dev)
	p.Poison()
	p.Eval = f.Eval
	if signs != nil {
		p.Observe = func(_ models.Layer, v ...models.Value) {
			x, _ := tensor.Parts(v[0])
			numbers, err := x.Floats(f.dev)
			if err != nil {
				panic(err)
			}
			for _, z := range numbers {
				*signs = append(*signs, z > 0)
			}
		}
	}
	return p
}

// Do runs one pass that gives all there is: loss, gradients, and their
// derivatives if something moves.
func (f *Fixture) Do(r Run) (res Result, err error) {
	s := &scratch{dev: f.dev}
	defer s.free(&err)
	x, labels, w := f.at(s, r)
	p := f.pass(&res.Signs)
	defer p.Free()
	moves := r.Dir != nil || r.XDir != nil || r.WDir != nil
	p.Grad = s.alloc(f.Model.Len())
	if moves {
		p.HVP = s.alloc(f.Model.Len())
	}
	p.Dir = f.split(s, r.Dir)
	losses, back := p.Loss(f.Model, x, labels, w)
	dx := back(true)
	if err := p.Err(); err != nil {
		return res, err
	}
	_, res.UsedD = p.Used()
	res.Losses, res.LossesD = s.parts(losses)
	res.DX, res.Mixed = s.parts(dx)
	res.Grad, res.HVP = s.read(p.Grad), s.read(p.HVP)
	return res, s.err
}

func (f *Fixture) split(s *scratch, dir []float64) map[*models.Param]*tensor.Tensor {
	if dir == nil {
		return nil
	}
	return f.Model.Split(s.floats(dir, len(dir)))
}

// scratch makes tensors that live as long as a check, and remembers the first
// error.
type scratch struct {
	dev kernels.Device
	all []*tensor.Tensor
	err error
}

func (s *scratch) keep(t *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(fmt.Sprintf("layertest: %v", err)) // the reference device has memory
	}
	s.all = append(s.all, t)
	return t
}

func (s *scratch) alloc(n int) *tensor.Tensor { return s.keep(tensor.Alloc(s.dev, n)) }

func (s *scratch) floats(v []float64, shape ...int) *tensor.Tensor {
	if v == nil {
		return nil
	}
	return s.keep(tensor.FromFloats(s.dev, v, shape...))
}

func (s *scratch) ints(v []int32) *tensor.Tensor { return s.keep(tensor.FromInts(s.dev, v, len(v))) }

func (s *scratch) read(t *tensor.Tensor) []float64 {
	if t == nil {
		return nil
	}
	v, err := t.Floats(s.dev)
	if s.err == nil {
		s.err = err
	}
	return v
}

func (s *scratch) parts(v models.Value) (x, d []float64) {
	tx, td := tensor.Parts(v)
	return s.read(tx), s.read(td)
}

func (s *scratch) free(err *error) {
	if *err == nil {
		*err = s.err
	}
	for _, t := range s.all {
		t.Free(s.dev)
	}
}
