package gorgonia

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// gradientTol bounds the relative difference of two float64 gradients. Sums of
// up to a few hundred terms of order one agree to 1e-13; a mistake in a formula
// shows at 1e-3.
const gradientTol = 1e-9

// differ is the largest difference between two gradients relative to the size
// of the second, and an error where there is nothing to compare.
func differ(got, want []float64) (float64, error) {
	if len(want) == 0 || len(got) != len(want) {
		return 0, fmt.Errorf("%d numbers, expected %d and at least one", len(got), len(want))
	}
	var size, worst float64
	for _, w := range want {
		size = math.Max(size, math.Abs(w))
	}
	for i := range want {
		worst = math.Max(worst, math.Abs(got[i]-want[i])/size) // NaN stays
	}
	return worst, nil
}

// TestGradientAgainstGorgonia gives one batch and the same parameters to
// Gorgonia and to our MLP on the float64 device, and compares logits and the
// gradient of the weighted loss.
func TestGradientAgainstGorgonia(t *testing.T) {
	for _, sizes := range [][]int{{5, 4}, {6, 9, 3}, {20, 16, 12, 10}} {
		t.Run(fmt.Sprint(sizes), func(t *testing.T) {
			const batch = 17
			r := rand.New(rand.NewPCG(11, uint64(len(sizes))))
			dim, classes := sizes[0], sizes[len(sizes)-1]
			g, err := newGraph(MLP(sizes...), r, batch, dim, classes, true)
			if err != nil {
				t.Fatal(err)
			}
			defer g.close()
			labels := make([]int32, batch)
			fill(floats(g.x), r)
			for _, p := range g.params {
				fill(floats(p), r) // biases too
			}
			for z := range batch {
				labels[z] = r.Int32N(int32(classes))
				floats(g.onehot)[z*classes+int(labels[z])] = 1
				floats(g.weight)[z] = r.Float64()
			}
			// Twice: the second run must not add to the first.
			for range 2 {
				if err := g.run(); err != nil {
					t.Fatal(err)
				}
			}
			logits, gradient := ours(t, g, sizes, labels)
			compare(t, "logits", numbers(g.logits), logits)
			var theirs []float64
			for _, d := range g.gradients {
				theirs = append(theirs, numbers(d)...)
			}
			compare(t, "gradient", theirs, gradient)

			// Planted: a gradient of which one element has the wrong sign.
			theirs[len(theirs)-1] *= -1
			if d, err := differ(theirs, gradient); err == nil && d <= gradientTol {
				t.Error("a gradient with a wrong sign passed")
			}
		})
	}
	if d, _ := differ([]float64{math.NaN(), 1}, []float64{1, 1}); d <= gradientTol {
		t.Error("NaN passed")
	}
}

func fill(x []float64, r *rand.Rand) {
	for i := range x {
		x[i] = r.NormFloat64() / 2
	}
}

func compare(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if d, err := differ(got, want); err != nil || !(d <= gradientTol) {
		t.Errorf("%s: relative difference %v, error %v", what, d, err)
	}
}

// ours is the logits and the gradient of our MLP for g's inputs and parameters,
// which go through FromDense.
func ours(t *testing.T, g *graph, sizes []int, labels []int32) (logits, gradient []float64) {
	t.Helper()
	dev := kernels.Reference()
	defer dev.Close()
	must := func(x *tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	model, err := models.New(dev, models.MLP(sizes...))
	if err != nil {
		t.Fatal(err)
	}
	var theta []float64
	for _, p := range g.params {
		theta = append(theta, floats(p)...)
	}
	dev.UploadF64(model.Theta.Mem(), theta)
	x := tensor.Const(must(FromDense(dev, g.x)))
	weight := tensor.Const(must(FromDense(dev, g.weight)))
	y := must(tensor.FromInts(dev, labels, g.batch))

	p := models.NewPass(dev)
	defer p.Free()
	p.Grad = must(tensor.Alloc(dev, model.Len()))
	_, back := p.Loss(model, x, y, weight)
	back(false)
	if gradient, err = p.Grad.Floats(dev); err != nil {
		t.Fatal(err)
	}
	z, _ := tensor.Parts(p.Logits(model, x))
	if logits, err = z.Floats(dev); err != nil {
		t.Fatal(err)
	}
	return logits, gradient
}
