package data

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/aviary-audit/aviary/internal/npz"
)

// pair is the names of an array of images and of its labels.
type pair struct{ images, labels string }

// The names under which .npz files have their arrays. single is for files that
// hold one set; train and test for files that hold both.
var (
	singleNames = []pair{{"images", "labels"}, {"x", "y"}, {"X", "y"}, {"X", "Y"}, {"data", "labels"},
		{"x_train", "y_train"}, {"x_test", "y_test"}}
	trainNames = []pair{{"x_train", "y_train"}, {"X_train", "y_train"}, {"train_images", "train_labels"}}
	testNames  = []pair{{"x_test", "y_test"}, {"X_test", "y_test"}, {"test_images", "test_labels"}}
)

// LoadNpy reads a Set from two .npy files: images of uint8, float32 or float64
// and of shape [N D], [N H W] or [N H W C], and labels of any integer type and
// of shape [N] or [N 1]. With classes 0 the number of classes is counted, see
// Options.
func LoadNpy(images, labels string, classes int) (*Set, error) {
	s, err := openNpyPair(images, labels)
	if err != nil {
		return nil, err
	}
	return single(images, s, classes)
}

// LoadNpz reads a Set from the arrays images and labels, or x and y, of an
// .npz file; else it is like LoadNpy.
func LoadNpz(path string, classes int) (*Set, error) {
	s, err := openNpz(path)
	if err != nil {
		return nil, err
	}
	return single(path, s, classes)
}

func openNpyPair(images, labels string) (*source, error) {
	x, err := npz.ReadNpyFile(images)
	if err != nil {
		return nil, err
	}
	y, err := npz.ReadNpyFile(labels)
	if err != nil {
		return nil, err
	}
	return pairArrays(images, labels, x, y)
}

// openNpz reads the only set of a file.
func openNpz(path string) (*source, error) {
	r, err := npz.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	names, err := findPair(r, singleNames)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return readPair(path, r, names)
}

// openNpzBoth reads a file that may hold a training and a test set. test is
// nil if it holds only one set.
func openNpzBoth(path string) (train, test *source, err error) {
	r, err := npz.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	trainPair, errTrain := findPair(r, trainNames)
	testPair, errTest := findPair(r, testNames)
	if errTest != nil && !hasAny(r, testNames) {
		names, err := findPair(r, slices.Concat(trainNames, singleNames))
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		train, err = readPair(path, r, names)
		return train, nil, err
	}
	if errTest != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, errTest)
	}
	if errTrain != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, errTrain)
	}
	if train, err = readPair(path, r, trainPair); err != nil {
		return nil, nil, err
	}
	test, err = readPair(path, r, testPair)
	return train, test, err
}

// findPair finds the one pair of names of which both arrays are there.
func findPair(r *npz.Reader, names []pair) (pair, error) {
	var found []pair
	images := map[string]bool{}
	for _, p := range names {
		if r.Has(p.images) && r.Has(p.labels) && !images[p.images] {
			found = append(found, p)
			images[p.images] = true
		}
	}
	have := strings.Join(r.Names(), ", ")
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return pair{}, fmt.Errorf("holds the arrays [%s], expected %s", have, listPairs(names))
	}
	return pair{}, fmt.Errorf("holds the arrays [%s], of which more than one pair may be meant: %s", have, listPairs(found))
}

func listPairs(names []pair) string {
	var list []string
	for _, p := range names {
		if name := p.images + " and " + p.labels; !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, ", or ")
}

func hasAny(r *npz.Reader, names []pair) bool {
	for _, p := range names {
		if r.Has(p.images) || r.Has(p.labels) {
			return true
		}
	}
	return false
}

func readPair(path string, r *npz.Reader, names pair) (*source, error) {
	x, err := r.Array(names.images)
	if err != nil {
		return nil, err
	}
	y, err := r.Array(names.labels)
	if err != nil {
		return nil, err
	}
	return pairArrays(fmt.Sprintf("%s: array %q", path, names.images), fmt.Sprintf("%s: array %q", path, names.labels), x, y)
}

func pairArrays(images, labels string, x, y npz.Array) (*source, error) {
	s := &source{images: images, labels: labels}
	var err error
	if s.shape, err = exampleShape(x.Shape); err != nil {
		return nil, fmt.Errorf("%s: %w", images, err)
	}
	s.n = x.Shape[0]
	if err := s.setPixels(x); err != nil {
		return nil, fmt.Errorf("%s: %w", images, err)
	}
	if s.y, err = integers(y); err != nil {
		return nil, fmt.Errorf("%s: %w", labels, err)
	}
	return s, s.check()
}

func (s *source) setPixels(x npz.Array) error {
	switch data := x.Data.(type) {
	case []uint8:
		s.bytes = data
	case []float32:
		s.floats = data
		return checkFinite(data, s.shape)
	case []float64:
		s.floats = make([]float32, len(data))
		for i, v := range data {
			s.floats[i] = float32(v)
			if f := s.floats[i]; f-f != 0 { // NaN, ±Inf, or too large for float32
				return notFinite(v, i, s.shape)
			}
		}
	default:
		return fmt.Errorf("images are %s, expected uint8, float32 or float64", x.DType())
	}
	return nil
}

// integers is labels of any integer type, of shape [N] or [N 1].
func integers(a npz.Array) ([]int64, error) {
	if len(a.Shape) != 1 && !(len(a.Shape) == 2 && a.Shape[1] == 1) {
		return nil, fmt.Errorf("labels of shape %v, expected [N] or [N 1]", a.Shape)
	}
	switch data := a.Data.(type) {
	case []int8:
		return widen(data), nil
	case []int16:
		return widen(data), nil
	case []int32:
		return widen(data), nil
	case []int64:
		return data, nil
	case []uint8:
		return widen(data), nil
	case []uint16:
		return widen(data), nil
	case []uint32:
		return widen(data), nil
	case []uint64:
		for i, v := range data {
			if v > math.MaxInt64 {
				return nil, fmt.Errorf("label %d of example %d is out of range", v, i)
			}
		}
		return widen(data), nil
	}
	return nil, fmt.Errorf("labels are %s, expected an integer type", a.DType())
}

func widen[T int8 | int16 | int32 | uint8 | uint16 | uint32 | uint64](data []T) []int64 {
	wide := make([]int64, len(data))
	for i, v := range data {
		wide[i] = int64(v)
	}
	return wide
}
