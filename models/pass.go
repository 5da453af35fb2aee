package models

import (
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor"
)

// Pass is one forward and backward run over a model. Everything that differs
// between a gradient, a Hessian-vector product, a mixed derivative and a
// clipped gradient is a field here. One goroutine uses a Pass at a time.
//
// A Pass may be used again, for other data after a Reset of its context, or for
// another direction after a ResetD.
type Pass struct {
	*tensor.Ctx

	// Dir is the direction; parameters that it lacks do not move. A part may
	// have a leading batch axis, or be a tensor.RankOne: then every example has
	// its own direction. Model.Split makes one of a flat vector.
	Dir map[*Param]*Tensor

	// Grad and HVP receive the gradient and its derivative along Dir, flat as
	// Model.Theta is. What is nil is not computed.
	Grad, HVP *Tensor
	// Accumulate adds to them instead of overwriting.
	Accumulate bool

	// Mode is Plain, or records the tensors of a pass and replays them for other
	// directions; data and parameters must then stay the same.
	Mode Mode

	Eval     bool // norms over the batch use their running statistics
	KeepTaps bool // leave parameter gradients for later, in Taps

	// Observe, if set, is shown what a layer computes on the side, such as the
	// input of a ReLU (or its output, which is positive at the same places).
	Observe func(l Layer, v ...Value)

	Taps    []Tap           // in the order of the backward pass
	batch   int             // of the last forward pass
	seen    map[*Param]bool // tapped in this pass
	tied    error           // a parameter was used twice
	touched map[*Param]bool // has a gradient already
}

// Mode is what a pass does with the tensors that it computes.
type Mode uint8

// The modes of a pass.
const (
	Plain  Mode = iota
	Record      // keep them for Replay
	Replay      // take them from the last recorded pass
)

// NewPass is a pass with a context of its own. Its owner calls Free.
func NewPass(dev kernels.Device) *Pass { return &Pass{Ctx: tensor.NewCtx(dev)} }

// Loss runs the model on x [B, ...]. It returns each example's cross-entropy
// [B] for Int32 labels [B], and the backward pass of Σ w[z] loss[z]; w [B] may
// be the zero Value for ones. The backward pass gives the gradient by x if
// needX is set, and puts the parameters' in Grad and HVP.
func (p *Pass) Loss(m *Model, x Value, labels *Tensor, w Value) (losses Value, back func(needX bool) Value) {
	z, backNet := p.Output(m, x)
	prob := p.Softmax(z)
	return p.CrossEntropy(z, prob, labels), func(needX bool) Value {
		return backNet(p.Weighted(p.SubOneHot(prob, labels), w), needX)
	}
}

// Logits runs the model on x [B, ...] and returns its output [B, K].
func (p *Pass) Logits(m *Model, x Value) Value {
	z, _ := p.forward(m, x)
	return z
}

// Output is Logits with the way back: for a gradient at the logits it does what
// that of Loss does. It is for losses that are not the examples' own
// cross-entropy.
func (p *Pass) Output(m *Model, x Value) (z Value, back Back) {
	z, backNet := p.forward(m, x)
	return z, func(dz Value, needX bool) Value {
		dx := backNet(dz, needX)
		if !p.KeepTaps {
			p.zeroUntouched(m)
		}
		return dx
	}
}

// GaussNewton puts the product of the Gauss-Newton matrix of Σ w[z] loss[z] and
// Dir in HVP: Jᵀ (H Jv), where H is the Hessian of the loss by the logits. w
// may be the zero Value.
func (p *Pass) GaussNewton(m *Model, x Value, w Value) {
	grad, keep := p.Grad, p.KeepTaps
	p.Grad, p.HVP, p.KeepTaps = p.HVP, nil, false
	z, back := p.forward(m, x)
	_, hjv := tensor.Parts(p.Softmax(z))
	if hjv != nil {
		// Backward is linear in the gradient at the logits, so H Jv in its place
		// gives the product; nothing moves on the way.
		p.Still(func() { back(p.Weighted(tensor.Const(hjv), w), false) })
	}
	p.zeroUntouched(m)
	p.Grad, p.HVP, p.KeepTaps = grad, p.Grad, keep
}

func (p *Pass) forward(m *Model, x Value) (Value, Back) {
	p.begin(m, x)
	return m.Net.Forward(p, x)
}

// begin readies p for a run of m on x.
func (p *Pass) begin(m *Model, x Value) {
	if m.dev != p.Device() {
		panic("models: the pass and the model are on different devices")
	}
	for _, flat := range []*Tensor{p.Grad, p.HVP} {
		if flat != nil && flat.Len() != m.Len() {
			panic(fmt.Sprintf("models: a gradient vector %v for %d parameters", flat.Shape(), m.Len()))
		}
	}
	switch p.Mode {
	case Record:
		p.Ctx.Record(m.Generation())
	case Replay:
		p.Ctx.Replay(m.Generation())
	}
	p.batch, p.Taps, p.tied = x.Shape()[0], nil, nil
	if p.seen == nil {
		p.seen, p.touched = map[*Param]bool{}, map[*Param]bool{}
	}
	clear(p.seen)
	clear(p.touched)
}

// Param is q as an operand, with its direction if it has one.
func (p *Pass) Param(q *Param) Value {
	if q.x == nil {
		panic(fmt.Sprintf("models: parameter %q is not bound to a device (models.New)", q.Name))
	}
	return tensor.Dual(q.x, p.Dir[q])
}

// Sink is where the gradient of q goes. A layer asks for it once for each
// term: the first overwrites, later ones are added.
func (p *Pass) Sink(q *Param) tensor.Sink {
	acc := p.Accumulate || p.touched[q]
	p.touched[q] = true
	return tensor.Sink{X: q.part(p.Grad), D: q.part(p.HVP), AccX: acc, AccD: acc}
}

// part is q's segment of a flat vector.
func (q *Param) part(flat *Tensor) *Tensor {
	if flat == nil {
		return nil
	}
	return flat.Segment(q.off, q.Shape...)
}

// Tap hands the tap of layer l to the pass.
func (p *Pass) Tap(l Layer, t Tap) {
	if !p.KeepTaps {
		if p.Grad != nil || p.HVP != nil {
			t.Grads(p, Value{})
		}
		return
	}
	for _, q := range l.Params() {
		if p.seen[q] {
			p.tied = fmt.Errorf("models: parameter %q is used twice; the gradients of its examples do not separate", q.Name)
		}
		p.seen[q] = true
	}
	p.Taps = append(p.Taps, t)
}

// Weighted scales example z of v [B, ...] by w[z]; the zero Value is ones.
func (p *Pass) Weighted(v, w Value) Value {
	if w.IsNone() {
		return v
	}
	return p.ScaleBy(v, w, tensor.PerExample(v.Shape()))
}

// zeroUntouched fills in the gradients of parameters that the loss does not
// depend on.
func (p *Pass) zeroUntouched(m *Model) {
	if p.Accumulate {
		return
	}
	for _, q := range m.Params {
		for _, flat := range []*Tensor{p.Grad, p.HVP} {
			if flat != nil && !p.touched[q] {
				p.Device().Fill(q.part(flat).Mem(), 0)
			}
		}
	}
}

func (p *Pass) observe(l Layer, v ...Value) {
	if p.Observe != nil {
		p.Observe(l, v...)
	}
}
