package report

import (
	"bytes"
	"encoding/base64"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// crafted is three canaries of 2 x 2 pixels, whose labels are not in order.
func crafted() *Craft {
	s := CraftSet{
		Set: 4, Index: []int{17, 3, 99},
		Before:       []float32{0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0, 1},
		After:        []float32{0, 0, 0, .5, 1, 1, 1, 1, 0, 1, 2, 1},
		LabelsBefore: []int32{2, 0, 1}, Labels: []int32{2, 0, 0},
		InfluenceBefore: []float64{4, 1, 0, 2, 9, 0, 0, 0, 1},
		CosineBefore:    []float64{1, .5, .5, .5, 1, .5, .5, .5, 1},
		CosineAfter:     []float64{1, 0, .1, 0, 1, 0, .1, 0, 1},
		Trace:           []CraftPoint{{0, .5, 2, 8}, {8, .25, 3, 1}},
	}
	return &Craft{
		Method: "ibis", Data: "toys", Model: "mlp:4-2", Recipe: "SGD", Version: "test", Seed: 7, Shape: []int{2, 2, 1},
		Sets: []CraftSet{s}, Stages: []CraftStage{{"select", 1.5}, {"refine", 2}},
	}
}

func craftHTML(t *testing.T, c *Craft) string {
	t.Helper()
	dir := t.TempDir()
	if err := WriteCraft(dir, c); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, CraftHTML))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// drawn decodes the images of a page in their order.
func drawn(t *testing.T, page string) []func(x, y int) color.NRGBA {
	t.Helper()
	var all []func(x, y int) color.NRGBA
	for _, m := range regexp.MustCompile(`data:image/png;base64,([^"]*)"`).FindAllStringSubmatch(page, -1) {
		text, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(m[1], "&#43;", "+"))
		if err != nil {
			t.Fatal(err)
		}
		im, err := png.Decode(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, func(x, y int) color.NRGBA { return color.NRGBAModel.Convert(im.At(x, y)).(color.NRGBA) })
	}
	return all
}

// TestCraftPage: what it says, and that each picture is the one that it should
// be: a swap of before and after, or of rows and columns, would show.
func TestCraftPage(t *testing.T) {
	page := craftHTML(t, crafted())
	for _, want := range []string{
		"1 set of 3 canaries in 3.5 seconds", "0.250 → 0.003", "pixels moved by 0.208 on average", "1 pixels of set 4 are outside",
		`title="canary 2, training example 99"`, "<figcaption>1 → 0</figcaption>", "<figcaption>2</figcaption>",
		"<td>1.5</td>", "Mean loss of the canaries", "Seed 7, aviary test",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if got := regexp.MustCompile(`(src|href)="(https?:|//)`).FindString(page); got != "" || strings.Contains(page, "@import") {
		t.Errorf("the page needs something from outside: %q", got)
	}
	images := drawn(t, page)
	if len(images) != 2+1+2+2+1 { // canary 1 was not refined; cosines twice, influence once
		t.Fatalf("%d pictures", len(images))
	}
	grey := func(v uint8) color.NRGBA { return color.NRGBA{v, v, v, 255} }
	if images[0](1, 1) != grey(0) || images[1](1, 1) != grey(128) || images[1](0, 1) != grey(0) {
		t.Errorf("canary 0: before %v, after %v", images[0](1, 1), images[1](1, 1))
	}
	if images[4](0, 1) != grey(255) { // 2 is shown as 1
		t.Errorf("canary 2: %v", images[4](0, 1))
	}
	// By label the order is 1, 2, 0. Influence relative to its diagonal: row of
	// canary 0, column of canary 1 holds 1/√(4 9), and the other way round twice
	// that.
	influence := images[7]
	if a, b := influence(0, 2), influence(2, 0); !(a.G > b.G && b.G < 255) {
		t.Errorf("row of 0, column of 1: %v; row of 1, column of 0: %v", a, b)
	}
}

// TestHeatMapBlocks: large matrices are shown as means of blocks, all of them.
func TestHeatMapBlocks(t *testing.T) {
	const m = 2 * heatMax
	v, order := make([]float64, m*m), make([]int, m)
	for i := range order {
		order[i] = i
	}
	v[0], v[1], v[m], v[m+1] = 1, 1, 1, 1 // the first block
	v[m*m-1] = -2                         // a quarter of the last
	h, err := newHeatMap(v, order, 1)
	if err != nil {
		t.Fatal(err)
	}
	at := drawn(t, `"`+string(h.Image)+`"`)[0]
	if at(0, 0) != heatColour(1) || at(1, 0) != heatColour(0) || at(heatMax-1, heatMax-1) != heatColour(-.5) {
		t.Errorf("%v %v %v", at(0, 0), at(1, 0), at(heatMax-1, heatMax-1))
	}
}

// TestCraftSheet: the training example above its canary.
func TestCraftSheet(t *testing.T) {
	dir := t.TempDir()
	if err := WriteCraft(dir, crafted()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, CraftSheet))
	if err != nil {
		t.Fatal(err)
	}
	im, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	// Pixel (1, 1) of canary 0, three dots wide, after a gap of six.
	above, _, _, _ := im.At(6+4, 6+4).RGBA()
	below, _, _, _ := im.At(6+4, 6+7+4).RGBA()
	if above>>8 != 0 || below>>8 != 128 {
		t.Errorf("above %d, below %d", above>>8, below>>8)
	}
}

// TestCraftOtherShapes: vectors have no gallery, selections no curves.
func TestCraftOtherShapes(t *testing.T) {
	c := crafted()
	c.Shape = []int{4}
	c.Sets[0].Trace, c.Sets[0].CosineBefore, c.Sets[0].CosineAfter = nil, nil, nil
	dir := t.TempDir()
	if err := WriteCraft(dir, c); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, CraftSheet)); err == nil {
		t.Error("vectors have a sheet")
	}
	if page := craftHTML(t, c); !strings.Contains(page, "there is no gallery") || strings.Contains(page, "Mean loss") {
		t.Error("the page shows what there is not")
	}
}

func TestCraftRefusesToShow(t *testing.T) {
	for want, change := range map[string]func(c *Craft){
		"no crafted sets":                         func(c *Craft) { c.Sets = nil },
		"set 4: index has 0 values":               func(c *Craft) { c.Sets[0].Index = nil },
		"set 4: pixels after has 8 values":        func(c *Craft) { c.Sets[0].After = c.Sets[0].After[:8] },
		"set 4: labels has 2 values":              func(c *Craft) { c.Sets[0].Labels = []int32{1, 2} },
		"set 4: canary 1 has the pixel NaN":       func(c *Craft) { c.Sets[0].After[5] = float32(math.NaN()) },
		"influence before, row 1, column 2: +Inf": func(c *Craft) { c.Sets[0].InfluenceBefore[5] = math.Inf(1) },
		"cosines after has 4 values, expected 9":  func(c *Craft) { c.Sets[0].CosineAfter = make([]float64, 4) },
		"step 8 of the refinement: loss NaN":      func(c *Craft) { c.Sets[0].Trace[1].Loss = math.NaN() },
	} {
		c := crafted()
		change(c)
		dir := t.TempDir()
		if err := WriteCraft(dir, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%q left %v behind", want, left)
		}
	}
}
