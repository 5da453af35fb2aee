package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/models"
)

// stopAt runs until a step is done, and stops there.
func (r *rig) stopAt(step int, cfg Config, opts Options) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opts.Progress = func(done, _ int) {
		if done == step {
			cancel()
		}
	}
	m := r.model()
	defer m.Free()
	_, err := Run(ctx, m, r.data, cfg, opts)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "stopped at step") {
		r.t.Fatalf("a stopped run: %v", err)
	}
}

// TestResume: stop, load, continue gives the same bytes, wherever the run was
// stopped and however often.
func TestResume(t *testing.T) {
	r := newRig(t, 29)
	test, err := Upload(r.dev, &blobs{n: 20, classes: 3, seed: 2, shape: []int{4, 4, 1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range configs() {
		state := filepath.Join(t.TempDir(), "state.npz")
		want, whole := r.fit(cfg, Options{Test: test})
		if bare, _ := r.fit(cfg, Options{}); !sameBits(bare, want) {
			t.Errorf("%s: testing after each epoch changes the result", name)
		}
		total := whole.Steps
		for _, stops := range [][]int{{1}, {3}, {4}, {total - 1}, {2, 5, 6}} {
			for _, step := range stops {
				r.stopAt(step, cfg, Options{State: state, Test: test})
			}
			cfg := cfg
			cfg.Microbatch = 2 // changes no bit, and may change between runs
			got, out := r.fit(cfg, Options{State: state, Test: test})
			if out.Resumed != stops[len(stops)-1] {
				t.Errorf("%s: went on at step %d, not at %v", name, out.Resumed, stops)
			}
			if !sameBits(got, want) || !sameCurve(out.Curve, whole.Curve) {
				t.Errorf("%s: stopped at %v: not the same bytes", name, stops)
			}
			if err := os.Remove(state); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestResumeNoticesLostState plants a state that lost one of its vectors: were
// they not all saved and restored, TestResume would fail.
func TestResumeNoticesLostState(t *testing.T) {
	r := newRig(t, 29)
	cfg := configs()["plain"]
	want, _ := r.fit(cfg, Options{})
	for _, lost := range []string{"theta", "momentum", "ema"} {
		state := filepath.Join(t.TempDir(), "state.npz")
		r.stopAt(4, cfg, Options{State: state})
		arrays, err := npz.ReadFile(state)
		if err != nil {
			t.Fatal(err)
		}
		clear(arrays[lost].Data.([]float64))
		var named []npz.Named
		for name, a := range arrays {
			named = append(named, npz.Named{Name: name, Array: a})
		}
		if err := writeArrays(state, named, atomicfile.Options{}); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.fit(cfg, Options{State: state}); sameBits(got, want) {
			t.Errorf("a state without its %s gave the right result", lost)
		}
	}
}

// TestStateEvery: a run that is killed, not stopped, goes on from its last
// periodic state.
func TestStateEvery(t *testing.T) {
	r := newRig(t, 29)
	cfg := configs()["private"]
	want, whole := r.fit(cfg, Options{})
	state := filepath.Join(t.TempDir(), "state.npz")
	copyOf := filepath.Join(t.TempDir(), "copy.npz")
	r.fit(cfg, Options{State: state, StateEvery: time.Nanosecond, Progress: func(done, _ int) {
		if done == 6 { // holds step 5
			data, err := os.ReadFile(state)
			if err == nil {
				err = os.WriteFile(copyOf, data, 0o600)
			}
			if err != nil {
				t.Error(err)
			}
		}
	}})
	got, out := r.fit(cfg, Options{State: copyOf})
	if !sameBits(got, want) || out.Resumed != 5 || !sameCurve(out.Curve, whole.Curve) {
		t.Errorf("went on at step %d: not the same bytes", out.Resumed)
	}
}

// TestStateOfAnotherRun: a state that does not fit is refused, by name, and
// left alone.
func TestStateOfAnotherRun(t *testing.T) {
	r := newRig(t, 29)
	cfg := configs()["plain"]
	state := filepath.Join(t.TempDir(), "state.npz")
	r.stopAt(4, cfg, Options{State: state})
	saved, err := os.ReadFile(state)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, m *models.Model, d *Data, cfg Config) {
		t.Helper()
		_, err := Run(context.Background(), m, d, cfg, Options{State: state})
		if err == nil || !strings.Contains(err.Error(), state) || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := cfg
	other.LR *= 2
	refused("another learning rate", r.model(), r.data, other)
	other = cfg
	other.Seed++
	refused("another seed", r.model(), r.data, other)
	wide, err := models.New(r.dev, models.MLP(16, 7, 3))
	if err != nil {
		t.Fatal(err)
	}
	refused("another model", wide, r.data, cfg)
	relabelled := newBlobs(29)
	relabelled.spoil = func(i int, _ []float32, label int) int { return (label + i/28) % 3 }
	d, err := Upload(r.dev, relabelled)
	if err != nil {
		t.Fatal(err)
	}
	refused("one label changed", r.model(), d, cfg)
	for _, n := range []int{0, 10, len(saved) / 2, len(saved) - 1} {
		if err := os.WriteFile(state, saved[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		refused("a truncated file", r.model(), r.data, cfg)
		if left, _ := os.ReadFile(state); len(left) != n {
			t.Error("a refused state was changed")
		}
	}
	bent := append([]byte(nil), saved...)
	bent[len(bent)/2] ^= 1
	if err := os.WriteFile(state, bent, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a flipped bit", r.model(), r.data, cfg)
}

// TestStateCannotBeWritten: the error names the file, and says what is lost.
func TestStateCannotBeWritten(t *testing.T) {
	r := newRig(t, 29)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	state := filepath.Join(filepath.Dir(file), "missing", "state.npz")
	_, err := Run(ctx, r.model(), r.data, configs()["plain"], Options{State: state, Progress: func(int, int) { cancel() }})
	if err == nil || !strings.Contains(err.Error(), state) || !strings.Contains(err.Error(), "lost") {
		t.Errorf("state in a folder that is not there: %v", err)
	}
	_, err = Run(context.Background(), r.model(), r.data, configs()["plain"], Options{State: filepath.Join(file, "state")})
	if err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("state below a file: %v", err)
	}
}

// TestDiskFull: a state that does not fit on the disk is an error, and the
// state before it stays good.
func TestDiskFull(t *testing.T) {
	r := newRig(t, 29)
	cfg := configs()["plain"]
	want, _ := r.fit(cfg, Options{})
	dir := t.TempDir()
	state := filepath.Join(dir, "state.npz")
	r.stopAt(4, cfg, Options{State: state})
	_, err := Run(context.Background(), r.model(), r.data, cfg,
		Options{State: state, StateEvery: time.Nanosecond, files: atomicfile.FullAfter(1000)})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), state) {
		t.Errorf("a full disk: %v", err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files are left", len(files))
	}
	if got, out := r.fit(cfg, Options{State: state}); !sameBits(got, want) || out.Resumed != 4 {
		t.Error("the state before is not intact")
	}
}

func TestSaveAndLoadModel(t *testing.T) {
	r := newRig(t, 29)
	dir := t.TempDir()
	path := filepath.Join(dir, "model.npz")
	m := r.model()
	if err := m.Init(5, models.He); err != nil {
		t.Fatal(err)
	}
	if err := SaveModel(path, m); err != nil {
		t.Fatal(err)
	}
	n := r.model()
	generation := n.Generation()
	if err := LoadModel(path, n); err != nil {
		t.Fatal(err)
	}
	if !sameBits(r.theta(n), r.theta(m)) || n.Generation() == generation {
		t.Error("the loaded model differs, or did not move")
	}
	again := filepath.Join(dir, "again.npz")
	if err := SaveModel(again, n); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(path)
	b, _ := os.ReadFile(again)
	if string(a) != string(b) || len(a) == 0 {
		t.Error("saving twice gives different bytes")
	}
	for want, net := range map[string]models.Layer{
		`"fc1.w" has shape [16 6], expected [16 7]`: models.MLP(16, 7, 3),
		`no array "fc3.w"`:                          models.MLP(16, 6, 3, 2),
	} {
		other, err := models.New(r.dev, net)
		if err != nil {
			t.Fatal(err)
		}
		if err := LoadModel(path, other); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := LoadModel(filepath.Join(dir, "none.npz"), n); err == nil {
		t.Error("a file that is not there was loaded")
	}
}
