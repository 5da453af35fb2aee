package ibis

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

const craftCanaries = 8

// craftData is images in [0, 1] of three classes, some of them far from the rest.
func craftData() audit.Dataset {
	c := newCloud(120, 3, .5, 4, 4, 1)
	for _, x := range c.x {
		for j := range x {
			x[j] = min(1, max(0, x[j]/4+.5))
		}
	}
	return c
}

func craftRecipe(t *testing.T) Recipe {
	t.Helper()
	arch, err := models.ParseArch("mlp:16-6-3")
	if err != nil {
		t.Fatal(err)
	}
	cfg := train.Default()
	cfg.Epochs, cfg.Batch = 3, 20
	r := DefaultRecipe(arch, cfg)
	r.Selection.Preselect, r.ThetaEpochs = 30, 4
	r.Refinement.Steps, r.Refinement.Batch, r.Refinement.Every = 12, 20, 3
	return r
}

// recipes are a crafting of each kind.
func recipes(t *testing.T) map[string]Recipe {
	all := map[string]Recipe{}
	add := func(name string, change func(r *Recipe)) {
		r := craftRecipe(t)
		change(&r)
		all[name] = r
	}
	add("ibis", func(*Recipe) {})
	add("random init, flipped, other", func(r *Recipe) { r.Init, r.FlipLabels, r.OtherInit = "random", true, true })
	add("self-influence only", func(r *Recipe) { r.Init, r.SelectOnly = "self-influence", true })
	add("clipped and augmented", func(r *Recipe) { r.Train.Clip, r.Train.NoiseMultiplier, r.Train.Augment = .5, 1, "shift:1" })
	return all
}

func craftOn(t *testing.T, threads int, r Recipe, set int, o CraftOptions) (*Crafted, error) {
	t.Helper()
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	c := NewCrafter(dev, r, o)
	return c.Craft(context.Background(), craftData(), craftCanaries, set, 5)
}

