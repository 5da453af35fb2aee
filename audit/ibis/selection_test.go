package ibis

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
)

func TestSelect(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, kernels.Reference(), newCloud(60, 3, 1.5, 3), models.MLP(3, 4, 3))
	const num, p, seed = 7, 25, 4
	for _, curvature := range []string{"kfac", "ekfac"} {
		make := map[string]curvatureOf{"kfac": KFAC, "ekfac": EKFAC}[curvature]
		self, matrix := r.influences(t, make, 0.1, Fisher{Seed: seed})
		top := firstN(60)
		slices.SortFunc(top, func(i, j int) int { return cmp.Compare(self[j], self[i]) })
		top = top[:p]
		chosen := map[string]*Chosen{}
		for _, order := range []string{"greedy", "self-influence", "random"} {
			last, of := -1, 0
			c := must[*Chosen](t)(Select(ctx, r.m, r.d, num, Selection{order, p, 0.1, curvature}, seed, func(done, total int) {
				if done < last || done > total {
					t.Errorf("%s: progress %d of %d after %d", order, done, total, last)
				}
				last, of = done, total
			}))
			if last != of || of == 0 {
				t.Errorf("%s: progress ended at %d of %d", order, last, of)
			}
			chosen[order] = c
			for i, e := range c.Indices {
				if !slices.Contains(top, e) || slices.Contains(c.Indices[:i], e) {
					t.Errorf("%s: %v are not %d different ones of %v", order, c.Indices, num, top)
				}
				if !(math.Abs(c.Self[i]-self[e]) <= 1e-9*self[e]) {
					t.Errorf("%s: self-influence of %d is %v, expected %v", order, e, c.Self[i], self[e])
				}
				for j, f := range c.Indices {
					if got, want := c.Influence[i*num+j], matrix[e*60+f]; !(math.Abs(got-want) <= 1e-9*self[top[0]]) {
						t.Errorf("%s: influence of %d on %d is %v, expected %v", order, f, e, got, want)
					}
				}
			}
		}
		if got := chosen["self-influence"].Indices; !slices.Equal(got, top[:num]) {
			t.Errorf("largest self-influences are %v, got %v", top[:num], got)
		}
		if chosen["greedy"].Indices[0] != top[0] {
			t.Errorf("the first pick is %d, expected the largest self-influence, %d", chosen["greedy"].Indices[0], top[0])
		}
		// What greedy is for: the largest influence between chosen, relative to
		// self-influence, is below that of both others.
		if g, s, n := worst(chosen["greedy"]), worst(chosen["self-influence"]), worst(chosen["random"]); !(g < s && g < n) {
			t.Errorf("%s: interference %v of greedy, %v of self-influence, %v of random", curvature, g, s, n)
		}
	}
}

// worst is the largest I(i, j) / I(i, i) of two that are chosen.
func worst(c *Chosen) float64 {
	w, n := math.Inf(-1), len(c.Indices)
	for i := range n {
		for j := range n {
			if i != j {
				w = max(w, c.Influence[i*n+j]/c.Self[i])
			}
		}
	}
	return w
}

// The same choice, bit for bit, on any number of threads.
func TestThreadsDoNotMatter(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	c := newCloud(700, 5, 2, 40)
	choose := func(threads int, curvature string, seed uint64) *Chosen {
		runtime.GOMAXPROCS(threads)
		r := newRig(t, openCPU(t, threads), c, models.MLP(40, 70, 5))
		return must[*Chosen](t)(Select(context.Background(), r.m, r.d, 40, Selection{"greedy", 200, 0.1, curvature}, seed, nil))
	}
	for _, curvature := range []string{"kfac", "ekfac"} {
		one, two, other := choose(1, curvature, 1), choose(2, curvature, 1), choose(2, curvature, 2)
		if !slices.Equal(one.Indices, two.Indices) || !sameBits(one.Self, two.Self) || !sameBits(one.Influence, two.Influence) {
			t.Errorf("%s: one thread and two make a different choice", curvature)
		}
		if sameBits(one.Influence, other.Influence) {
			t.Errorf("%s: planted fault: another seed makes the same choice", curvature)
		}
	}
	// The host's factorisations, at a size at which gonum uses goroutines.
	r := rand.New(rand.NewPCG(1, 1))
	m := mat.NewDense(300, 300, nil)
	m.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, m)
	var s mat.SymDense
	s.SymOuterK(1, m)
	for name, f := range map[string]func() (mat.Matrix, error){
		"whitener":     func() (mat.Matrix, error) { return whitener(&s, 1) },
		"eigenvectors": func() (mat.Matrix, error) { return eigenvectors(&s) },
	} {
		runtime.GOMAXPROCS(1)
		one := mat.DenseCopyOf(must[mat.Matrix](t)(f())).RawMatrix().Data
		runtime.GOMAXPROCS(4)
		four := mat.DenseCopyOf(must[mat.Matrix](t)(f())).RawMatrix().Data
		if !sameBits(one, four) {
			t.Errorf("%s: depends on the number of threads", name)
		}
	}
}

