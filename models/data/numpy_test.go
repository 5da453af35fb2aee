package data

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/aviary-audit/aviary/internal/npz"
)

func floats(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(i)
	}
	return x
}

func doubles(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	return x
}

func TestNpyTypes(t *testing.T) {
	images := map[string]struct {
		a     npz.Array
		scale float32
		shape []int
	}{
		"uint8":   {npz.Array{Shape: []int{4, 2, 3}, Data: counting(24)}, 1. / 255, []int{2, 3, 1}},
		"float32": {npz.Array{Shape: []int{4, 6}, Data: floats(24)}, 1, []int{6}},
		"float64": {npz.Array{Shape: []int{4, 1, 2, 3}, Data: doubles(24)}, 1, []int{1, 2, 3}},
	}
	labels := map[string]npz.Array{
		"int8":   {Shape: []int{4}, Data: []int8{1, 0, 2, 1}},
		"int16":  {Shape: []int{4}, Data: []int16{1, 0, 2, 1}},
		"int32":  {Shape: []int{4}, Data: []int32{1, 0, 2, 1}},
		"int64":  {Shape: []int{4}, Data: []int64{1, 0, 2, 1}},
		"uint8":  {Shape: []int{4, 1}, Data: []uint8{1, 0, 2, 1}},
		"uint16": {Shape: []int{4}, Data: []uint16{1, 0, 2, 1}},
		"uint32": {Shape: []int{4}, Data: []uint32{1, 0, 2, 1}},
		"uint64": {Shape: []int{4}, Data: []uint64{1, 0, 2, 1}},
	}
	dir := t.TempDir()
	for _, x := range images {
		for _, y := range labels {
			s, err := LoadNpy(file(t, dir, "x.npy", npyBytes(t, x.a)), file(t, dir, "y.npy", npyBytes(t, y)), 0)
			if err != nil {
				t.Error(err)
				continue
			}
			isFour(t, s, x.scale, x.shape...)
		}
	}
}

func TestNpyRefused(t *testing.T) {
	goodX := npz.Array{Shape: []int{4, 2, 3}, Data: counting(24)}
	goodY := npz.Array{Shape: []int{4}, Data: []int32{1, 0, 2, 1}}
	with32 := func(i int, v float32) npz.Array {
		x := floats(24)
		x[i] = v
		return npz.Array{Shape: []int{4, 2, 3}, Data: x}
	}
	with64 := func(i int, v float64) npz.Array {
		x := doubles(24)
		x[i] = v
		return npz.Array{Shape: []int{4, 6}, Data: x}
	}
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		x, y npz.Array
		want string
	}{
		"NaN pixel":        {with32(16, float32(nan)), goodY, "x.npy: pixel [1 1 0] of example 2 is NaN, expected a finite float32"},
		"infinite pixel":   {with32(0, float32(inf)), goodY, "x.npy: pixel [0 0 0] of example 0 is +Inf"},
		"NaN double":       {with64(23, nan), goodY, "x.npy: pixel [5] of example 3 is NaN"},
		"too large double": {with64(6, 1e300), goodY, "x.npy: pixel [0] of example 1 is 1e+300, expected a finite float32"},
		"integer images":   {npz.Array{Shape: []int{4, 2, 3}, Data: make([]int64, 24)}, goodY, "x.npy: images are int64, expected uint8, float32 or float64"},
		"vector of images": {npz.Array{Shape: []int{24}, Data: counting(24)}, goodY, "x.npy: images of shape [24], expected [N D]"},
		"scalar of images": {npz.Array{Shape: []int{}, Data: counting(1)}, goodY, "x.npy: images of shape [], expected [N D]"},
		"no pixels":        {npz.Array{Shape: []int{4, 0}, Data: counting(0)}, goodY, "x.npy: images of shape [4 0], expected at least one"},
		"float labels":     {goodX, npz.Array{Shape: []int{4}, Data: floats(4)}, "y.npy: labels are float32, expected an integer type"},
		"bool labels":      {goodX, npz.Array{Shape: []int{4}, Data: make([]bool, 4)}, "y.npy: labels are bool, expected an integer type"},
		"one-hot labels":   {goodX, npz.Array{Shape: []int{4, 3}, Data: make([]int32, 12)}, "y.npy: labels of shape [4 3], expected [N]"},
		"negative label":   {goodX, npz.Array{Shape: []int{4}, Data: []int8{0, 1, -1, 2}}, "y.npy: label -1 of example 2 is out of range"},
		"huge label":       {goodX, npz.Array{Shape: []int{4}, Data: []uint64{0, 1, 1 << 63, 2}}, "y.npy: label 9223372036854775808 of example 2 is out of range"},
		"large label":      {goodX, npz.Array{Shape: []int{4}, Data: []int64{0, 1, 1 << 40, 2}}, "y.npy: label 1099511627776 of example 2 is out of range"},
		"counts disagree":  {goodX, npz.Array{Shape: []int{3}, Data: []int64{0, 1, 2}}, "x.npy has 4 images, but "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := LoadNpy(file(t, dir, "x.npy", npyBytes(t, c.x)), file(t, dir, "y.npy", npyBytes(t, c.y)), 0)
			says(t, err, c.want)
		})
	}
}