func mustCraft(t *testing.T, threads int, r Recipe, set int, o CraftOptions) *Crafted {
	t.Helper()
	c, err := craftOn(t, threads, r, set, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sameCanaries compares all but what time they took.
func sameCanaries(a, b *Crafted) bool {
	return len(a.Canaries.X) > 0 && reflect.DeepEqual(a.Canaries, b.Canaries) && reflect.DeepEqual(a.Before, b.Before)
}

// TestCraft: canaries displace what they were made from; labels and pixels change
// where they should, in range; threads change nothing, sets and seeds do.
func TestCraft(t *testing.T) {
	d := craftData()
	for name, r := range recipes(t) {
		got := mustCraft(t, 1, r, 0, CraftOptions{})
		c := got.Canaries
		if c.Len() != craftCanaries || c.Method != r.name() || !slices.Equal(c.Removed, got.Before.Removed) {
			t.Errorf("%s: %d canaries named %q", name, c.Len(), c.Method)
		}
		x := make([]float32, 16)
		moved := 0
		for i, e := range c.Removed {
			y := d.Example(e, x)
			if !slices.Equal(got.Before.X[i*16:(i+1)*16], x) || int(got.Before.Y[i]) != y {
				t.Errorf("%s: canary %d did not begin as example %d", name, i, e)
			}
			if flipped := int(c.Y[i]) != y; flipped != r.FlipLabels {
				t.Errorf("%s: canary %d: label %d, example %d", name, i, c.Y[i], y)
			}
			for j, v := range c.X[i*16 : (i+1)*16] {
				if v != x[j] {
					moved++
				}
				if !(v >= 0 && v <= 1) {
					t.Errorf("%s: canary %d has a pixel of %v", name, i, v)
				}
			}
		}
		if (moved > 0) == r.SelectOnly {
			t.Errorf("%s: %d pixels moved", name, moved)
		}
		if r.SelectOnly != (got.Trace == nil) || (r.Init == "random") != (got.Chosen == nil) {
			t.Errorf("%s: trace %v, choice %v", name, got.Trace, got.Chosen)
		}
		if !sameCanaries(got, mustCraft(t, 2, r, 0, CraftOptions{})) {
			t.Errorf("%s: another number of threads, other canaries", name)
		}
		if sameCanaries(got, mustCraft(t, 1, r, 1, CraftOptions{})) {
			t.Errorf("%s: another set, the same canaries", name)
		}
	}
}

// TestCraftByHand: the stages put together by hand give the same canaries; with
// θ* and θ₀ mixed up they do not.
func TestCraftByHand(t *testing.T) {
	r := craftRecipe(t).settle()
	want := mustCraft(t, 1, r, 2, CraftOptions{})
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	d, ctx := craftData(), context.Background()
	seed := func(which uint64) uint64 { return rng.Seed(5, rng.Craft, 2, which) }
	fit := func(d audit.Dataset, cfg train.Config) (*models.Model, *train.Data) {
		m, err := models.New(dev, r.Arch.Net())
		if err != nil {
			t.Fatal(err)
		}
		data, err := train.Upload(dev, d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := train.Run(ctx, m, data, cfg, train.Options{}); err != nil {
			t.Fatal(err)
		}
		return m, data
	}
	for _, mixed := range []bool{false, true} {
		model, data := fit(d, r.seeded(seed(0)))
		chosen, err := Select(ctx, model, data, craftCanaries, r.Selection, seed(0), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := Canaries(d, "ibis", 2, chosen.Indices)
		in := make([]bool, craftCanaries)
		star, rest := fit(onerun.TrainingSet(d, c, in), r.thetaConfig(seed(1)))
		for i := range in {
			in[i] = true
		}
		theta, all := fit(onerun.TrainingSet(d, c, in), r.thetaConfig(seed(1)))
		if mixed {
			star, theta = theta, star
		}
		canaries, err := train.Upload(dev, c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Refine(ctx, star, theta, rest, canaries, r.Refinement, seed(3), RefineOptions{}); err != nil {
			t.Fatal(err)
		}
		same := true
		for i, v := range mustFloats(t, dev, canaries.X) {
			same = same && float32(v) == want.Canaries.X[i]
		}
		if same == mixed {
			t.Errorf("mixed up %v: the same canaries %v", mixed, same)
		}
		for _, x := range []interface{ Free() }{model, star, theta, data, rest, all, canaries} {
			x.Free()
		}
	}
}

// TestCraftResume: stopped in any stage and called again, on another number of
// threads, crafting gives the same canaries; finished sets are read, not made.
func TestCraftResume(t *testing.T) {
	for name, r := range recipes(t) {
		want := mustCraft(t, 1, r, 0, CraftOptions{})
		for _, stage := range Stages() {
			if _, has := want.Seconds[stage]; !has || stage == StageMeasure { // which tells no progress
				continue
			}
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(context.Background())
			dev, err := kernels.CPU(kernels.CPUOptions{Threads: 2})
			if err != nil {
				t.Fatal(err)
			}
			c := NewCrafter(dev, r, CraftOptions{Dir: dir, Progress: func(_ int, at string, done, _ int) {
				if at == stage && done > 1 {
					cancel()
				}
			}})
			_, err = c.Craft(ctx, craftData(), craftCanaries, 0, 5)
			cancel()
			dev.Close()
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s stopped in %s: %v", name, stage, err)
			}
			stages := map[string]bool{}
			o := CraftOptions{Dir: dir, Progress: func(_ int, at string, _, _ int) { stages[at] = true }}
			if got := mustCraft(t, 1, r, 0, o); !sameCanaries(got, want) {
				t.Errorf("%s: stopped in %s, other canaries", name, stage)
			}
			if i := slices.Index(Stages(), stage); i > 0 && stages[StageSelectTrain] {
				t.Errorf("%s: stopped in %s, the first model was trained again", name, stage)
			}
			clear(stages)
			again := mustCraft(t, 1, r, 0, o)
			if !sameCanaries(again, want) || len(stages) > 0 {
				t.Errorf("%s: a finished set went through %v", name, stages)
			}
			if !reflect.DeepEqual(keys(again.Seconds), keys(want.Seconds)) || (again.Trace == nil) != (want.Trace == nil) {
				t.Errorf("%s: read again, %v and trace %v", name, again.Seconds, again.Trace)
			}
			if again.Trace != nil && !slices.Equal(again.Trace.Points, want.Trace.Points) {
				t.Errorf("%s: read again, another trace", name)
			}
		}
	}
}

func keys(m map[string]float64) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}

// TestCraftFolder: other settings and changed files are refused, with names.
func TestCraftFolder(t *testing.T) {
	r := craftRecipe(t)
	dir := t.TempDir()
	o := CraftOptions{Dir: dir}
	mustCraft(t, 1, r, 0, o)
	other := r
	other.Refinement.Lambda = 1
	if _, err := craftOn(t, 1, other, 0, o); err == nil || !strings.Contains(err.Error(), "recipe.refinement.lambda was 3, now 1") {
		t.Errorf("another λ: %v", err)
	}
	path := filepath.Join(dir, setFile(0))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2]++
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := craftOn(t, 1, r, 0, o); err == nil || !strings.Contains(err.Error(), "has changed since it was written") {
		t.Errorf("a changed set: %v", err)
	}
}

func TestCraftRefuses(t *testing.T) {
	for want, change := range map[string]func(r *Recipe){
		"init is \"best\"":          func(r *Recipe) { r.Init = "best" },
		"preselect is 121":          func(r *Recipe) { r.Selection.Preselect = 121 },
		"8 canaries, expected 1 to": func(r *Recipe) { r.Selection.Preselect = 7 },
		"theta_epochs is 0":         func(r *Recipe) { r.ThetaEpochs = 0 },
		"lambda":                    func(r *Recipe) { r.Refinement.Lambda = -1 },
		"batch":                     func(r *Recipe) { r.Refinement.Batch = 121 },
		"15":                        func(r *Recipe) { r.Arch.Sizes = []int{15, 3} },
	} {
		r := craftRecipe(t)
		change(&r)
		if _, err := craftOn(t, 1, r, 0, CraftOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
