package data

import (
	"fmt"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/internal/rng"
)

// Set is labelled examples in host memory. It is read-only: several goroutines
// may use it at once, and subsets share its pixels. It is an audit.Dataset.
type Set struct {
	name    string
	shape   []int // of one example
	size    int   // product of shape
	classes int
	labels  []int32
	bytes   []uint8   // [len(labels), shape...], or nil
	floats  []float32 // the same, if the source was not bytes
	rows    []int     // of a subset: example i is row rows[i]; nil for all rows
}

// Name is the data set's name for reports, e.g. "mnist".
func (s *Set) Name() string { return s.name }

// Len is the number of examples.
func (s *Set) Len() int {
	if s.rows != nil {
		return len(s.rows)
	}
	return len(s.labels)
}

// Shape is that of one example: [H W C], or [D] if the source has no more
// structure.
func (s *Set) Shape() []int { return slices.Clone(s.shape) }

// Classes is the number of classes K; labels are 0 to K-1.
func (s *Set) Classes() int { return s.classes }

// Example copies example i into x, which must have exactly the size of one
// example, and returns its label. Pixels that were bytes are scaled to 0…1.
func (s *Set) Example(i int, x []float32) (label int) {
	if len(x) != s.size {
		panic(fmt.Sprintf("data: Example: room for %d values, an example has %d", len(x), s.size))
	}
	row := s.row(i)
	if s.bytes == nil {
		copy(x, s.floats[row*s.size:(row+1)*s.size])
	} else {
		for j, b := range s.bytes[row*s.size : (row+1)*s.size] {
			x[j] = float32(b) / 255
		}
	}
	return int(s.labels[row])
}

// Label is the label of example i.
func (s *Set) Label(i int) int { return int(s.labels[s.row(i)]) }

func (s *Set) row(i int) int {
	if s.rows != nil {
		return s.rows[i]
	}
	return i
}

// Subset is the examples with these indices, in this order. It shares s's
// pixels. An index may come more than once; one that is out of range panics.
func (s *Set) Subset(indices []int) *Set {
	rows := make([]int, len(indices))
	for i, index := range indices {
		if index < 0 || index >= s.Len() {
			panic(fmt.Sprintf("data: Subset: index %d of %d examples", index, s.Len()))
		}
		rows[i] = s.row(index)
	}
	sub := *s
	sub.rows = rows
	return &sub
}

// splitSeed is the seed of every split. It is fixed so that a split belongs to
// the data and not to a run.
const splitSeed = 1

// Split draws the nearest whole number to holdout·N examples without
// replacement as a test set, and leaves the rest for training; both keep the
// order of s. The draw is a permutation from the stream (seed 1, rng.Split),
// so that it is the same in every run.
func (s *Set) Split(holdout float64) (train, test *Set, err error) {
	n := s.Len()
	k := math.Round(holdout * float64(n))
	if !(k >= 1 && k < float64(n)) {
		return nil, nil, fmt.Errorf("%s: a test set of %v × %d examples leaves nothing on one side", s.name, holdout, n)
	}
	perm := rng.New(splitSeed, rng.Split).Perm(n)
	in, out := perm[:n-int(k)], perm[n-int(k):]
	slices.Sort(in)
	slices.Sort(out)
	return s.Subset(in), s.Subset(out), nil
}

// NewBytes makes a Set of N = len(labels) examples out of pixels
// [N, shape...] that are bytes, which Example scales by 1/255. Labels must be
// 0 to classes-1. The Set keeps the slices.
func NewBytes(name string, shape []int, classes int, pixels []uint8, labels []int32) (*Set, error) {
	s := &Set{name: name, shape: slices.Clone(shape), classes: classes, bytes: pixels, labels: labels}
	if err := s.check(len(pixels)); err != nil {
		return nil, err
	}
	return s, nil
}

// NewFloats is NewBytes for pixels that are used as they are. They must be
// finite.
func NewFloats(name string, shape []int, classes int, pixels []float32, labels []int32) (*Set, error) {
	s := &Set{name: name, shape: slices.Clone(shape), classes: classes, floats: pixels, labels: labels}
	if err := s.check(len(pixels)); err != nil {
		return nil, err
	}
	if err := checkFinite(pixels, shape); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func (s *Set) check(pixels int) error {
	s.size = 1
	for _, d := range s.shape {
		if d < 1 {
			return fmt.Errorf("%s: examples of shape %v, expected dimensions of at least 1", s.name, s.shape)
		}
		s.size *= d
	}
	if pixels != s.size*len(s.labels) {
		return fmt.Errorf("%s: %d pixels for %d labels and examples of shape %v", s.name, pixels, len(s.labels), s.shape)
	}
	for i, y := range s.labels {
		if y < 0 || int(y) >= s.classes {
			return fmt.Errorf("%s: label %d of example %d is out of range, expected 0 to %d", s.name, y, i, s.classes-1)
		}
	}
	return nil
}

// checkFinite reports the first pixel that is NaN or infinite.
func checkFinite(pixels []float32, shape []int) error {
	for i, v := range pixels {
		if v-v != 0 { // only NaN and ±Inf
			return notFinite(float64(v), i, shape)
		}
	}
	return nil
}

// notFinite names the example and the pixel of value number i.
func notFinite(v float64, i int, shape []int) error {
	size := 1
	for _, d := range shape {
		size *= d
	}
	example, rest := i/size, i%size
	pixel := make([]int, len(shape))
	for k := len(shape) - 1; k >= 0; k-- {
		pixel[k] = rest % shape[k]
		rest /= shape[k]
	}
	return fmt.Errorf("pixel %v of example %d is %v, expected a finite float32", pixel, example, v)
}