func TestSelectRefuses(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, kernels.Reference(), newCloud(30, 3, 1.5, 3), models.MLP(3, 4, 3))
	good := Selection{"greedy", 20, 0.1, "kfac"}
	for want, c := range map[string]struct {
		num    int
		change func(*Selection)
	}{
		`order is "best", expected greedy, self-influence or random`:         {5, func(s *Selection) { s.Order = "best" }},
		`curvature is "", expected kfac or ekfac`:                            {5, func(s *Selection) { s.Curvature = "" }},
		"preselect is 31, expected 1 to 30, the number of training examples": {5, func(s *Selection) { s.Preselect = 31 }},
		"preselect is 0, expected 1 to 30":                                   {5, func(s *Selection) { s.Preselect = 0 }},
		"21 canaries, expected 1 to 20, the number of preselected examples":  {21, func(*Selection) {}},
		"0 canaries, expected 1 to 20":                                       {0, func(*Selection) {}},
		"damping is 0, expected a positive number":                           {5, func(s *Selection) { s.Damping = 0 }},
		"damping is -1, expected":                                            {5, func(s *Selection) { s.Damping = -1 }},
		"damping is NaN, expected":                                           {5, func(s *Selection) { s.Damping = math.NaN() }},
		"damping is +Inf, expected":                                          {5, func(s *Selection) { s.Damping = math.Inf(1) }},
	} {
		s := good
		c.change(&s)
		if _, err := Select(ctx, r.m, r.d, c.num, s, 1, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	for _, make := range []curvatureOf{KFAC, EKFAC} {
		if _, err := make(ctx, r.m, r.d, 0, Fisher{}, nil); err == nil {
			t.Error("a damping of 0 was taken")
		}
	}
	if _, err := Exact(r.m, r.d, math.NaN()); err == nil {
		t.Error("a damping of NaN was taken")
	}
	k := must[Influence](t)(KFAC(ctx, r.m, r.d, 0.1, Fisher{}, nil))
	defer k.Free()
	if _, err := k.Among(ctx, r.d, []int{3, 30}); err == nil || !strings.Contains(err.Error(), "example 30, expected one from 0 to 29") {
		t.Errorf("a candidate out of range: %v", err)
	}
	e := must[Influence](t)(Exact(r.m, r.d, 0.1))
	defer e.Free()
	for _, f := range []Influence{k, e} {
		if _, err := f.Among(ctx, r.d, nil); !errors.Is(err, errNoCandidates) {
			t.Errorf("no candidates: %v", err)
		}
	}
}

func TestSelectStops(t *testing.T) {
	r := newRig(t, kernels.Reference(), newCloud(30, 3, 1.5, 3), models.MLP(3, 4, 3))
	for _, curvature := range []string{"kfac", "ekfac"} {
		total := 0
		count := func(int, int) { total++ }
		s := Selection{"greedy", 20, 0.1, curvature}
		must[*Chosen](t)(Select(context.Background(), r.m, r.d, 5, s, 1, count))
		for stop := range total - 1 {
			ctx, cancel := context.WithCancel(context.Background())
			n := 0
			_, err := Select(ctx, r.m, r.d, 5, s, 1, func(int, int) {
				if n == stop {
					cancel()
				}
				n++
			})
			// Near the end nothing may be left to do.
			if err != nil && !errors.Is(err, context.Canceled) || err == nil && n < total {
				t.Errorf("%s, stopped at report %d of %d: %v", curvature, stop, total, err)
			}
			if stop == 0 && err == nil {
				t.Errorf("%s: an ended context is not noticed", curvature)
			}
			cancel()
		}
		if live := r.m.Device().Stats().LiveBytes; live != int64(8*(r.m.Len()+r.d.X.Len())) {
			t.Errorf("%s: %d bytes are live, expected those of the model and the data", curvature, live)
		}
	}
}

// gain multiplies all inputs by one parameter; its gradients are no outer
// products.
type gain struct{ q *models.Param }

func (g gain) Params() []*models.Param { return []*models.Param{g.q} }

func (g gain) Forward(p *models.Pass, x models.Value) (models.Value, models.Back) {
	per := kernels.Per{Batch: 1, Rows: 1, Cols: x.Shape()[0] * x.Shape()[1]}
	return p.ScaleBy(x, p.Param(g.q), per), func(dy models.Value, needX bool) models.Value {
		p.Tap(g, gainTap{g, x, dy, per})
		return p.Optional(needX, func() models.Value { return p.ScaleBy(dy, p.Param(g.q), per) })
	}
}

type gainTap struct {
	g     gain
	x, dy models.Value
	per   kernels.Per
}

func (t gainTap) Grads(p *models.Pass, w models.Value) {
	p.SumMulTo(p.Sink(t.g.q), t.x, p.Weighted(t.dy, w), t.per)
}

func TestLayersWithoutFactors(t *testing.T) {
	r := newRig(t, kernels.Reference(), newCloud(30, 3, 1.5, 3), models.Sequential{
		gain{&models.Param{Name: "stem.gain", Shape: []int{1}, Init: models.Init{Value: 1.5}}},
		models.NewLinear("fc", 3, 3),
	})
	for _, make := range []curvatureOf{KFAC, EKFAC} {
		_, err := make(context.Background(), r.m, r.d, 0.1, Fisher{}, nil)
		if want := `the layer of parameter "stem.gain" has no Kronecker factors`; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	twice := models.NewLinear("fc", 3, 3)
	r = newRig(t, kernels.Reference(), r.cloud, models.Sequential{twice, twice})
	if _, err := KFAC(context.Background(), r.m, r.d, 0.1, Fisher{}, nil); err == nil || !strings.Contains(err.Error(), `"fc.w" is used twice`) {
		t.Errorf("a tied layer: %v", err)
	}
	sure := newRig(t, kernels.Reference(), r.cloud, models.MLP(3, 3))
	sure.m.Device().Add(sure.m.Theta.Mem(), sure.m.Theta.Mem(), kernels.Mem{}, 1e6, 0)
	sure.m.Moved()
	if _, err := KFAC(context.Background(), sure.m, sure.d, 0.1, Fisher{}, nil); err == nil || !strings.Contains(err.Error(), `squared gradient of the layer of "fc1.w" is 0`) {
		t.Errorf("a model that is sure of everything: %v", err)
	}
}
