package ibis

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// cloud is a data set of noisy points around one centre for each class.
type cloud struct {
	shape   []int
	classes int
	x       [][]float32
	y       []int
}

func newCloud(n, classes int, noise float64, shape ...int) *cloud {
	c := &cloud{shape: shape, classes: classes}
	r, size := rand.New(rand.NewPCG(uint64(n), uint64(classes))), 1
	for _, s := range shape {
		size *= s
	}
	centre := make([][]float64, classes)
	for k := range centre {
		for range size {
			centre[k] = append(centre[k], r.NormFloat64())
		}
	}
	for i := range n {
		x := make([]float32, size)
		for j := range x {
			x[j] = float32(centre[i%classes][j] + noise*r.NormFloat64())
		}
		c.x, c.y = append(c.x, x), append(c.y, i%classes)
	}
	return c
}

func (c *cloud) Len() int     { return len(c.y) }
func (c *cloud) Shape() []int { return c.shape }
func (c *cloud) Classes() int { return c.classes }
func (c *cloud) Example(i int, x []float32) int {
	copy(x, c.x[i])
	return c.y[i]
}

// rig is a model at random parameters and data for it.
type rig struct {
	cloud *cloud
	m     *models.Model
	d     *train.Data
}

func newRig(t *testing.T, dev kernels.Device, c *cloud, net models.Layer) *rig {
	t.Helper()
	t.Cleanup(func() { dev.Close() })
	d, err := train.Upload(dev, c)
	if err != nil {
		t.Fatal(err)
	}
	m, err := models.New(dev, net)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Init(3, models.He); err != nil {
		t.Fatal(err)
	}
	return &rig{c, m, d}
}

func openCPU(t *testing.T, threads int) kernels.Device {
	t.Helper()
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	return dev
}

func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// furthest is the largest difference between two lists, relative to the
// largest number of the second; NaN if there is nothing to compare.
func furthest(got, want []float64) float64 {
	if len(got) != len(want) || len(want) == 0 {
		return math.NaN()
	}
	worst, scale := 0.0, 0.0
	for i, w := range want {
		if d := math.Abs(got[i] - w); !(d <= worst) {
			worst = d
		}
		scale = max(scale, math.Abs(w))
	}
	return worst / scale
}

// spearman is the rank correlation of two lists without ties.
func spearman(a, b []float64) float64 {
	if len(a) != len(b) || len(a) < 2 {
		return math.NaN()
	}
	ra, rb, n := ranks(a), ranks(b), float64(len(a))
	sum := 0.0
	for i := range ra {
		sum += (ra[i] - rb[i]) * (ra[i] - rb[i])
	}
	return 1 - 6*sum/(n*(n*n-1))
}

func ranks(v []float64) []float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	r := make([]float64, len(v))
	for place, i := range order {
		r[i] = float64(place)
	}
	return r
}

func sameBits(a, b []float64) bool {
	return len(a) > 0 && slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

func firstN(n int) []int {
	index := make([]int, n)
	for i := range index {
		index[i] = i
	}
	return index
}

// diagonal and rest split a square matrix.
func diagonal(m []float64) (diag, rest []float64) {
	n := int(math.Round(math.Sqrt(float64(len(m)))))
	for i, v := range m {
		if i/n == i%n {
			diag = append(diag, v)
		} else {
			rest = append(rest, v)
		}
	}
	return diag, rest
}
