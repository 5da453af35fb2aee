package models_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// oracle is what torch computed in float64; see bench/peers/oracles_mlp.py.
type oracle struct {
	Sizes      []int       `json:"sizes"`
	X          []float64   `json:"x"` // [B, Sizes[0]]
	Y          []int32     `json:"y"`
	Parameters [][]float64 `json:"parameters"` // weights [in, out] and biases in turn
	Direction  [][]float64 `json:"direction"`
	Losses     []float64   `json:"losses"`   // of each example
	Gradient   [][]float64 `json:"gradient"` // of the mean loss
	HVP        [][]float64 `json:"hvp"`      // along Direction
	Mixed      []float64   `json:"mixed"`    // d/dx of gradient·Direction, [B, Sizes[0]]
	Clip       float64     `json:"clip"`
	Norms      []float64   `json:"norms"`       // of each example's gradient of its own loss
	ClippedSum [][]float64 `json:"clipped_sum"` // of those gradients
	SGD        struct {
		LR       float64 `json:"lr"`
		Momentum float64 `json:"momentum"`
		Decay    float64 `json:"decay"`
	} `json:"sgd"`
	TrainingLosses []float64   `json:"training_losses"` // mean, before each step
	Trained        [][]float64 `json:"trained"`
}

// torchTol bounds the difference of two float64 computations of values of
// order 1. Each is a few nested sums of at most 40 terms, good to 1e-14, and ten
// training steps amplify that little; any mistake in a formula is above 1e-4.
const torchTol = 1e-12

// near returns an error unless got is want, element by element.
func near(got, want []float64) error {
	if len(want) == 0 || len(got) != len(want) {
		return fmt.Errorf("%d numbers, expected %d and at least one", len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= torchTol*math.Max(1, math.Abs(want[i]))) {
			return fmt.Errorf("number %d is %v, torch has %v", i, got[i], want[i])
		}
	}
	return nil
}

// onReference is the oracle's net on the float64 device, with its batch.
type onReference struct {
	oracle
	dev       kernels.Device
	model     *models.Model
	x         tensor.Value
	mean      tensor.Value // weights 1/B
	labels    *tensor.Tensor
	direction *tensor.Tensor
}

func load(t *testing.T) *onReference {
	t.Helper()
	raw, err := os.ReadFile("testdata/torch_mlp.json")
	if err != nil {
		t.Fatal(err)
	}
	r := &onReference{dev: kernels.Reference()}
	if err := json.Unmarshal(raw, &r.oracle); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.dev.Close() })
	if r.model, err = models.New(r.dev, models.MLP(r.Sizes...)); err != nil {
		t.Fatal(err)
	}
	batch := len(r.Y)
	r.dev.UploadF64(r.model.Theta.Mem(), slices.Concat(r.Parameters...))
	r.x = tensor.Const(r.floats(t, r.X, batch, r.Sizes[0]))
	r.mean = tensor.Const(r.floats(t, slices.Repeat([]float64{1 / float64(batch)}, batch), batch))
	if r.labels, err = tensor.FromInts(r.dev, r.Y, batch); err != nil {
		t.Fatal(err)
	}
	r.direction = r.floats(t, slices.Concat(r.Direction...), r.model.Len())
	return r
}

