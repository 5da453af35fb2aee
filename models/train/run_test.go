package train

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
	"github.com/aviary-audit/aviary/tensor/gradcheck"
)

// TestRunLearns: the blobs are learnt, with and without privacy, and the curve
// tells of it.
func TestRunLearns(t *testing.T) {
	r := newRig(t, 61)
	test, err := Upload(r.dev, &blobs{n: 30, classes: 3, seed: 2, shape: []int{4, 4, 1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range configs() {
		cfg.Epochs, cfg.Steps, cfg.NoiseMultiplier, cfg.Augment = 12, 0, 0, ""
		done := 0
		_, out := r.fit(cfg, Options{Test: test, Progress: func(d, total int) {
			done++
			if d != done || total != cfg.TotalSteps(61) {
				t.Errorf("%s: progress %d of %d after %d", name, d, total, done)
			}
		}})
		first, last := out.Curve[0], out.Curve[len(out.Curve)-1]
		if len(out.Curve) != 12 || last.Epoch != 12 || last.Step != out.Steps || out.Steps != done {
			t.Errorf("%s: curve of %d points, last %+v, %d steps", name, len(out.Curve), last, out.Steps)
		}
		// The blobs are well apart: chance is 1/3.
		if !(out.TestAccuracy >= 0.9) || !(last.TrainLoss < first.TrainLoss/2) {
			t.Errorf("%s: accuracy %.2f, loss from %.3f to %.3f", name, out.TestAccuracy, first.TrainLoss, last.TrainLoss)
		}
	}
}

// TestSameBits: a run depends on its seed alone, neither on the size of its
// microbatches nor on whether the device runs behind.
func TestSameBits(t *testing.T) {
	for name, cfg := range configs() {
		r := newRig(t, 29)
		want, out := r.fit(cfg, Options{})
		for _, size := range []int{1, 3, 7, 1000} {
			cfg := cfg
			cfg.Microbatch = size
			got, small := r.fit(cfg, Options{})
			if !sameBits(got, want) || !sameCurve(small.Curve, out.Curve) {
				t.Errorf("%s: microbatches of %d change the result", name, size)
			}
		}
		other := cfg
		other.Seed++
		if got, _ := r.fit(other, Options{}); sameBits(got, want) {
			t.Errorf("%s: another seed, the same result", name)
		}
		queued := newRigOn(t, kernels.ReferenceAsync(), 29)
		if got, _ := queued.fit(cfg, Options{}); !sameBits(got, want) {
			t.Errorf("%s: a device that runs behind changes the result", name)
		}
	}
}

// TestAgainstPlainLoop compares Run with the algorithm written out on the host:
// one pass for each example, and every update in a loop of its own.
func TestAgainstPlainLoop(t *testing.T) {
	const n = 29
	r := newRig(t, n)
	for name, cfg := range configs() {
		if cfg.Augment != "" {
			continue // TestAugment checks what images a step sees
		}
		got, out := r.fit(cfg, Options{})
		want := r.plainLoop(cfg, out.Steps, 1)
		if err := gradcheck.Compare(name, got, want, 1e-12); err != nil {
			t.Error(err)
		}
		// Planted: a learning rate that is off by one part in 10⁶.
		if gradcheck.Compare(name, got, r.plainLoop(cfg, out.Steps, 1+1e-6), 1e-12) == nil {
			t.Errorf("%s: a wrong learning rate was not noticed", name)
		}
	}
}

func (r *rig) plainLoop(cfg Config, steps int, off float64) []float64 {
	r.t.Helper()
	n := r.data.Len()
	m := r.model()
	defer m.Free()
	if err := m.Init(cfg.Seed, cfg.scheme()); err != nil {
		r.t.Fatal(err)
	}
	theta := r.theta(m)
	momentum, ema := make([]float64, len(theta)), append([]float64(nil), theta...)
	z, err := tensor.Alloc(r.dev, len(theta))
	if err != nil {
		r.t.Fatal(err)
	}
	schedule, _ := ParseSchedule(cfg.Schedule)
	samples := newSampler(cfg, n)
	for step := range steps {
		batch := samples.batch(step)
		sum, noise := make([]float64, len(theta)), make([]float64, len(theta))
		for _, i := range batch {
			g := r.gradientOf(m, i)
			factor := 1.0
			if cfg.Clip > 0 {
				factor = min(1, cfg.Clip/math.Sqrt(gradcheck.Dot(g, g)))
			}
			for j := range sum {
				sum[j] += factor * g[j]
			}
		}
		divisor := float64(len(batch))
		if cfg.Clip > 0 {
			divisor = float64(cfg.Batch)
			r.dev.Normal(z.Mem(), rng.Seed(cfg.Seed, rng.Noise), uint64(step))
			if noise, err = z.Floats(r.dev); err != nil {
				r.t.Fatal(err)
			}
		}
		lr := cfg.LR * schedule(step, steps) * off
		for j := range theta {
			g := (sum[j]+cfg.NoiseMultiplier*cfg.Clip*noise[j])/divisor + cfg.WeightDecay*theta[j]
			momentum[j] = cfg.Momentum*momentum[j] + g
			theta[j] -= lr * momentum[j]
			ema[j] = cfg.EMA*ema[j] + (1-cfg.EMA)*theta[j]
		}
		r.dev.UploadF64(m.Theta.Mem(), theta)
		m.Moved()
	}
	if cfg.EMA > 0 {
		return ema
	}
	return theta
}

// gradientOf is the gradient of example i alone.
func (r *rig) gradientOf(m *models.Model, i int) []float64 {
	r.t.Helper()
	p := models.NewPass(r.dev)
	defer p.Free()
	grad, err := tensor.Alloc(r.dev, m.Len())
	if err != nil {
		r.t.Fatal(err)
	}
	defer grad.Free(r.dev)
	label, err := tensor.FromInts(r.dev, r.data.Y[i:i+1], 1)
	if err != nil {
		r.t.Fatal(err)
	}
	defer label.Free(r.dev)
	p.Grad = grad
	_, back := p.Loss(m, tensor.Const(r.data.X.Slice(i, i+1)), label, models.Value{})
	back(false)
	g, err := grad.Floats(r.dev)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

// TestEmptyBatches: steps that no coin chose move by noise alone.
func TestEmptyBatches(t *testing.T) {
	r := newRig(t, 20)
	cfg := Config{Steps: 30, Batch: 1, LR: 0.1, Clip: 0.5, NoiseMultiplier: 1, Seed: 3}
	empty := 0
	s := newSampler(cfg, 20)
	for step := range cfg.Steps {
		if len(s.batch(step)) == 0 {
			empty++
		}
	}
	if empty == 0 || empty == cfg.Steps {
		t.Fatalf("%d of %d batches are empty; the test needs both kinds", empty, cfg.Steps)
	}
	got, out := r.fit(cfg, Options{})
	if err := gradcheck.Compare("with empty batches", got, r.plainLoop(cfg, out.Steps, 1), 1e-12); err != nil {
		t.Error(err)
	}
	// A run all of whose batches are empty has no losses to average.
	for seed := uint64(0); ; seed++ {
		cfg.Seed, cfg.Steps = seed, 1
		if len(newSampler(cfg, 20).batch(0)) == 0 {
			break
		}
	}
	if _, out := r.fit(cfg, Options{}); out.TrainLoss != 0 {
		t.Errorf("loss %v of nobody", out.TrainLoss)
	}
}

// waits counts how often the host waits for the device.
type waits struct {
	kernels.Device
	n int
}

func (w *waits) Sync() error { w.n++; return w.Device.Sync() }
func (w *waits) DownloadF64(dst []float64, src kernels.Mem) error {
	w.n++
	return w.Device.DownloadF64(dst, src)
}
func (w *waits) DownloadF32(dst []float32, src kernels.Mem) error {
	w.n++
	return w.Device.DownloadF32(dst, src)
}

// TestStepsDoNotWait: the host waits twice per epoch (losses and failures),
// whatever the number of steps, and steps allocate nothing on the device.
func TestStepsDoNotWait(t *testing.T) {
	for name, cfg := range configs() {
		dev := &waits{Device: kernels.Reference()}
		r := newRigOn(t, dev, 60)
		cfg.Epochs, cfg.Steps, cfg.Batch = 3, 0, 4
		var allocs []int64
		m := r.model()
		before := dev.n
		_, err := Run(context.Background(), m, r.data, cfg, Options{Progress: func(int, int) {
			allocs = append(allocs, dev.Stats().Allocs)
		}})
		if err != nil {
			t.Fatal(err)
		}
		if n := dev.n - before; n > 2*cfg.Epochs+1 {
			t.Errorf("%s: %d waits in %d epochs of 15 steps", name, n, cfg.Epochs)
		}
		if n := allocs[len(allocs)-1] - allocs[4]; !cfg.Private() && n != 0 {
			t.Errorf("%s: %d allocations after the fifth step", name, n)
		}
		live := dev.Stats().LiveBytes
		if want := int64(8 * (m.Len() + 60*16)); live != want { // parameters and data
			t.Errorf("%s: %d bytes are still allocated, want %d", name, live, want)
		}
	}
}

func TestDivergenceIsAnError(t *testing.T) {
	r := newRig(t, 29)
	cfg := Config{Epochs: 40, Batch: 8, LR: 1e200, Seed: 1}
	state := filepath.Join(t.TempDir(), "state.npz")
	for name, o := range map[string]Options{
		"at the end of an epoch": {}, "when its state is saved": {State: state, StateEvery: time.Nanosecond},
	} {
		_, err := Run(context.Background(), r.model(), r.data, cfg, o)
		if err == nil || !strings.Contains(err.Error(), "diverged") || !strings.Contains(err.Error(), "1e+200") {
			t.Errorf("a run that diverged, %s: %v", name, err)
		}
	}
}

// TestAugment: a step sees the images of its batch, moved as its stream says.
func TestAugment(t *testing.T) {
	r := newRig(t, 10)
	cfg := Config{Epochs: 1, Batch: 4, Microbatch: 3, Augment: "shift:1+flip", LR: 1, Seed: 5}
	b, err := newBatches(r.dev, r.data, cfg)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.data.X.Floats(r.dev)
	if err != nil {
		t.Fatal(err)
	}
	draw := rng.New(cfg.Seed, rng.Augment, 1)
	b.start(1)
	order := append([]int(nil), b.todo...)
	seen, moved := 0, 0
	for b.more() {
		x, labels := b.next()
		numbers, err := x.Floats(r.dev)
		if err != nil {
			t.Fatal(err)
		}
		y := make([]int32, labels.Len())
		if err := r.dev.DownloadInts(y, labels.Mem()); err != nil {
			t.Fatal(err)
		}
		for i := range y {
			example := order[seen]
			seen++
			var move [3]int32
			Augment{Shift: 1, Flip: true}.Draw(draw, move[:])
			if y[i] != r.data.Y[example] {
				t.Errorf("example %d has label %d", example, y[i])
			}
			if move != [3]int32{} {
				moved++
			}
			for h := range 4 {
				for w := range 4 {
					from := w
					if move[2] == 1 {
						from = 3 - w
					}
					hh, ww, want := h+int(move[0]), from+int(move[1]), 0.0
					if hh >= 0 && hh < 4 && ww >= 0 && ww < 4 {
						want = all[example*16+hh*4+ww]
					}
					if got := numbers[i*16+h*4+w]; got != want {
						t.Fatalf("example %d, moved by %v: pixel %d,%d is %v, want %v", example, move, h, w, got, want)
					}
				}
			}
		}
	}
	if seen != 4 || moved == 0 {
		t.Errorf("%d examples seen, %d moved", seen, moved)
	}
}

func TestLosses64AndAccuracy(t *testing.T) {
	const n = 1100 // more than one block
	r := newRig(t, n)
	m := r.model()
	if err := m.Init(1, models.He); err != nil {
		t.Fatal(err)
	}
	losses, err := Losses64(context.Background(), m, r.data)
	if err != nil {
		t.Fatal(err)
	}
	accuracy, err := Accuracy(context.Background(), m, r.data)
	if err != nil {
		t.Fatal(err)
	}
	p := models.NewPass(r.dev)
	z, _ := tensor.Parts(p.Logits(m, tensor.Const(r.data.X)))
	logits, err := z.Floats(r.dev)
	if err != nil {
		t.Fatal(err)
	}
	right, want := 0, make([]float64, n)
	for i := range n {
		row, sum, best := logits[3*i:3*i+3], 0.0, 0
		for j, v := range row {
			sum += math.Exp(v - row[r.data.Y[i]])
			if v > row[best] {
				best = j
			}
		}
		want[i] = math.Log(sum)
		if best == int(r.data.Y[i]) {
			right++
		}
	}
	if err := gradcheck.Compare("losses", losses, want, 1e-13); err != nil {
		t.Error(err)
	}
	if accuracy != float64(right)/n {
		t.Errorf("accuracy %v, want %v", accuracy, float64(right)/n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Losses64(ctx, m, r.data); err == nil {
		t.Error("an ended context did not stop the evaluation")
	}
}

// TestReserve: room that was reserved takes every data set that fits.
func TestReserve(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	d, err := Reserve(dev, 60, newBlobs(1).Shape())
	if err != nil {
		t.Fatal(err)
	}
	allocs := dev.Stats().Allocs
	for _, n := range []int{40, 60, 50} {
		if err := d.Load(newBlobs(n)); err != nil || d.Len() != n {
			t.Errorf("%d examples: length %d, %v", n, d.Len(), err)
		}
	}
	if got := dev.Stats().Allocs; got != allocs {
		t.Errorf("%d allocations for data sets that fit", got-allocs)
	}
	d.Free()
	if live := dev.Stats().LiveBytes; live != 0 {
		t.Errorf("%d bytes are left", live)
	}
}

func TestUpload(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	spoil := func(i int, f func(x []float32, label int) int) *blobs {
		b := newBlobs(50)
		b.spoil = func(j int, x []float32, label int) int {
			if j == i {
				return f(x, label)
			}
			return label
		}
		return b
	}
	for want, src := range map[string]*blobs{
		"example 17 has label 3, expected 0 to 2": spoil(17, func([]float32, int) int { return 3 }),
		"example 0 has label -1":                  spoil(0, func([]float32, int) int { return -1 }),
		"number 5 of example 49 is NaN":           spoil(49, func(x []float32, y int) int { x[5] = float32(math.NaN()); return y }),
		"number 0 of example 3 is +Inf":           spoil(3, func(x []float32, y int) int { x[0] = float32(math.Inf(1)); return y }),
		"has 0 examples":                          newBlobs(0),
		"shape []":                                {n: 3, classes: 3},
		"shape [4 0]":                             {n: 3, classes: 3, shape: []int{4, 0}},
		"has 1 classes":                           {n: 3, classes: 1, shape: []int{4}},
	} {
		if _, err := Upload(dev, src); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if live := dev.Stats().LiveBytes; live != 0 {
		t.Errorf("%d bytes are left after failures", live)
	}

	d, err := Upload(dev, newBlobs(50))
	if err != nil {
		t.Fatal(err)
	}
	allocs := dev.Stats().Allocs
	if err := d.Load(newBlobs(40)); err != nil {
		t.Fatal(err)
	}
	if dev.Stats().Allocs != allocs {
		t.Error("a smaller data set was not loaded into the same memory")
	}
	if d.Len() != 40 || fmt.Sprint(d.X.Shape(), d.Shape(), d.Classes) != "[40 4 4 1] [4 4 1] 3" {
		t.Errorf("loaded %d, %v", d.Len(), d.X.Shape())
	}
	numbers, _ := d.X.Floats(dev)
	x := make([]float32, 16)
	for i := range 40 {
		label := newBlobs(40).Example(i, x)
		for j := range x {
			if numbers[16*i+j] != float64(x[j]) || d.Y[i] != int32(label) {
				t.Fatalf("example %d differs", i)
			}
		}
	}
	if err := d.Load(newBlobs(200)); err != nil || d.Len() != 200 {
		t.Errorf("a larger data set: %v", err)
	}
	d.Free()
	if live := dev.Stats().LiveBytes; live != 0 {
		t.Errorf("%d bytes are left after Free", live)
	}
}
