package gorgonia

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/internal/npz"
	G "gorgonia.org/gorgonia"
)

// blobs are n images of 4 x 4 in three classes, each bright in a column of its own.
type blobs struct{ n int }

func (b blobs) Len() int     { return b.n }
func (b blobs) Shape() []int { return []int{4, 4, 1} }
func (b blobs) Classes() int { return 3 }
func (b blobs) Example(i int, x []float32) int {
	r, label := rand.New(rand.NewPCG(7, uint64(i))), i%3
	for j := range x {
		x[j] = 0.5 * r.Float32()
		if j%4 == label {
			x[j] += 0.5
		}
	}
	return label
}

func trainer() Trainer {
	return Trainer{Net: MLP(16, 24, 3), Epochs: 60, Batch: 32, LR: 0.1, Momentum: 0.9, Decay: 1e-5, EMA: 0.9}
}

// job trains on 100 examples, which the batch does not divide.
func job() audit.Job {
	return audit.Job{Seed: 3, Train: blobs{100}, Canaries: blobs{50}, Test: blobs{70}}
}

func TestSameJobSameBits(t *testing.T) {
	dir := t.TempDir()
	var results []audit.Result
	for _, name := range []string{"a.npz", "b.npz"} {
		j := job()
		j.Model = filepath.Join(dir, name)
		last := 0
		j.Progress = func(done, total int) {
			if done != last+1 || total != 60*4 {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
		}
		result, err := trainer().Train(context.Background(), j)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, result)
	}
	a, b := results[0], results[1]
	if !same(a.Losses, b.Losses) || a.TestAccuracy != b.TestAccuracy {
		t.Error("the same job gave other losses or another accuracy")
	}
	if len(a.Curve) != 60 || !(a.Curve[59].TrainLoss < a.Curve[0].TrainLoss/10) || a.Curve[59].Step != 240 {
		t.Errorf("the training curve has %d points, the last of them %+v", len(a.Curve), a.Curve[len(a.Curve)-1])
	}
	if !(a.TestAccuracy > 0.95) { // the classes do not overlap
		t.Errorf("accuracy %v on blobs that are apart", a.TestAccuracy)
	}
	files := make([][]byte, 2)
	for i, name := range []string{"a.npz", "b.npz"} {
		var err error
		if files[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(files[0], files[1]) {
		t.Error("the same job gave another model")
	}
	arrays, err := npz.ReadFile(filepath.Join(dir, "a.npz"))
	if err != nil {
		t.Fatal(err)
	}
	if w := arrays["w1"]; !slices.Equal(w.Shape, []int{16, 24}) {
		t.Errorf("w1 in the model file has shape %v, expected [16 24]", w.Shape)
	}

	other := job()
	other.Seed = 4
	c, err := trainer().Train(context.Background(), other)
	if err != nil {
		t.Fatal(err)
	}
	if same(a.Losses, c.Losses) {
		t.Error("another seed gave the same losses")
	}
}

// TestAuditSeesMembers plays the game on a net that learns by heart: mislabeled
// examples that it has seen must stand out. With one pass over the data the
// same figure must not reach that (the planted fault: a check of the AUC that
// any net passes says nothing).
func TestAuditSeesMembers(t *testing.T) {
	auc := func(epochs int) float64 {
		tr := trainer()
		tr.Net, tr.Epochs = MLP(16, 64, 3), epochs
		rep, err := onerun.Game{
			Data: blobs{150}, Trainer: tr, Selectors: []audit.Selector{onerun.Mislabeled()},
			NumCanaries: 40, Sets: 1, Audits: 2, Seed: 5,
		}.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return rep.Methods[0].AUC.Mean
	}
	const high = 0.9
	if got := auc(300); !(got >= high) {
		t.Errorf("AUC %v of a net that learned its mislabeled examples by heart, expected %v or more", got, high)
	}
	if got := auc(1); got >= high {
		t.Errorf("AUC %v after one epoch: the data give membership away, not the net", got)
	}
}

// far is examples with a label that is out of range, or pixels that are not numbers.
type far struct {
	blobs
	label int
	pixel float32
}

func (f far) Example(i int, x []float32) int {
	x[0] = f.pixel
	return f.label
}

func TestBadJobs(t *testing.T) {
	with := func(change func(*Trainer, *audit.Job)) (Trainer, audit.Job) {
		tr, j := trainer(), job()
		change(&tr, &j)
		return tr, j
	}
	for name, c := range map[string]struct {
		change func(*Trainer, *audit.Job)
		want   string
	}{
		"no net":           {func(tr *Trainer, _ *audit.Job) { tr.Net = nil }, "no net"},
		"no epochs":        {func(tr *Trainer, _ *audit.Job) { tr.Epochs = 0 }, "0 epochs"},
		"large batch":      {func(tr *Trainer, _ *audit.Job) { tr.Batch = 101 }, "batch 101 of 100"},
		"NaN rate":         {func(tr *Trainer, _ *audit.Job) { tr.LR = math.NaN() }, "learning rate NaN"},
		"momentum":         {func(tr *Trainer, _ *audit.Job) { tr.Momentum = 1 }, "momentum 1"},
		"decay":            {func(tr *Trainer, _ *audit.Job) { tr.Decay = -1 }, "weight decay -1"},
		"EMA":              {func(tr *Trainer, _ *audit.Job) { tr.EMA = 1 }, "EMA 1"},
		"one size":         {func(tr *Trainer, _ *audit.Job) { tr.Net = MLP(16) }, "sizes [16]"},
		"logits":           {func(tr *Trainer, _ *audit.Job) { tr.Net = MLP(16, 4) }, "logits have shape (32, 4)"},
		"inputs":           {func(tr *Trainer, _ *audit.Job) { tr.Net = MLP(15, 3) }, ""},
		"a panic":          {func(tr *Trainer, _ *audit.Job) { tr.Net = panics }, "planted"},
		"a wrong gradient": {func(tr *Trainer, _ *audit.Job) { tr.Net = reshapes }, "gradient that Gorgonia computes"},
		"divergence":       {func(tr *Trainer, _ *audit.Job) { tr.LR = 1e6 }, "diverged"},
		"label":            {func(_ *Trainer, j *audit.Job) { j.Canaries = far{blobs{5}, 3, 0} }, "label 3, expected 0 to 2"},
		"NaN pixel":        {func(_ *Trainer, j *audit.Job) { j.Train = far{blobs{100}, 0, float32(math.NaN())} }, "NaN"},
		"model folder":     {func(_ *Trainer, j *audit.Job) { j.Model = "/dev/null/model.npz" }, "/dev/null"},
	} {
		tr, j := with(c.change)
		tr.Epochs = min(tr.Epochs, 3)
		result, err := tr.Train(context.Background(), j)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "gorgonia: ") {
			t.Errorf("%s: result %v, error %v, expected one with %q", name, result.TestAccuracy, err, c.want)
		}
	}
}

func panics(*G.Node, *rand.Rand) (*G.Node, G.Nodes, error) { panic("planted") }

// reshapes is a net whose gradient Gorgonia gets wrong, without an error.
func reshapes(x *G.Node, init *rand.Rand) (*G.Node, G.Nodes, error) {
	w1 := parameter(x.Graph(), "w1", 16, 6, normal(init, 16, 6))
	w2 := parameter(x.Graph(), "w2", 6, 3, normal(init, 6, 3))
	h := G.Must(G.Tanh(G.Must(G.Mul(x, w1))))
	flat := G.Must(G.Reshape(h, []int{x.Shape()[0] * 6}))
	h = G.Must(G.Reshape(G.Must(G.Square(flat)), []int{x.Shape()[0], 6}))
	return G.Must(G.Mul(h, w2)), G.Nodes{w1, w2}, nil
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	j := job()
	j.Progress = func(done, _ int) {
		if done == 5 {
			cancel()
		}
	}
	if _, err := trainer().Train(ctx, j); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run returned %v", err)
	}
}
