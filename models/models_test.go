package models_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/layertest"
	"github.com/aviary-audit/aviary/tensor"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

func problems() []layertest.Problem {
	return []layertest.Problem{
		{Name: "mlp", Net: func() models.Layer { return models.MLP(7, 9, 8, 3) }, In: []int{7}, Classes: 3, Batch: 4},
		{Name: "images", Net: func() models.Layer { return models.MLP(12, 5, 3) }, In: []int{3, 2, 2}, Classes: 3, Batch: 5},
		{Name: "linear", Net: func() models.Layer { return models.MLP(6, 4) }, In: []int{6}, Classes: 4, Batch: 3},
		{Name: "tanh", Net: func() models.Layer {
			return models.Sequential{models.NewLinear("a", 7, 6), models.Tanh{}, models.NewLinear("b", 6, 3)}
		}, In: []int{7}, Classes: 3, Batch: 4},
		{Name: "relu apart", Net: func() models.Layer {
			return models.Sequential{models.Tanh{}, models.Sequential{models.NewLinear("a", 7, 6), models.ReLU{}}, models.NewLinear("b", 6, 3)}
		}, In: []int{7}, Classes: 3, Batch: 4},
		{Name: "tied", Net: tiedNet, In: []int{7}, Classes: 3, Batch: 4, Mixed: true},
		{Name: "mixing", Net: func() models.Layer {
			return models.Sequential{newCentre("c", 7), models.NewLinear("a", 7, 6), models.Tanh{}, models.NewLinear("b", 6, 3)}
		}, In: []int{7}, Classes: 3, Batch: 4, Mixed: true},
	}
}

func tiedNet() models.Layer {
	tied := models.NewLinear("tied", 6, 6)
	return models.Sequential{models.NewLinear("a", 7, 6), models.Tanh{}, tied, models.Tanh{}, tied, models.Tanh{}, models.NewLinear("b", 6, 3)}
}

// centre takes the batch's mean from each feature and scales it: a layer whose
// examples mix, as a batch norm's do.
type centre struct{ gain *models.Param }

func newCentre(name string, n int) *centre {
	return &centre{&models.Param{Name: name + ".gain", Shape: []int{n}, Init: models.Init{Value: 1}}}
}

func (l *centre) Params() []*models.Param { return []*models.Param{l.gain} }

func (l *centre) Forward(p *models.Pass, x models.Value) (models.Value, models.Back) {
	gain, per := p.Param(l.gain), tensor.PerChannel(x.Shape())
	minus := -1 / float64(x.Shape()[0])
	h := p.Shift(x, minus, p.Sum(x, per), per)
	return p.ScaleBy(h, gain, per), func(dy models.Value, needX bool) models.Value {
		p.Tap(l, centreTap{l, h, dy})
		return p.Optional(needX, func() models.Value {
			dh := p.ScaleBy(dy, gain, per)
			return p.Shift(dh, minus, p.Sum(dh, per), per)
		})
	}
}

type centreTap struct {
	l     *centre
	h, dy models.Value
}

func (t centreTap) Grads(p *models.Pass, w models.Value) {
	p.SumMulTo(p.Sink(t.l.gain), t.h, p.Weighted(t.dy, w), tensor.PerChannel(t.h.Shape()))
}

func TestLayers(t *testing.T) {
	for _, p := range problems() {
		layertest.Check(t, p)
	}
}

// planted is a layer with a wrong backward pass.
type planted struct {
	models.Tanh
	wrong func(p *models.Pass, y, dy models.Value) models.Value
}

func (l planted) Forward(p *models.Pass, x models.Value) (models.Value, models.Back) {
	y := p.Tanh(x)
	return y, func(dy models.Value, needX bool) models.Value {
		return p.Optional(needX, func() models.Value { return l.wrong(p, y, dy) })
	}
}

// TestChecksCatchPlantedFaults. The first fault takes the activation for a
// constant: the gradient stays right and the Hessian symmetric, so that only
// differences notice it.
func TestChecksCatchPlantedFaults(t *testing.T) {
	back := func(p *models.Pass, y, dy models.Value) models.Value {
		return p.AddScaled(dy, -1, p.Mul(dy, p.Mul(y, y)))
	}
	for _, fault := range []struct {
		name           string
		wrong          func(p *models.Pass, y, dy models.Value) models.Value
		passes, caught []string
	}{
		{"right", back, []string{"gradient", "hvp and mixed", "symmetry and linearity", "clipped product"}, nil},
		{"activation taken for a constant", func(p *models.Pass, y, dy models.Value) models.Value {
			return back(p, y.Detach(), dy)
		}, []string{"gradient", "symmetry and linearity", "gauss-newton"}, []string{"hvp and mixed", "clipped product"}},
		{"upstream gradient taken for a constant", func(p *models.Pass, y, dy models.Value) models.Value {
			return back(p, y, dy.Detach())
		}, []string{"gradient"}, []string{"hvp and mixed", "symmetry and linearity"}},
		{"slope wrong by one in 2000", func(p *models.Pass, y, dy models.Value) models.Value {
			return p.Times(1.0005, back(p, y, dy))
		}, []string{"hvp and mixed"}, []string{"gradient"}}, // the derivative of a wrong gradient
	} {
		dev := kernels.Reference()
		defer dev.Close()
		run := func(name string) error {
			f, err := layertest.New(layertest.Problem{Name: "planted", In: []int{7}, Classes: 3, Batch: 4,
				Net: func() models.Layer {
					return models.Sequential{models.NewLinear("a", 7, 6), planted{wrong: fault.wrong}, models.NewLinear("b", 6, 3)}
				}}, dev)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range layertest.Checks {
				if c.Name == name {
					return c.Run(f)
				}
			}
			t.Fatalf("no check is called %q", name)
			return nil
		}
		for _, name := range fault.passes {
			if err := run(name); err != nil {
				t.Errorf("%s: %s: %v", fault.name, name, err)
			}
		}
		for _, name := range fault.caught {
			if run(name) == nil {
				t.Errorf("%s: the check of %s did not notice", fault.name, name)
			}
		}
	}
}