// A file in Fortran order, made by numpy (internal/npz/testdata/make.py),
// gives the same pixels as one in C order.
func TestFortranOrder(t *testing.T) {
	dir := t.TempDir()
	y := file(t, dir, "y.npy", npyBytes(t, npz.Array{Shape: []int{2}, Data: []int64{0, 1}}))
	s, err := LoadNpy(filepath.Join("..", "..", "internal", "npz", "testdata", "fortran_3d.npy"), y, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 12)
	for i := range 2 {
		s.Example(i, x)
		for j, v := range x {
			if v != float32(12*i+j) {
				t.Errorf("value %d of example %d is %v, want %d", j, i, v, 12*i+j)
			}
		}
	}
}

func TestBadNpyFile(t *testing.T) {
	dir := t.TempDir()
	x := npyBytes(t, npz.Array{Shape: []int{4, 2, 3}, Data: counting(24)})
	y := file(t, dir, "y.npy", npyBytes(t, npz.Array{Shape: []int{4}, Data: []int32{1, 0, 2, 1}}))
	_, err := LoadNpy(file(t, dir, "x.npy", x[:len(x)-1]), y, 0)
	says(t, err, dir+"/x.npy: truncated: 23 bytes of data, expected 24")
	_, err = LoadNpy(file(t, dir, "z.npy", images4), y, 0)
	says(t, err, dir+"/z.npy: not an npy array")
}

func TestNpzNames(t *testing.T) {
	x := npz.Array{Shape: []int{4, 2, 3}, Data: counting(24)}
	y := npz.Array{Shape: []int{4}, Data: []int32{1, 0, 2, 1}}
	for _, names := range singleNames {
		path := file(t, t.TempDir(), "set.npz", npzBytes(t, npz.Named{Name: names.images, Array: x}, npz.Named{Name: names.labels, Array: y}))
		s, err := LoadNpz(path, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		isFour(t, s, 1./255, 2, 3, 1)
	}
	dir := t.TempDir()
	_, err := LoadNpz(file(t, dir, "a.npz", npzBytes(t, npz.Named{Name: "pixels", Array: x}, npz.Named{Name: "y", Array: y})), 0)
	says(t, err, dir+"/a.npz: holds the arrays [pixels, y], expected images and labels, or x and y")
	_, err = LoadNpz(file(t, dir, "b.npz", npzBytes(t, npz.Named{Name: "x", Array: x}, npz.Named{Name: "images", Array: x},
		npz.Named{Name: "y", Array: y}, npz.Named{Name: "labels", Array: y})), 0)
	says(t, err, "more than one pair may be meant: images and labels, or x and y")
	nan := npz.Array{Shape: []int{1, 1}, Data: []float32{float32(math.NaN())}}
	_, err = LoadNpz(file(t, dir, "c.npz", npzBytes(t, npz.Named{Name: "x", Array: nan}, npz.Named{Name: "y", Array: y})), 0)
	says(t, err, dir+`/c.npz: array "x": pixel [0] of example 0 is NaN`)
	_, err = LoadNpz(file(t, dir, "d.npz", images4), 0)
	says(t, err, dir+"/d.npz: not an npz file")
	_, err = LoadNpz(dir+"/none.npz", 0)
	if !os.IsNotExist(err) {
		t.Error(err)
	}
}
