package onerun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// blobs is n points in the plane in 3 classes, one round cloud each.
type blobs int

func (d blobs) Len() int     { return int(d) }
func (d blobs) Shape() []int { return []int{2} }
func (d blobs) Classes() int { return 3 }

func (d blobs) Example(i int, x []float32) int {
	r := rng.New(1, rng.SelfTest, uint64(i))
	y := i % 3
	x[0] = float32(y) + .3*float32(r.NormFloat64())
	x[1] = float32(y*y) + .3*float32(r.NormFloat64())
	return y
}

// device opens the CPU with one thread.
func device(t *testing.T) kernels.Device {
	t.Helper()
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// mlp is a trainer of a small network that fits its training data well.
func mlp(t *testing.T, dev kernels.Device) *ModelTrainer {
	t.Helper()
	arch, err := models.ParseArch("mlp:2-64-3")
	if err != nil {
		t.Fatal(err)
	}
	cfg := train.Default()
	cfg.Epochs, cfg.Batch, cfg.LR = 60, 20, .1
	trainer := NewModelTrainer(dev, arch, cfg)
	t.Cleanup(trainer.Close)
	return trainer
}

func blobGame(trainer audit.Trainer, dir string) Game {
	return Game{
		Data: blobs(300), Test: blobs(90), Trainer: trainer, Selectors: []audit.Selector{Mislabeled()},
		NumCanaries: 60, Sets: 2, Audits: 2, Seed: 4, Dir: dir, KeepModels: true,
	}
}

// TestModelTrainerPlays audits a real network: mislabeled canaries that it was
// trained on are fitted better, those it was not are not; the models are kept.
func TestModelTrainerPlays(t *testing.T) {
	dev := device(t)
	trainer := mlp(t, dev)
	dir := t.TempDir()
	m := play(t, blobGame(trainer, dir)).Methods[0]
	// Members must be told apart more often than not in every audit, and on
	// average by far: with no signal the mean of 4 audits of 60 canaries is
	// 1/2 ± .037, so that .65 is four standard deviations away.
	if !(m.AUC.Mean > .65) || !(m.AUC.Min > .5) || !(m.LossIn.Mean < m.LossOut.Mean) {
		t.Errorf("AUC %+v, losses %v in, %v out", m.AUC, m.LossIn.Mean, m.LossOut.Mean)
	}
	if !(m.TestAccuracy.Min > .7) { // .8 of the data are labelled rightly, and the clouds hardly touch
		t.Errorf("test accuracy %+v", m.TestAccuracy)
	}
	if c := m.Runs[0].Curve; len(c) != 60 || c[59].TestAccuracy == nil || *c[59].TestAccuracy != m.TestAccuracy.Values[0] {
		t.Errorf("curve of %d points", len(c))
	}
	// A model that was kept gives the losses that were scored.
	net, err := models.New(dev, trainer.arch.Net())
	if err != nil {
		t.Fatal(err)
	}
	defer net.Free()
	for _, aud := range []string{"0", "1"} {
		name := "mislabeled-set0-audit" + aud
		if err := train.LoadModel(filepath.Join(dir, "models", name+".npz"), net); err != nil {
			t.Fatal(err)
		}
		data, err := train.Upload(dev, selected(t, Mislabeled(), blobs(300), 60, 0, 4))
		if err != nil {
			t.Fatal(err)
		}
		losses, err := train.Losses64(context.Background(), net, data)
		data.Free()
		if err != nil {
			t.Fatal(err)
		}
		if got := scoresIn(t, filepath.Join(dir, "scores", name+".csv")); !slices.EqualFunc(got, losses, func(s, l float64) bool { return s == -l }) {
			t.Errorf("%s: the model that was kept gives other losses", name)
		}
	}
}

// TestModelTrainerRepeats: a job gives the same bits whatever ran before it,
// and memory does not grow from one job to the next.
func TestModelTrainerRepeats(t *testing.T) {
	dev := device(t)
	trainer := mlp(t, dev)
	trainer.cfg.Epochs = 3
	run := func(seed uint64, n int) []float64 {
		t.Helper()
		c := selected(t, Random(), blobs(n), 30, 0, 1)
		r, err := trainer.Train(context.Background(), audit.Job{Seed: seed, Train: newTrainingSet(blobs(n), c, coins(seed, 0, 0, 30)), Canaries: c, Test: blobs(50)})
		if err != nil {
			t.Fatal(err)
		}
		return r.Losses
	}
	first := run(1, 200)
	live := dev.Stats().LiveBytes
	if other := run(2, 150); slices.Equal(first, other) {
		t.Error("another job gave the same losses")
	}
	if again := run(1, 200); !slices.Equal(first, again) {
		t.Error("the same job gave other losses")
	}
	longer := uint64(3) // with more canaries in, so that the training set is longer
	for ones(coins(longer, 0, 0, 30)) <= ones(coins(1, 0, 0, 30)) {
		longer++
	}
	run(longer, 200)
	if got := dev.Stats().LiveBytes; got != live {
		t.Errorf("%d bytes live after four jobs, %d after one", got, live)
	}
	trainer.Close()
	if got := dev.Stats().LiveBytes; got != 0 {
		t.Errorf("%d bytes live after Close", got)
	}
}

// TestModelTrainerResumes stops in the middle of a training run; the game that
// goes on ends with the same files.
func TestModelTrainerResumes(t *testing.T) {
	trainer := mlp(t, device(t))
	trainer.cfg.Epochs = 4
	wantDir := t.TempDir()
	want := play(t, blobGame(trainer, wantDir))

	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	g := blobGame(trainer, dir)
	g.Progress = func(p Progress) {
		if p.Done == 1 && p.Step == 37 { // within the third epoch
			cancel()
		}
	}
	if _, err := g.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	state := filepath.Join(dir, "state", "mislabeled-set0-audit1.state")
	if _, err := os.Stat(state); err != nil {
		t.Error(err)
	}
	g = blobGame(trainer, dir)
	g.Resume = true
	first := -1
	g.Progress = func(p Progress) {
		if first < 0 && p.Step > 0 {
			first = p.Step
		}
	}
	sameRun(t, "stopped in training", dir, play(t, g), wantDir, want)
	if first != 38 {
		t.Errorf("the training went on with step %d, want 38", first)
	}
}

func TestModelTrainerRefuses(t *testing.T) {
	dev := device(t)
	for name, c := range map[string]struct {
		arch   string
		change func(*train.Config)
		parts  []string
	}{
		"inputs":  {"mlp:3-8-3", func(*train.Config) {}, []string{"3 inputs", "[2]"}},
		"classes": {"mlp:2-8-4", func(*train.Config) {}, []string{"4 outputs", "3 classes"}},
		"batch":   {"mlp:2-8-3", func(c *train.Config) { c.Batch = 301 }, []string{"batch is 301, expected 1 to 2"}},
		// All examples are a batch, but none of the training sets has all.
		"all": {"mlp:2-8-3", func(c *train.Config) { c.Batch = 300 }, []string{"batch is 300, expected 1 to 2"}},
		"lr":  {"mlp:2-8-3", func(c *train.Config) { c.LR = -1 }, []string{"lr", "-1"}},
	} {
		arch, err := models.ParseArch(c.arch)
		if err != nil {
			t.Fatal(err)
		}
		cfg := train.Default()
		c.change(&cfg)
		dir := filepath.Join(t.TempDir(), "run")
		_, err = blobGame(NewModelTrainer(dev, arch, cfg), dir).Run(context.Background())
		wantError(t, err, c.parts...)
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: the run directory was made", name)
		}
	}
	trainer := mlp(t, dev)
	trainer.cfg.LR = 1e30
	_, err := blobGame(trainer, "").Run(context.Background())
	wantError(t, err, "mislabeled-set0-audit0", "diverged")
}

func ones(in []bool) (n int) {
	for _, b := range in {
		if b {
			n++
		}
	}
	return n
}
