package ibis

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// roundTrip writes a set and reads it back, with the checks of a file.
func roundTrip(t *testing.T, d audit.Dataset, c *audit.CanarySet) {
	t.Helper()
	var b bytes.Buffer
	if err := scoreio.WriteCanaries(&b, c); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "canaries.npz")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	sets := must[[]*audit.CanarySet](t)(scoreio.ReadCanaries(path, d, c.Method))
	if len(sets) != 1 || !slices.Equal(sets[0].X, c.X) || !slices.Equal(sets[0].Y, c.Y) || !slices.Equal(sets[0].Removed, c.Removed) {
		t.Errorf("%s: the set came back different", c.Method)
	}
}

func TestBlank(t *testing.T) {
	ctx := context.Background()
	d := newCloud(200, 4, 1, 3, 3, 1)
	c := must[*audit.CanarySet](t)(Blank().Select(ctx, d, 120, 2, 7))
	roundTrip(t, d, c)
	counts := make([]int, 4)
	for _, y := range c.Y {
		counts[y]++
	}
	// 120 labels over 4 classes: each count is 30 ± 4.7.
	if c.Method != "blank" || c.Set != 2 || slices.Min(counts) < 10 {
		t.Errorf("%s, set %d, %v of each label", c.Method, c.Set, counts)
	}
	if slices.ContainsFunc(c.X, func(v float32) bool { return v != 0 }) {
		t.Error("a blank image has a pixel that is not zero")
	}
	same := must[*audit.CanarySet](t)(onerun.Mislabeled().Select(ctx, d, 120, 2, 7))
	if !slices.Equal(c.Removed, same.Removed) {
		t.Error("blank and mislabeled canaries displace different examples")
	}
	if again := must[*audit.CanarySet](t)(Blank().Select(ctx, d, 120, 3, 7)); slices.Equal(again.Y, c.Y) {
		t.Error("two sets have the same labels")
	}
	if _, err := Blank().Select(ctx, d, 201, 0, 7); err == nil {
		t.Error("more canaries than examples were taken")
	}
}

func TestCanaries(t *testing.T) {
	d := newCloud(20, 4, 1, 3)
	c := Canaries(d, "greedy", 1, []int{7, 3})
	roundTrip(t, d, c)
	if c.Method != "greedy" || c.Set != 1 || c.Len() != 2 || c.Y[0] != 3 || !slices.Equal(c.X[3:], d.x[3]) {
		t.Errorf("canaries of examples 7 and 3: %+v", c)
	}
}

// skewed is data that vary little along known, orthogonal directions.
func skewed(n int) (c *cloud, directions *mat.Dense) {
	r := rand.New(rand.NewPCG(4, 4))
	var square, q mat.Dense
	square.CloneFrom(mat.NewDense(4, 4, nil))
	square.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, &square)
	var qr mat.QR
	qr.Factorize(&square)
	qr.QTo(&q)
	c = &cloud{shape: []int{4}, classes: 3}
	for range n {
		x, y := make([]float32, 4), 0
		for k, sd := range []float64{0.1, 0.4, 1.5, 5} {
			z := sd * r.NormFloat64()
			if k == 0 {
				z += 3 // a large mean is no variance
			}
			if k == 2 && z > 0 {
				y = 1
			}
			for j := range x {
				x[j] += float32(z * q.At(j, k))
			}
		}
		if r.IntN(10) == 0 {
			y = 2
		}
		c.x, c.y = append(c.x, x), append(c.y, y)
	}
	return c, &q
}

