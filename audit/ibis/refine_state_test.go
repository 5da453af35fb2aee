package ibis

import (
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/train"
)

// variants are one refinement of each kind.
func variants() map[string]Refinement {
	all := map[string]Refinement{}
	add := func(name string, change func(c *Refinement)) {
		cfg := loopConfig()
		change(&cfg)
		all[name] = cfg
	}
	add("plain", func(*Refinement) {})
	add("canary batch", func(c *Refinement) { c.CanaryBatch, c.Every = 2, 2 })
	add("augmented", func(c *Refinement) { c.Augment = "shift:1+flip" })
	add("clipped", func(c *Refinement) { c.ClipNorm = 0.5 })
	add("augmented and clipped", func(c *Refinement) { c.Augment, c.ClipNorm, c.CanaryBatch = "flip", 0.5, 3 })
	add("no implicit term", func(c *Refinement) { c.WithoutImplicit = true })
	add("regulariser only", func(c *Refinement) { c.WithoutDetect = true })
	return all
}

// outcome is all that a refinement leaves.
type outcome struct {
	pixels, theta []float64
	trace         *Trace
}

func (a outcome) same(b outcome) bool {
	bits := func(x, y []float64) bool {
		return len(x) > 0 && slices.EqualFunc(x, y, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
	}
	return bits(a.pixels, b.pixels) && bits(a.theta, b.theta) && bits(flatten(a.trace.Points), flatten(b.trace.Points))
}

// finished refines from the start, or from the state.
func finished(t *testing.T, dev kernels.Device, cfg Refinement, o RefineOptions) outcome {
	t.Helper()
	l := newLoop(t, dev)
	defer l.free()
	trace := l.refine(cfg, o)
	return outcome{mustFloats(t, dev, l.canaries.X), mustFloats(t, dev, l.theta.Theta), trace}
}

// stopAt refines until a step is done, and stops there.
func stopAt(t *testing.T, dev kernels.Device, step int, cfg Refinement, o RefineOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	o.Progress = func(done, _ int) {
		if done == step {
			cancel()
		}
	}
	l := newLoop(t, dev)
	defer l.free()
	_, err := Refine(ctx, l.star, l.theta, l.rest, l.canaries, cfg, 9, o)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stopped at step") {
		t.Fatalf("a stopped refinement: %v", err)
	}
}

// TestRefineResume: stopped at any step and resumed, a refinement gives the same
// bytes.
func TestRefineResume(t *testing.T) {
	for where, dev := range devices(t, 2) {
		for name, cfg := range variants() {
			want := finished(t, dev, cfg, RefineOptions{})
			state := filepath.Join(t.TempDir(), "state.npz")
			for step := 1; step < cfg.Steps; step++ {
				stopAt(t, dev, step, cfg, RefineOptions{State: state})
				got := finished(t, dev, cfg, RefineOptions{State: state})
				if got.trace.Resumed != step || !got.same(want) {
					t.Errorf("%s: %s: stopped at %d, went on at %d: not the same bytes", where, name, step, got.trace.Resumed)
				}
				if err := os.Remove(state); err != nil {
					t.Fatal(err)
				}
			}
			for _, step := range []int{2, 4, 5} { // three times in one run
				stopAt(t, dev, step, cfg, RefineOptions{State: state})
			}
			if got := finished(t, dev, cfg, RefineOptions{State: state}); !got.same(want) {
				t.Errorf("%s: %s: stopped three times: not the same bytes", where, name)
			}
		}
	}
}

