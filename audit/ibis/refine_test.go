package ibis

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// loop is what a refinement needs, at its start: images of 2 x 3 pixels, 11 in D
// and 5 canaries, and an MLP 6-5-3.
type loop struct {
	t              *testing.T
	dev            kernels.Device
	star, theta    *models.Model
	rest, canaries *train.Data
}

// loopNumbers are the images of a loop.
func loopNumbers() (rest, canaries *numbers) {
	r := rand.New(rand.NewPCG(7, 7))
	return randomNumbers(r, 11, 3, true, 2, 3, 1), randomNumbers(r, 5, 3, true, 2, 3, 1)
}

func newLoop(t *testing.T, dev kernels.Device, sizes ...int) *loop {
	t.Helper()
	if len(sizes) == 0 {
		sizes = []int{6, 5, 3}
	}
	rest, canaries := loopNumbers()
	return loopOf(t, dev, rest, canaries, sizes...)
}

func loopOf(t *testing.T, dev kernels.Device, rest, canaries *numbers, sizes ...int) *loop {
	t.Helper()
	l := &loop{t: t, dev: dev, rest: mustUpload(t, dev, rest), canaries: mustUpload(t, dev, canaries)}
	for i, m := range []**models.Model{&l.star, &l.theta} {
		var err error
		if *m, err = models.New(dev, models.MLP(sizes...)); err == nil {
			err = (*m).Init(uint64(20+i), models.He)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *loop) free() {
	l.star.Free()
	l.theta.Free()
	l.rest.Free()
	l.canaries.Free()
}

// refine runs to the end.
func (l *loop) refine(cfg Refinement, o RefineOptions) *Trace {
	l.t.Helper()
	trace, err := Refine(context.Background(), l.star, l.theta, l.rest, l.canaries, cfg, 9, o)
	if err != nil {
		l.t.Fatal(err)
	}
	return trace
}

func loopConfig() Refinement {
	return Refinement{Lambda: 0.4, Rho: 0.05, Eta: 0.1, Steps: 11, Every: 3, Batch: 5, ClipPixels: true, Augment: "none"}
}

// TestRefineByHand compares whole refinements with plain loops in float64.
func TestRefineByHand(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	edges := 0
	for name, change := range map[string]func(*Refinement){
		"as it is":          func(*Refinement) {},
		"every step":        func(c *Refinement) { c.Every = 1 },
		"no regulariser":    func(c *Refinement) { c.Lambda = 0 },
		"pixels not kept":   func(c *Refinement) { c.ClipPixels = false },
		"all in each batch": func(c *Refinement) { c.Batch = 16 },
	} {
		cfg := loopConfig()
		change(&cfg)
		l := newLoop(t, dev)
		rest, canaries := loopNumbers()
		h := &byHand{
			in: 6, hidden: 5, out: 3, rest: rest, canaries: canaries, cfg: cfg,
			star: mustFloats(t, dev, l.star.Theta), theta: mustFloats(t, dev, l.theta.Theta),
		}
		h.v = make([]float64, len(h.theta))
		start := slices.Clone(canaries.x)
		r, err := newRefiner(l.star, l.theta, l.rest, l.canaries, cfg, 9)
		if err != nil {
			t.Fatal(err)
		}
		for step := range cfg.Steps {
			rows, canaryRows := r.shuffle.at(step)
			h.step(step, rows, canaryRows)
		}
		r.free()

		trace := l.refine(cfg, RefineOptions{})
		// A few hundred roundings, and steps of order one that do not magnify them.
		const tol = 1e-12
		for _, c := range []struct {
			what      string
			got, want []float64
		}{
			{"pixels", mustFloats(t, dev, l.canaries.X), h.canaries.x},
			{"θ", mustFloats(t, dev, l.theta.Theta), h.theta},
			{"trace", flatten(trace.Points), flatten(h.points)},
		} {
			if err := gradcheck.Compare(c.what, c.got, c.want, tol); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		moved := slices.Clone(start)
		for i := range moved {
			moved[i] -= h.canaries.x[i]
		}
		if !(norm2(moved) > 1e-2) {
			t.Errorf("%s: the pixels moved by %v only: nothing was tested", name, norm2(moved))
		}
		if cfg.ClipPixels && slices.ContainsFunc(h.canaries.x, func(x float64) bool { return x == 0 || x == 1 }) {
			edges++
		}
		l.free()
	}
	if edges == 0 {
		t.Error("no pixel reached 0 or 1: clipping was not tested")
	}
}

// TestRefineByHandCatchesFaults: a loop that moves θ before the pixels' gradient
// is taken, or forgets v, is not what the loops by hand give.
func TestRefineByHandCatchesFaults(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	cfg := loopConfig()
	run := func(step func(r *refiner) error) []float64 {
		l := newLoop(t, dev)
		defer l.free()
		r, err := newRefiner(l.star, l.theta, l.rest, l.canaries, cfg, 9)
		if err != nil {
			t.Fatal(err)
		}
		defer r.free()
		for range cfg.Steps {
			if err := step(r); err != nil {
				t.Fatal(err)
			}
		}
		return mustFloats(t, dev, l.canaries.X)
	}
	right := run((*refiner).doStep)
	for name, wrong := range map[string]func(r *refiner) error{
		"model moves first": func(r *refiner) error {
			b, err := r.batchGradient()
			if err != nil {
				return err
			}
			if r.step == 0 {
				dev.Fill(r.sum.Mem(), 0)
			}
			r.moveModel(b)
			if r.step%cfg.Every == 0 {
				if err := r.pixelGradient(); err != nil {
					return err
				}
				r.movePixels()
			}
			r.step++
			return nil
		},
		"v stays": func(r *refiner) error {
			dev.Fill(r.v.Mem(), 0)
			return r.doStep()
		},
	} {
		if gradcheck.Compare(name, run(wrong), right, 1e-6) == nil {
			t.Errorf("planted fault %q gives the same pixels", name)
		}
	}
}

func flatten(points []TracePoint) (all []float64) {
	for _, p := range points {
		all = append(all, float64(p.Step), p.Loss, p.LossStar, p.R, p.V, p.GX)
	}
	return all
}

// TestRefineAblations: without the implicit term v is not there; without the
// detectability terms the model stays, and only the regulariser falls.
func TestRefineAblations(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	cfg := loopConfig()
	cfg.Steps, cfg.Every = 30, 2
	cfg.WithoutImplicit = true
	l := newLoop(t, dev)
	for _, p := range l.refine(cfg, RefineOptions{}).Points {
		if p.V != 0 {
			t.Fatalf("without the implicit term |v| is %v at step %d", p.V, p.Step)
		}
	}
	l.free()

	cfg.WithoutImplicit, cfg.WithoutDetect = false, true
	l = newLoop(t, dev)
	defer l.free()
	before := mustFloats(t, dev, l.theta.Theta)
	trace := l.refine(cfg, RefineOptions{})
	if !slices.Equal(before, mustFloats(t, dev, l.theta.Theta)) {
		t.Error("without the detectability terms the model moved")
	}
	first, last := trace.Points[0], trace.Points[len(trace.Points)-1]
	if !(last.R < 0.9*first.R) {
		t.Errorf("the regulariser alone went from %v to %v", first.R, last.R)
	}
}

// TestCanaryBatch: sums over some of the canaries, averaged over all choices,
// are those over all; canaries that were not chosen stay.
func TestCanaryBatch(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	l := newLoop(t, dev)
	defer l.free()
	cfg := loopConfig()
	at := func(size int, rows []int) (gx, sum []float64, r *refiner) {
		cfg.CanaryBatch = size
		r, err := newRefiner(l.star, l.theta, l.rest, l.canaries, cfg, 9)
		if err != nil {
			t.Fatal(err)
		}
		v := make([]float64, l.theta.Len())
		for i := range v {
			v[i] = math.Sin(float64(i))
		}
		dev.UploadF64(r.v.Mem(), v)
		if rows != nil {
			r.rows = rows
			r.chosen.take(l.canaries, rows, 0)
		}
		if err := r.pixelGradient(); err != nil {
			t.Fatal(err)
		}
		return mustFloats(t, dev, r.gx), mustFloats(t, dev, r.sum), r
	}
	gx, sum, r := at(0, nil)
	r.free()
	const m, b = 5, 2
	meanX, meanSum, seen := make([]float64, len(gx)), make([]float64, len(sum)), make([]float64, m)
	for i := range m {
		for j := i + 1; j < m; j++ {
			part, partSum, r := at(b, []int{i, j})
			for k, row := range r.rows {
				seen[row]++
				for p := range 6 {
					meanX[row*6+p] += part[k*6+p]
				}
			}
			for p, s := range partSum {
				meanSum[p] += s * m / b / 10 // of the ten pairs
			}
			r.free()
		}
	}
	for i := range meanX {
		meanX[i] /= seen[i/6]
	}
	if err := errors.Join(gradcheck.Compare("pixels", meanX, gx, 1e-12), gradcheck.Compare("sum", meanSum, sum, 1e-12)); err != nil {
		t.Error(err)
	}

	before := mustFloats(t, dev, l.canaries.X)
	cfg.Steps, cfg.CanaryBatch = 1, 2
	l.refine(cfg, RefineOptions{})
	moved := uint(0)
	for i, x := range mustFloats(t, dev, l.canaries.X) {
		if x != before[i] {
			moved |= 1 << (i / 6)
		}
	}
	if n := bits.OnesCount(moved); n != 2 {
		t.Errorf("%d canaries moved, want 2", n)
	}
	cfg.Steps = 60
	l.refine(cfg, RefineOptions{})
	for i, x := range mustFloats(t, dev, l.canaries.X) {
		if x != before[i] {
			moved |= 1 << (i / 6)
		}
	}
	if moved != 1<<m-1 {
		t.Errorf("canaries %b of %d moved in 20 draws", moved, m)
	}
}

// TestClipPixels: every number comes out exactly as min and max give it, also far from the interval; a NaN stays one.
func TestClipPixels(t *testing.T) {
	rest, canaries := loopNumbers()
	x := []float64{-1e30, -1, -1e-30, 0, 1e-30, 1e-7, 0.1, 0.5, 1 - 1.0/(1<<24), 1, 1 + 1.0/(1<<20), 3, 1 << 26, 1e30, math.Inf(1), math.Inf(-1), math.NaN(), 0.3}
	canaries.x = append(x, canaries.x[len(x):]...)
	for name, dev := range devices(t, 1) {
		l := newLoop(t, dev)
		cfg := loopConfig()
		r, err := newRefiner(l.star, l.theta, mustUpload(t, dev, rest), l.canaries, cfg, 9)
		if err != nil {
			t.Fatal(err)
		}
		dev.UploadF64(l.canaries.X.Mem(), canaries.x)
		before := mustFloats(t, dev, l.canaries.X) // in the device's precision
		r.clipPixels(l.canaries.X.Mem())
		for i, got := range mustFloats(t, dev, l.canaries.X) {
			want := min(max(before[i], 0), 1)
			if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s: %v becomes %v, want %v", name, before[i], got, want)
			}
		}
		r.free()
		l.free()
	}
}

// devices are the reference and the CPU with so many threads.
func devices(t *testing.T, threads int) map[string]kernels.Device {
	t.Helper()
	cpu, err := kernels.CPU(kernels.CPUOptions{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]kernels.Device{"reference": kernels.Reference(), "cpu": cpu}
	t.Cleanup(func() {
		for _, dev := range all {
			dev.Close()
		}
	})
	return all
}