func (r *onReference) floats(t *testing.T, numbers []float64, shape ...int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromFloats(r.dev, numbers, shape...)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func (r *onReference) flat(t *testing.T) *tensor.Tensor {
	return r.floats(t, make([]float64, r.model.Len()), r.model.Len())
}

func (r *onReference) numbers(t *testing.T, x *tensor.Tensor) []float64 {
	t.Helper()
	if x == nil {
		t.Fatal("no tensor, where a result was expected")
	}
	numbers, err := x.Floats(r.dev)
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

func check(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if err := near(got, want); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// TestDerivativesAgainstTorch takes the losses, the gradient, the HVP and the
// mixed derivative from one pass.
func TestDerivativesAgainstTorch(t *testing.T) {
	r := load(t)
	p := models.NewPass(r.dev)
	defer p.Free()
	p.Dir, p.Grad, p.HVP = r.model.Split(r.direction), r.flat(t), r.flat(t)
	losses, back := p.Loss(r.model, r.x, r.labels, r.mean)
	_, mixed := tensor.Parts(back(true))
	each, _ := tensor.Parts(losses)
	check(t, "losses", r.numbers(t, each), r.Losses)
	check(t, "gradient", r.numbers(t, p.Grad), slices.Concat(r.Gradient...))
	check(t, "HVP", r.numbers(t, p.HVP), slices.Concat(r.HVP...))
	check(t, "mixed derivative", r.numbers(t, mixed), r.Mixed)
}

// clippedSum is the sum of clipped gradients and the norms before clipping.
func (r *onReference) clippedSum(t *testing.T, clip float64) (sum, norms []float64) {
	t.Helper()
	p := models.NewPass(r.dev)
	defer p.Free()
	p.Grad = r.flat(t)
	_, k, err := p.Clipped(r.model, r.x, r.labels, clip)
	if err != nil {
		t.Fatal(err)
	}
	norms = r.numbers(t, k.SqNorm)
	for i, sq := range norms {
		norms[i] = math.Sqrt(sq)
	}
	return r.numbers(t, p.Grad), norms
}

func TestClippedGradientsAgainstTorch(t *testing.T) {
	r := load(t)
	sum, norms := r.clippedSum(t, r.Clip)
	check(t, "norms", norms, r.Norms)
	check(t, "clipped sum", sum, slices.Concat(r.ClippedSum...))
}

func TestTrainingAgainstTorch(t *testing.T) {
	r := load(t)
	p := models.NewPass(r.dev)
	defer p.Free()
	p.Grad = r.flat(t)
	momentum := r.flat(t)
	var means []float64
	for range r.TrainingLosses {
		losses, back := p.Loss(r.model, r.x, r.labels, r.mean)
		back(false)
		each, _ := tensor.Parts(losses)
		var mean float64
		for _, l := range r.numbers(t, each) {
			mean += l / float64(len(r.Y))
		}
		means = append(means, mean)
		r.dev.SGD(r.model.Theta.Mem(), momentum.Mem(), kernels.Mem{}, p.Grad.Mem(),
			kernels.SGD{LR: r.SGD.LR, Momentum: r.SGD.Momentum, Decay: r.SGD.Decay, Scale: 1})
		r.model.Moved()
		p.Reset()
	}
	check(t, "training losses", means, r.TrainingLosses)
	check(t, "trained parameters", r.numbers(t, r.model.Theta), slices.Concat(r.Trained...))
}

// TestTorchOracleCanFail plants what the tests above must see.
func TestTorchOracleCanFail(t *testing.T) {
	for name, got := range map[string][]float64{
		"a small error": {1, 2 + 1e-11}, "NaN": {1, math.NaN()}, "one missing": {1}, "nothing": nil,
	} {
		if near(got, []float64{1, 2}) == nil {
			t.Errorf("%s passed for [1 2]", name)
		}
	}
	if near(nil, nil) == nil {
		t.Error("nothing compared, and passed")
	}
	r := load(t)
	if sum, _ := r.clippedSum(t, r.Clip*1.001); near(sum, slices.Concat(r.ClippedSum...)) == nil {
		t.Error("another clip norm passed")
	}
	p := models.NewPass(r.dev)
	defer p.Free()
	p.Dir, p.HVP = r.model.Split(r.flat(t)), r.flat(t) // the direction zero
	_, back := p.Loss(r.model, r.x, r.labels, r.mean)
	back(false)
	if near(r.numbers(t, p.HVP), slices.Concat(r.HVP...)) == nil {
		t.Error("an HVP along another direction passed")
	}
}