func TestClipBKD(t *testing.T) {
	ctx := context.Background()
	d, q := skewed(2000)
	dev := kernels.ReferenceAsync()
	t.Cleanup(func() { dev.Close() })
	c := must[*audit.CanarySet](t)(ClipBKD(dev).Select(ctx, d, 20, 1, 7))
	roundTrip(t, d, c)
	norm := 0.0
	for _, x := range d.x {
		norm += length(x) / float64(d.Len())
	}
	for i := range 20 {
		x := c.X[4*i : 4*i+4]
		// Components of 2000 points with standard deviations at a ratio of 3 or
		// more are off by some 1/√2000/3.
		if l := length(x); !(math.Abs(l-norm) <= 1e-5*norm) {
			t.Errorf("canary %d has norm %v, expected %v", i, l, norm)
		}
		if got := cosine(x, q, i%4); !(got >= 0.995) {
			t.Errorf("canary %d is at a cosine of %.4f to the direction number %d of variance", i, got, i%4)
		}
		if i >= 4 && i < 8 && x[0] != -c.X[4*(i-4)] {
			t.Errorf("canary %d does not mirror canary %d", i, i-4)
		}
		if i >= 8 && (x[0] != c.X[4*(i-8)] || c.Y[i] == c.Y[i-8]) {
			t.Errorf("canary %d is %v with label %d, expected the place of canary %d with another label", i, x, c.Y[i], i-8)
		}
	}
	if got := cosine(c.X[:4], q, 3); got >= 0.995 {
		t.Error("planted fault: the direction of most variance passes for that of least")
	}
	// Direction 3 says nothing of the label: the rare class is the least likely.
	if c.Y[3] != 2 || c.Y[7] != 2 {
		t.Errorf("labels along a direction without information are %d and %d, expected the rare class 2", c.Y[3], c.Y[7])
	}
	// Direction 2 tells class 0 from 1: on each side the other one is the least
	// likely.
	if y := []int32{c.Y[2], c.Y[6]}; !slices.Equal(y, []int32{0, 1}) && !slices.Equal(y, []int32{1, 0}) {
		t.Errorf("labels on both sides of a direction that tells classes apart are %v", y)
	}
	if _, err := ClipBKD(dev).Select(ctx, d, 25, 0, 7); err == nil || !strings.Contains(err.Error(), "25 canaries, expected at most 24") {
		t.Errorf("more canaries than directions: %v", err)
	}
	still := &cloud{shape: []int{2}, classes: 2, x: [][]float32{{1, 2}, {1, 2}, {1, 2}}, y: []int{0, 1, 0}}
	if _, err := ClipBKD(dev).Select(ctx, still, 2, 0, 7); err == nil || !strings.Contains(err.Error(), "variance of the training data is 0") {
		t.Errorf("data without variance: %v", err)
	}
	if live := dev.Stats().LiveBytes; live != 0 {
		t.Errorf("%d bytes are live", live)
	}
}

func length(x []float32) float64 {
	sq := 0.0
	for _, v := range x {
		sq += float64(v) * float64(v)
	}
	return math.Sqrt(sq)
}

// cosine is between x and a column of q, without sign.
func cosine(x []float32, q *mat.Dense, column int) float64 {
	dot := 0.0
	for j, v := range x {
		dot += float64(v) * q.At(j, column)
	}
	return math.Abs(dot) / length(x)
}

// A game takes both kinds, and plays them.
func TestGamePlaysThem(t *testing.T) {
	dev := openCPU(t, 1)
	t.Cleanup(func() { dev.Close() })
	d := newCloud(60, 3, 1, 3, 3, 1)
	arch := must[models.Arch](t)(models.ParseArch("mlp:9-8-3"))
	trainer := onerun.NewModelTrainer(dev, arch, train.Config{Epochs: 2, Batch: 16, LR: 0.1})
	defer trainer.Close()
	g := onerun.Game{
		Data: d, Trainer: trainer, Selectors: []audit.Selector{Blank(), ClipBKD(dev)},
		NumCanaries: 12, Sets: 2, Audits: 1, Seed: 3, Dir: filepath.Join(t.TempDir(), "run"),
	}
	report, err := g.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Methods) != 2 {
		t.Errorf("%d methods in the report, expected 2", len(report.Methods))
	}
}