// TestRefineKilled: a refinement that is killed, not stopped, goes on from its
// last periodic state.
func TestRefineKilled(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	cfg := variants()["augmented and clipped"]
	want := finished(t, dev, cfg, RefineOptions{})
	dir := t.TempDir()
	state, left := filepath.Join(dir, "state.npz"), filepath.Join(dir, "left.npz")
	finished(t, dev, cfg, RefineOptions{State: state, StateEvery: time.Nanosecond, Progress: func(done, _ int) {
		if done != 6 { // the file holds step 5
			return
		}
		data, err := os.ReadFile(state)
		if err == nil {
			err = os.WriteFile(left, data, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}})
	if got := finished(t, dev, cfg, RefineOptions{State: left}); got.trace.Resumed != 5 || !got.same(want) {
		t.Errorf("went on at step %d: not the same bytes", got.trace.Resumed)
	}
}

// TestRefineResumeNoticesLostState plants states that lost one of their arrays:
// were they not all saved and restored, TestRefineResume would fail.
func TestRefineResumeNoticesLostState(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	cfg := variants()["plain"]
	want := finished(t, dev, cfg, RefineOptions{})
	for _, lost := range []string{"theta", "canaries", "v", "sum"} {
		state := filepath.Join(t.TempDir(), "state.npz")
		stopAt(t, dev, 4, cfg, RefineOptions{State: state})
		arrays, err := npz.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		clear(arrays[lost].Data.([]float64))
		var named []npz.Named
		for name, a := range arrays {
			named = append(named, npz.Named{Name: name, Array: a})
		}
		err = atomicfile.Write(state, 0o600, func(w io.Writer) error { return npz.Write(w, named...) })
		if err != nil {
			t.Fatal(err)
		}
		if got := finished(t, dev, cfg, RefineOptions{State: state}); got.same(want) {
			t.Errorf("a state without its %s gave the right result", lost)
		}
	}
}

// TestRefineThreads: one thread and two give the same bytes, on data of the size
// for which the work is shared.
func TestRefineThreads(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	rest, canaries := randomNumbers(rnd, 300, 10, true, 28, 28, 1), randomNumbers(rnd, 130, 10, true, 28, 28, 1)
	one, two := devices(t, 1)["cpu"], devices(t, 2)["cpu"]
	for name, cfg := range variants() {
		cfg.Batch, cfg.Rho, cfg.Eta, cfg.Steps = 100, 1e-4, 1e-3, 5
		if cfg.CanaryBatch > 0 {
			cfg.CanaryBatch = 90
		}
		run := func(dev kernels.Device) outcome {
			l := loopOf(t, dev, rest, canaries, 784, 130, 10)
			defer l.free()
			trace := l.refine(cfg, RefineOptions{})
			return outcome{mustFloats(t, dev, l.canaries.X), mustFloats(t, dev, l.theta.Theta), trace}
		}
		if a, b := run(one), run(two); !a.same(b) {
			t.Errorf("%s: two threads give other bytes than one", name)
		}
	}
}

// TestRefineStateOfAnother: a state that does not fit is refused, and left alone.
func TestRefineStateOfAnother(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	cfg := variants()["plain"]
	state := filepath.Join(t.TempDir(), "state.npz")
	stopAt(t, dev, 4, cfg, RefineOptions{State: state})
	saved, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(l *loop, cfg *Refinement, seed *uint64){
		"settings": func(_ *loop, cfg *Refinement, _ *uint64) { cfg.Rho *= 2 },
		"seed":     func(_ *loop, _ *Refinement, seed *uint64) { *seed++ },
		"labels":   func(l *loop, _ *Refinement, _ *uint64) { l.rest.Y[0] = (l.rest.Y[0] + 1) % 3 },
		"pixels":   func(l *loop, _ *Refinement, _ *uint64) { dev.Fill(l.canaries.X.Mem().Slice(0, 1), 0.5) },
		"θ*":       func(l *loop, _ *Refinement, _ *uint64) { dev.Fill(l.star.Theta.Mem().Slice(0, 1), 0.5) },
		"θ₀":       func(l *loop, _ *Refinement, _ *uint64) { dev.Fill(l.theta.Theta.Mem().Slice(0, 1), 0.5) },
	} {
		l, cfg, seed := newLoop(t, dev), cfg, uint64(9)
		change(l, &cfg, &seed)
		_, err := Refine(context.Background(), l.star, l.theta, l.rest, l.canaries, cfg, seed, RefineOptions{State: state})
		if err == nil || !strings.Contains(err.Error(), state) || !strings.Contains(err.Error(), "another refinement") {
			t.Errorf("other %s: %v", name, err)
		}
		l.free()
	}
	damaged := append(slices.Clone(saved[:len(saved)/2]), 'x')
	if err := os.WriteFile(state, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLoop(t, dev)
	defer l.free()
	_, err = Refine(context.Background(), l.star, l.theta, l.rest, l.canaries, cfg, 9, RefineOptions{State: state})
	if err == nil || !strings.Contains(err.Error(), "cannot resume from "+state) {
		t.Errorf("half a state: %v", err)
	}
	if now, err := os.ReadFile(state); err != nil || !slices.Equal(now, damaged) {
		t.Errorf("the refused state was changed (%v)", err)
	}
}

// TestRefineAllocations: once warm, steps take no memory on the device.
func TestRefineAllocations(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	for name, cfg := range variants() {
		l := newLoop(t, dev)
		r, err := newRefiner(l.star, l.theta, l.rest, l.canaries, cfg, 9)
		if err != nil {
			t.Fatal(err)
		}
		warm := int64(0)
		for range 3 * cfg.Every {
			if err := r.doStep(); err != nil {
				t.Fatal(err)
			}
			if r.step == cfg.Every {
				warm = dev.Stats().Allocs
			}
		}
		if n := dev.Stats().Allocs - warm; n != 0 {
			t.Errorf("%s: %d allocations after the first round", name, n)
		}
		r.free()
		l.free()
	}
	if live := dev.Stats().LiveBytes; live != 0 {
		t.Errorf("%d bytes on the device were not given back", live)
	}
}

// TestRefineDiverges: numbers that blow up end the refinement at a step that the
// error names, with no pixel left that is not a number.
func TestRefineDiverges(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	for name, change := range map[string]func(c *Refinement){
		"eta":              func(c *Refinement) { c.Eta = 1e200 },
		"rho":              func(c *Refinement) { c.Rho, c.ClipPixels = 1e308, false },
		"eta, last step":   func(c *Refinement) { c.Eta, c.Steps = 1e200, 2 },
		"eta, few outers":  func(c *Refinement) { c.Eta, c.Steps, c.Every = 1e200, 5, 100 },
		"regulariser only": func(c *Refinement) { c.Lambda, c.WithoutDetect = 1e308, true },
	} {
		cfg := loopConfig()
		change(&cfg)
		l := newLoop(t, dev)
		_, err := Refine(context.Background(), l.star, l.theta, l.rest, l.canaries, cfg, 9, RefineOptions{})
		if !errors.Is(err, train.ErrDiverged) || !strings.Contains(err.Error(), "step ") {
			t.Errorf("%s: %v", name, err)
		}
		l.free()
	}
}

// TestRefineRefuses: bad settings and pairs that do not fit are errors that name
// them.
func TestRefineRefuses(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	for want, change := range map[string]func(l *loop, c *Refinement){
		"lambda is -1":                 func(_ *loop, c *Refinement) { c.Lambda = -1 },
		"lambda is NaN":                func(_ *loop, c *Refinement) { c.Lambda = math.NaN() },
		"lambda is 0":                  func(_ *loop, c *Refinement) { c.Lambda, c.WithoutDetect = 0, true },
		"rho is 0":                     func(_ *loop, c *Refinement) { c.Rho = 0 },
		"rho is +Inf":                  func(_ *loop, c *Refinement) { c.Rho = math.Inf(1) },
		"eta is -0.1":                  func(_ *loop, c *Refinement) { c.Eta = -0.1 },
		"steps is 0":                   func(_ *loop, c *Refinement) { c.Steps = 0 },
		"every is 0":                   func(_ *loop, c *Refinement) { c.Every = 0 },
		"batch is 17":                  func(_ *loop, c *Refinement) { c.Batch = 17 },
		"canary_batch is 6":            func(_ *loop, c *Refinement) { c.CanaryBatch = 6 },
		"canary_batch is 1":            func(_ *loop, c *Refinement) { c.CanaryBatch = 1 },
		"clip_norm is -2":              func(_ *loop, c *Refinement) { c.ClipNorm = -2 },
		"augment":                      func(_ *loop, c *Refinement) { c.Augment = "turn" },
		"same model":                   func(l *loop, _ *Refinement) { l.star = l.theta },
		"different architectures":      func(l *loop, _ *Refinement) { l.star = newLoop(t, dev, 6, 4, 3).star },
		"different devices":            func(l *loop, _ *Refinement) { l.star = newLoop(t, kernels.Reference()).star },
		"canaries have shape [3 2 1]":  func(l *loop, _ *Refinement) { l.canaries.X = l.canaries.X.View(5, 3, 2, 1) },
		"canaries have 4 classes":      func(l *loop, _ *Refinement) { l.canaries.Classes = 4 },
		"expected height, width and c": func(l *loop, c *Refinement) { flat(l); c.Augment = "flip" },
	} {
		l, cfg := newLoop(t, dev), loopConfig()
		change(l, &cfg)
		before := mustFloats(t, dev, l.canaries.X)
		_, err := Refine(context.Background(), l.star, l.theta, l.rest, l.canaries, cfg, 9, RefineOptions{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
		if !slices.Equal(before, mustFloats(t, dev, l.canaries.X)) {
			t.Errorf("%q: the canaries moved all the same", want)
		}
	}
}

// flat makes a loop's images vectors.
func flat(l *loop) {
	l.canaries.X, l.rest.X = l.canaries.X.View(5, 6), l.rest.X.View(11, 6)
}
