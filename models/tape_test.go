package models_test

import (
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/layertest"
	"github.com/aviary-audit/aviary/tensor"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// The tape is a second oracle of layers: reverse mode recorded operation by
// operation, so that there is a forward pass only. Its vector-Jacobian products
// are themselves operations on Values, so that a gradient's derivative is again
// a Hessian-vector product.

// node is a Value on a tape.
type node struct {
	v, grad models.Value
	back    func(dy models.Value)
}

type tape struct {
	*tensor.Ctx
	nodes []*node
}

func (t *tape) leaf(v models.Value) *node { return &node{v: v} }

func (t *tape) node(v models.Value, back func(dy models.Value)) *node {
	n := &node{v: v, back: back}
	t.nodes = append(t.nodes, n)
	return n
}

// add accumulates a gradient.
func (t *tape) add(a *node, g models.Value) {
	if a.grad.IsNone() {
		a.grad = g
		return
	}
	a.grad = t.AddScaled(a.grad, 1, g)
}

// backward fills in the gradients, from that of n.
func (t *tape) backward(n *node, dy models.Value) {
	n.grad = dy
	for i := len(t.nodes) - 1; i >= 0; i-- {
		if n := t.nodes[i]; !n.grad.IsNone() {
			n.back(n.grad)
		}
	}
}

func (t *tape) matMul(a, b *node) *node {
	return t.node(t.MatMul(a.v, b.v, false, false), func(dy models.Value) {
		t.add(a, t.MatMul(dy, b.v, false, true))
		t.add(b, t.MatMul(a.v, dy, true, false))
	})
}

func (t *tape) bias(x, b *node) *node {
	per := tensor.PerChannel(x.v.Shape())
	return t.node(t.Shift(x.v, 1, b.v, per), func(dy models.Value) {
		t.add(x, dy)
		t.add(b, t.Sum(dy, per))
	})
}

func (t *tape) relu(a *node) *node {
	return t.node(t.Keep(a.v, a.v), func(dy models.Value) { t.add(a, t.Keep(dy, a.v)) })
}

// tanh is 1 - 2/(exp(2a)+1); its slope is written as it comes from y here, as
// the sum over both factors of y y.
func (t *tape) tanh(a *node) *node {
	y := t.Tanh(a.v)
	return t.node(y, func(dy models.Value) {
		t.add(a, dy)
		t.add(a, t.Times(-1, t.Mul(t.Mul(dy, y), y)))
	})
}

func (t *tape) linear(x *node, w, b *node) *node { return t.bias(t.matMul(x, w), b) }

// TestTapeAgreesWithLayers compares gradients, Hv and mixed derivative of the
// tape with those of the layers.
func TestTapeAgreesWithLayers(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	nets := map[string]func(t *tape, x *node, q map[string]*node) *node{
		"mlp": func(t *tape, x *node, q map[string]*node) *node {
			x = t.relu(t.linear(x, q["fc1.w"], q["fc1.b"]))
			x = t.relu(t.linear(x, q["fc2.w"], q["fc2.b"]))
			return t.linear(x, q["fc3.w"], q["fc3.b"])
		},
		"tanh": func(t *tape, x *node, q map[string]*node) *node {
			return t.linear(t.tanh(t.linear(x, q["a.w"], q["a.b"])), q["b.w"], q["b.b"])
		},
		"tied": func(t *tape, x *node, q map[string]*node) *node {
			x = t.tanh(t.linear(x, q["a.w"], q["a.b"]))
			for range 2 {
				x = t.tanh(t.linear(x, q["tied.w"], q["tied.b"]))
			}
			return t.linear(x, q["b.w"], q["b.b"])
		},
	}
	for _, p := range problems() {
		net := nets[p.Name]
		if net == nil {
			continue
		}
		delete(nets, p.Name)
		f, err := layertest.New(p, dev)
		if err != nil {
			t.Fatal(err)
		}
		v := f.Random(f.Model.Len())
		want, err := f.Do(layertest.Run{Dir: v})
		if err != nil {
			t.Fatal(err)
		}
		tp := &tape{Ctx: tensor.NewCtx(dev)}
		floats := func(numbers []float64, shape ...int) *tensor.Tensor {
			x, err := tensor.FromFloats(dev, numbers, shape...)
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		labels, err := tensor.FromInts(dev, f.Labels, p.Batch)
		if err != nil {
			t.Fatal(err)
		}
		x, q := tp.leaf(tensor.Const(floats(f.X, p.Batch, 7))), map[string]*node{}
		theta, dir := f.Model.Split(f.Model.Theta), f.Model.Split(floats(v, len(v)))
		for _, param := range f.Model.Params {
			q[param.Name] = tp.leaf(tensor.Dual(theta[param], dir[param]))
		}
		z := net(tp, x, q)
		tp.backward(z, tp.SubOneHot(tp.Softmax(z.v), labels))
		compare := func(what string, got *tensor.Tensor, want []float64) {
			t.Helper()
			numbers, err := got.Floats(dev)
			if err != nil {
				t.Fatal(err)
			}
			if err := gradcheck.Compare(p.Name+" "+what, numbers, want, layertest.Exact); err != nil {
				t.Error(err)
			}
		}
		gx, gd := tensor.Parts(x.grad)
		compare("input gradient", gx, want.DX)
		compare("mixed derivative", gd, want.Mixed)
		off := 0
		for _, param := range f.Model.Params {
			gx, gd := tensor.Parts(q[param.Name].grad)
			to := off + param.Len()
			compare(param.Name, gx, want.Grad[off:to])
			compare("Hv "+param.Name, gd, want.HVP[off:to])
			off = to
		}
	}
	for name := range nets {
		t.Errorf("no problem is called %q", name)
	}
}
