package hf

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
)

func openCPU(t *testing.T, threads int) kernels.Device {
	t.Helper()
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func reference(t *testing.T) kernels.Device {
	dev := kernels.Reference()
	t.Cleanup(func() { dev.Close() })
	return dev
}

// oracle is what transformers computed, in float64, for one model of testdata.
type oracle struct {
	sequences [][]int32
	hidden    []float64 // [layers+1, tokens, width]
}

func array[T npz.Element](t *testing.T, path, name string) []T {
	t.Helper()
	a, err := npz.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := npz.Of[T](a[name])
	if err != nil {
		t.Fatalf("%s: %s: %v", path, name, err)
	}
	return x
}

func readOracle(t *testing.T, model string) oracle {
	path := filepath.Join("testdata", model, "hidden.npz")
	o := oracle{hidden: array[float64](t, path, "hidden")}
	tokens := array[int32](t, path, "tokens")
	for _, n := range array[int32](t, path, "lengths") {
		o.sequences = append(o.sequences, tokens[:n])
		tokens = tokens[n:]
	}
	return o
}

func load(t *testing.T, dir string, dev kernels.Device) (*Folder, *models.Encoder) {
	t.Helper()
	f, err := ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, err := f.Load(dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Free)
	return f, e
}

func farthest(got, want []float64) float64 {
	if len(got) != len(want) || len(got) == 0 {
		return math.NaN()
	}
	most := 0.0
	for i := range got {
		if d := math.Abs(got[i] - want[i]); !(d <= most) {
			most = d
		}
	}
	return most
}

// Every layer's output is that of transformers, for BERT (F32, one file) and MPNet
// (F16, two files, names with a prefix): on the float64 reference but for rounding,
// on the CPU to 1e-5.
func TestLayersAgreeWithTransformers(t *testing.T) {
	for _, model := range []string{"bert", "mpnet"} {
		o := readOracle(t, model)
		for _, c := range []struct {
			dev kernels.Device
			tol float64
		}{{reference(t), 1e-12}, {openCPU(t, 2), 1e-5}} {
			_, e := load(t, filepath.Join("testdata", model), c.dev)
			layers, err := e.HiddenStates(o.sequences)
			if err != nil {
				t.Fatal(err)
			}
			if len(layers) != 3 {
				t.Fatalf("%s: %d layers, expected 3", model, len(layers))
			}
			for n, got := range layers {
				want := o.hidden[n*len(got) : (n+1)*len(got)]
				d := farthest(got, want)
				t.Logf("%s, %s, layer %d: at most %.2g", model, c.dev.Name(), n, d)
				if !(d <= c.tol) {
					t.Errorf("%s, %s, layer %d: differs by up to %g, expected at most %g", model, c.dev.Name(), n, d, c.tol)
				}
			}
		}
	}
}

// Planted faults: each is far beyond the tolerance.
func TestLayersShowFaults(t *testing.T) {
	for name, plant := range map[string]func(f *Folder){
		"positions not counted":   func(f *Folder) { f.Config.Counted = false },
		"no relative bias":        func(f *Folder) { f.Config.Buckets = 0 },
		"another number of heads": func(f *Folder) { f.Config.Heads, f.Config.Buckets = 4, 0 },
		"another stabilizer":      func(f *Folder) { f.Config.Stabilizer = 1e-2 },
	} {
		o := readOracle(t, "mpnet")
		f, err := ReadFolder(filepath.Join("testdata", "mpnet"))
		if err != nil {
			t.Fatal(err)
		}
		plant(f)
		e, err := f.Load(reference(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		layers, err := e.HiddenStates(o.sequences)
		if err != nil {
			t.Fatal(err)
		}
		last := layers[len(layers)-1]
		if d := farthest(last, o.hidden[2*len(last):]); !(d > 1e-3) {
			t.Errorf("%s: differs by up to %g only", name, d)
		}
	}
}

// A sequence's vector is the same to the bit whatever else is in the batch and on
// any number of threads, and so are pooling and length.
func TestEmbed(t *testing.T) {
	o := readOracle(t, "bert")
	many := slices.Repeat(o.sequences, 20)
	var all []float32
	for _, threads := range []int{1, 2} {
		_, e := load(t, filepath.Join("testdata", "bert"), openCPU(t, threads))
		for _, batch := range []int{1, 17, 4096} {
			e.BatchTokens = batch
			seen := 0
			got, err := e.Embed(context.Background(), many, models.PoolMean, true, func(done int) { seen = done })
			if err != nil {
				t.Fatal(err)
			}
			if seen != len(many) {
				t.Errorf("progress ended at %d of %d", seen, len(many))
			}
			if all == nil {
				all = got
			}
			if !slices.Equal(got, all) {
				t.Errorf("%d threads, batches of %d tokens: other bytes", threads, batch)
			}
		}
	}
	d := 24
	last := o.hidden[len(o.hidden)-len(o.hidden)/3:]
	for s, tokens := range o.sequences {
		rows := last[:len(tokens)*d]
		last = last[len(tokens)*d:]
		for _, p := range []models.Pooling{models.PoolMean, models.PoolFirst, models.PoolMax} {
			_, e := load(t, filepath.Join("testdata", "bert"), reference(t))
			got, err := e.Embed(context.Background(), [][]int32{tokens}, p, false, nil)
			if err != nil {
				t.Fatal(err)
			}
			for j := range d {
				mean, most := 0.0, math.Inf(-1)
				for i := range tokens {
					mean += rows[i*d+j] / float64(len(tokens))
					most = max(most, rows[i*d+j])
				}
				want := []float64{mean, rows[j], most}[p]
				if !(math.Abs(float64(got[j])-want) <= 1e-6) {
					t.Fatalf("sequence %d, pooling %d: number %d is %v, expected %v", s, p, j, got[j], want)
				}
			}
		}
	}
}

func TestEmbedRefuses(t *testing.T) {
	_, e := load(t, filepath.Join("testdata", "bert"), openCPU(t, 1))
	long := make([]int32, 33)
	for want, sequences := range map[string][][]int32{
		"sequence 1 has 0 tokens":     {{1}, {}},
		"sequence 0 has 33 tokens":    {long},
		"token 1 of sequence 0 is 48": {{3, 48}},
		"token 0 of sequence 0 is -1": {{-1}},
	} {
		if _, err := e.Embed(context.Background(), sequences, models.PoolMean, true, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := e.Embed(ctx, [][]int32{{1}}, models.PoolMean, true, nil); err != context.Canceled {
		t.Errorf("after cancelling: %v", err)
	}
}

// minilm opens all-MiniLM-L6-v2, or skips.
func minilm(t *testing.T) string {
	dir := filepath.Join("..", "..", "data", "minilm")
	if _, err := os.Stat(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Skipf("NOT TESTED against sentence-transformers: %v; make data-minilm fetches the weights", err)
	}
	return dir
}

// miniLMOracle is texts, their tokens, and what sentence-transformers makes of them,
// one at a time (rounded to F16).
func miniLMOracle(t *testing.T) (texts []string, ids [][]int32, vectors []float32) {
	raw, err := os.ReadFile(filepath.Join("testdata", "minilm.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Texts []string  `json:"texts"`
		IDs   [][]int32 `json:"ids"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	w := &Tensors{tensors: map[string]tensor{}}
	defer w.Close()
	if err := w.add(filepath.Join("testdata", "minilm.safetensors"), nil); err != nil {
		t.Fatal(err)
	}
	vectors, err = w.Read("vectors", len(list.IDs), 384)
	if err != nil {
		t.Fatal(err)
	}
	if len(list.IDs) < 200 || len(list.Texts) != len(list.IDs) {
		t.Fatalf("%d texts, %d token lists", len(list.Texts), len(list.IDs))
	}
	return list.Texts, list.IDs, vectors
}

// leastCosine compares rows of 384.
func leastCosine(got, want []float32) (least float64, row int, err error) {
	const d = 384
	if len(got) != len(want) || len(got) == 0 {
		return 0, 0, fmt.Errorf("%d numbers, expected %d", len(got), len(want))
	}
	least = math.Inf(1)
	for r := 0; r < len(got); r += d {
		var dot, a, b float64
		for j := r; j < r+d; j++ {
			dot += float64(got[j]) * float64(want[j])
			a += float64(got[j]) * float64(got[j])
			b += float64(want[j]) * float64(want[j])
		}
		if c := dot / math.Sqrt(a*b); !(c >= least) {
			least, row = c, r/d
		}
	}
	return least, row, nil
}

func TestMiniLM(t *testing.T) {
	dir := minilm(t)
	f, e := load(t, dir, openCPU(t, 2))
	if f.MaxTokens != 256 || !f.Normalize || f.Pooling != models.PoolMean {
		t.Errorf("the folder says %+v", f)
	}
	texts, ids, want := miniLMOracle(t)
	got, err := e.Embed(context.Background(), ids, f.Pooling, f.Normalize, nil)
	if err != nil {
		t.Fatal(err)
	}
	least, row, err := leastCosine(got, want)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d texts, cosine at least %.8f", len(texts), least)
	if !(least >= 0.99999) {
		t.Errorf("text %d, %.40q: cosine %v", row, texts[row], least)
	}
	// The planted fault: one token more or less.
	ids[5] = ids[5][:len(ids[5])-1]
	got, err = e.Embed(context.Background(), ids, f.Pooling, f.Normalize, nil)
	if err != nil {
		t.Fatal(err)
	}
	if least, row, _ := leastCosine(got, want); least >= 0.99999 || row != 5 {
		t.Errorf("without the last token of text 5, the least cosine is %v, of text %d", least, row)
	}
}
