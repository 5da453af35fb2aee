package gorgonia

import (
	"fmt"
	"math/rand/v2"

	G "gorgonia.org/gorgonia"
	gt "gorgonia.org/tensor"
)

// Net builds a classifier in x's graph: from x, float64 of shape [B, D] with
// each example flattened to a row, to logits [B, K]. It draws the initial
// parameters from init, gives each its value, and returns them: they are what
// training changes. Equal init gives equal parameters.
type Net func(x *G.Node, init *rand.Rand) (logits *G.Node, params G.Nodes, err error)

// MLP is a Net of linear layers with ReLU between them: sizes are D, the widths
// of the hidden layers, and K. Weights are [in, out], normal with variance 2/in;
// biases [1, out] and zero.
func MLP(sizes ...int) Net {
	return func(x *G.Node, init *rand.Rand) (*G.Node, G.Nodes, error) {
		if len(sizes) < 2 {
			return nil, nil, fmt.Errorf("an MLP of sizes %v, expected at least two", sizes)
		}
		var params G.Nodes
		h, g := x, x.Graph()
		for i := range len(sizes) - 1 {
			in, out := sizes[i], sizes[i+1]
			w := parameter(g, fmt.Sprintf("w%d", i+1), in, out, normal(init, in, out))
			b := parameter(g, fmt.Sprintf("b%d", i+1), 1, out, make([]float64, out))
			params = append(params, w, b)

			xw, err := G.Mul(h, w)
			if err != nil {
				return nil, nil, err
			}
			if h, err = G.BroadcastAdd(xw, b, nil, []byte{0}); err != nil {
				return nil, nil, err
			}
			if i < len(sizes)-2 {
				if h, err = G.Rectify(h); err != nil {
					return nil, nil, err
				}
			}
		}
		return h, params, nil
	}
}

func normal(r *rand.Rand, in, out int) []float64 {
	sd := heDeviation(in)
	w := make([]float64, in*out)
	for i := range w {
		w[i] = sd * r.NormFloat64()
	}
	return w
}

func parameter(g *G.ExprGraph, name string, rows, cols int, numbers []float64) *G.Node {
	value := gt.New(gt.WithShape(rows, cols), gt.WithBacking(numbers))
	return G.NewMatrix(g, gt.Float64, G.WithName(name), G.WithShape(rows, cols), G.WithValue(value))
}

// graph is a Net with its inputs, and, where it learns, its loss and gradients.
// It has a fixed batch: a smaller one leaves rows with weight zero.
type graph struct {
	batch, dim, classes int
	x, onehot, weight   *gt.Dense // inputs: [B,D], [B,K], [B]
	params              []*gt.Dense
	names               []string
	logits              G.Value   // [B,K], after run
	gradients           []G.Value // as params, after run; of the weighted loss
	vm                  G.VM
}

// newGraph builds net for batches of the given size. learn adds the loss
// Σ_b weight[b] (log Σ_c exp(z[b,c]) − z[b,y[b]]) and its gradients.
func newGraph(net Net, init *rand.Rand, batch, dim, classes int, learn bool) (*graph, error) {
	g := G.NewGraph()
	gr := &graph{batch: batch, dim: dim, classes: classes}
	var x, onehot, weight *G.Node
	x, gr.x = input(g, "x", batch, dim)
	logits, params, err := net(x, init)
	if err != nil {
		return nil, err
	}
	if !logits.Shape().Eq(gt.Shape{batch, classes}) {
		return nil, fmt.Errorf("the net's logits have shape %v, expected %v", logits.Shape(), gt.Shape{batch, classes})
	}
	for _, p := range params {
		value, ok := p.Value().(*gt.Dense)
		if !ok || value.Dtype() != gt.Float64 || !rowMajor(value) || value.IsScalar() {
			return nil, fmt.Errorf("parameter %s of the net is a %T of dtype %v, expected a contiguous float64 *tensor.Dense",
				p.Name(), p.Value(), p.Dtype())
		}
		gr.params, gr.names = append(gr.params, value), append(gr.names, p.Name())
	}
	G.Read(logits, &gr.logits)
	if learn {
		onehot, gr.onehot = input(g, "onehot", batch, classes)
		gr.weight = gt.New(gt.WithShape(batch), gt.WithBacking(make([]float64, batch)))
		weight = G.NewVector(g, gt.Float64, G.WithName("weight"), G.WithShape(batch), G.WithValue(gr.weight))
		loss, err := crossEntropy(logits, onehot, weight)
		if err != nil {
			return nil, err
		}
		gradients, err := G.Grad(loss, params...)
		if err != nil {
			return nil, err
		}
		gr.gradients = make([]G.Value, len(gradients))
		for i, d := range gradients {
			G.Read(d, &gr.gradients[i])
		}
	}
	gr.vm = G.NewTapeMachine(g, G.BindDualValues(params...))
	return gr, nil
}

func input(g *G.ExprGraph, name string, rows, cols int) (*G.Node, *gt.Dense) {
	value := gt.New(gt.WithShape(rows, cols), gt.WithBacking(make([]float64, rows*cols)))
	return G.NewMatrix(g, gt.Float64, G.WithName(name), G.WithShape(rows, cols), G.WithValue(value)), value
}

// crossEntropy is Σ_b weight[b] (log Σ_c exp(z[b,c]) − Σ_c onehot[b,c] z[b,c]).
// There is no shift by the maximum: in float64 it overflows beyond logits of
// 700 only, and the trainer reports that. weight is a vector from the start: with
// a Reshape in this place Gorgonia 0.9.18 gets the parameters' gradients wrong.
func crossEntropy(logits, onehot, weight *G.Node) (*G.Node, error) {
	e, err := G.Exp(logits)
	if err != nil {
		return nil, err
	}
	sum, err := G.Sum(e, 1)
	if err != nil {
		return nil, err
	}
	all, err := G.Log(sum)
	if err != nil {
		return nil, err
	}
	picked, err := G.HadamardProd(logits, onehot)
	if err != nil {
		return nil, err
	}
	own, err := G.Sum(picked, 1)
	if err != nil {
		return nil, err
	}
	loss, err := G.Sub(all, own)
	if err != nil {
		return nil, err
	}
	weighted, err := G.HadamardProd(loss, weight)
	if err != nil {
		return nil, err
	}
	return G.Sum(weighted)
}

// run computes logits and gradients of what the inputs hold.
func (gr *graph) run() error {
	gr.vm.Reset()
	return gr.vm.RunAll()
}

func (gr *graph) close() error { return gr.vm.Close() }

// numbers are the elements of a value that gr has computed.
func numbers(v G.Value) []float64 { return v.Data().([]float64) }

func floats(d *gt.Dense) []float64 { return d.Data().([]float64) }