// TestConcurrentPasses: passes only read the model.
func TestConcurrentPasses(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	f, err := layertest.New(problems()[0], dev)
	if err != nil {
		t.Fatal(err)
	}
	x, err := tensor.FromFloats(dev, f.X, f.Batch, 7)
	if err != nil {
		t.Fatal(err)
	}
	labels, err := tensor.FromInts(dev, f.Labels, f.Batch)
	if err != nil {
		t.Fatal(err)
	}
	run := func(v *tensor.Tensor) ([]float64, error) {
		p := models.NewPass(dev)
		p.Dir = f.Model.Split(v)
		hvp, err := tensor.Alloc(dev, f.Model.Len())
		if err != nil {
			return nil, err
		}
		p.HVP = hvp
		_, back := p.Loss(f.Model, tensor.Const(x), labels, models.Value{})
		back(true)
		return p.HVP.Floats(dev)
	}
	var dirs [4]*tensor.Tensor
	var want, got [4][]float64
	for i := range dirs {
		if dirs[i], err = tensor.FromFloats(dev, f.Random(f.Model.Len()), f.Model.Len()); err != nil {
			t.Fatal(err)
		}
		if want[i], err = run(dirs[i]); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	var errs [4]error
	for i := range dirs {
		wg.Go(func() { got[i], errs[i] = run(dirs[i]) })
	}
	wg.Wait()
	for i := range dirs {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if err := gradcheck.Compare("concurrent Hv", got[i], want[i], 0); err != nil {
			t.Error(err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	l := models.NewLinear("a", 2, 2)
	if _, err := models.New(dev, models.Sequential{l, models.NewLinear("a", 2, 2)}); err == nil || !strings.Contains(err.Error(), `"a.w"`) {
		t.Errorf("two parameters of one name: %v", err)
	}
	if _, err := models.New(dev, models.ReLU{}); err == nil {
		t.Error("a net without parameters was bound")
	}
	if _, err := models.New(dev, l); err != nil {
		t.Fatal(err)
	}
	if _, err := models.New(dev, l); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Errorf("a net was bound twice: %v", err)
	}
}

// TestInit: the spreads are those of the papers, biases are zero, and the
// numbers depend on seed and parameter alone.
func TestInit(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	const in, out = 400, 100
	for scheme, sd := range map[models.Scheme]float64{models.He: 0.070711, models.Glorot: 0.063246} { // √(2/400), √(2/500)
		m, err := models.New(dev, models.MLP(in, out, 10))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Init(3, scheme); err != nil {
			t.Fatal(err)
		}
		theta, err := m.Theta.Floats(dev)
		if err != nil {
			t.Fatal(err)
		}
		w, b := theta[:in*out], theta[in*out:in*out+out]
		s := 0.0
		for _, v := range w {
			s += v * v
		}
		// 40,000 draws: the mean square has a relative error of √(2/40000) = 0.7 %
		// or less; five times that is 3.5 %.
		if got := s / (in * out) / (sd * sd); !(got > 0.965 && got < 1.035) {
			t.Errorf("%s: variance is %.3f of what it should be", scheme, got)
		}
		for _, v := range b {
			if v != 0 {
				t.Fatalf("%s: a bias starts at %v", scheme, v)
			}
		}
		if err := m.Init(3, scheme); err != nil {
			t.Fatal(err)
		}
		again, _ := m.Theta.Floats(dev)
		if err := gradcheck.Compare("the same seed", again, theta, 0); err != nil {
			t.Error(err)
		}
		m.Init(4, scheme)
		if other, _ := m.Theta.Floats(dev); other[0] == theta[0] {
			t.Error("another seed gave the same weights")
		}
	}
	m, _ := models.New(dev, models.MLP(2, 2))
	if err := m.Init(1, "xavier"); err == nil || !strings.Contains(err.Error(), `"xavier"`) {
		t.Errorf("an unknown scheme: %v", err)
	}
}

func TestArch(t *testing.T) {
	a, err := models.ParseArch("mlp:784-256-10")
	if err != nil {
		t.Fatal(err)
	}
	if a.String() != "mlp:784-256-10" || len(a.Net().Params()) != 4 {
		t.Errorf("parsed as %v", a)
	}
	if err := a.Check([]int{28, 28, 1}, 10); err != nil {
		t.Error(err)
	}
	for want, err := range map[string]error{
		"784 inputs, but the examples have 3072 ([32 32 3])": a.Check([]int{32, 32, 3}, 10),
		"10 outputs, but the data have 100 classes":          a.Check([]int{784}, 100),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	for _, bad := range []string{"", "mlp", "mlp:", "mlp:10", "mlp:0-2", "mlp:a-b", "mlp:-5-2", "cnn:3-3", "mlp:4-9999999999"} {
		if _, err := models.ParseArch(bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("arch %q: %v", bad, err)
		}
	}
}
