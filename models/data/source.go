package data

import (
	"fmt"
	"math"
)

// source is a set as a file has it, before it is known which labels are right.
type source struct {
	images string // where the pixels are from, for errors
	labels string // where the labels are from
	shape  []int  // of one example
	n      int    // examples
	bytes  []uint8
	floats []float32
	y      []int64
}

// exampleShape is the shape of one example, given that of all N: [N D],
// [N H W] or [N H W C].
func exampleShape(all []int) ([]int, error) {
	for _, d := range all {
		if d < 1 {
			return nil, fmt.Errorf("images of shape %v, expected at least one example and one pixel", all)
		}
	}
	switch len(all) {
	case 2, 4:
		return all[1:], nil
	case 3:
		return []int{all[1], all[2], 1}, nil
	}
	return nil, fmt.Errorf("images of shape %v, expected [N D], [N H W] or [N H W C]", all)
}

// check compares the images with the labels.
func (s *source) check() error {
	if s.n != len(s.y) {
		return fmt.Errorf("%s has %d images, but %s has %d labels", s.images, s.n, s.labels, len(s.y))
	}
	return nil
}

// countClasses is the number of classes by the labels: the largest + 1. Since
// one damaged label would make up classes, every class must have an example.
func (s *source) countClasses() (int, error) {
	largest, at := int64(-1), 0
	for i, y := range s.y {
		if y < 0 {
			return 0, fmt.Errorf("%s: label %d of example %d is out of range, expected 0 or more", s.labels, y, i)
		}
		if y > largest {
			largest, at = y, i
		}
	}
	// With more classes than examples some class is not seen, so that seen
	// need not be longer than that.
	seen := make([]bool, min(largest+1, int64(len(s.y))))
	for _, y := range s.y {
		if y < int64(len(seen)) {
			seen[y] = true
		}
	}
	for class, ok := range seen {
		if !ok {
			return 0, fmt.Errorf("%s: label %d of example %d is out of range, or class %d has no example; "+
				"expected labels 0 to K-1 and all of them used, or the number of classes K to be given", s.labels, largest, at, class)
		}
	}
	return len(seen), nil
}

// set makes a Set of K = classes classes.
func (s *source) set(name string, classes int) (*Set, error) {
	if classes < 1 || classes > math.MaxInt32 {
		return nil, fmt.Errorf("%s: %d classes, expected 1 to %d", s.labels, classes, math.MaxInt32)
	}
	labels := make([]int32, len(s.y))
	for i, y := range s.y {
		if y < 0 || y >= int64(classes) {
			return nil, fmt.Errorf("%s: label %d of example %d is out of range, expected 0 to %d", s.labels, y, i, classes-1)
		}
		labels[i] = int32(y)
	}
	if s.bytes != nil {
		return NewBytes(name, s.shape, classes, s.bytes, labels)
	}
	return NewFloats(name, s.shape, classes, s.floats, labels)
}

// finish makes Sets of a training source and a test source, which may be nil:
// then the training set is split.
func finish(name string, train, test *source, o Options) (*Set, *Set, error) {
	classes := o.Classes
	if classes == 0 {
		var err error
		if classes, err = train.countClasses(); err != nil {
			return nil, nil, err
		}
	}
	trainSet, err := train.set(name, classes)
	if err != nil {
		return nil, nil, err
	}
	if test == nil {
		holdout := o.Holdout
		if holdout == 0 {
			holdout = DefaultHoldout
		}
		return trainSet.Split(holdout)
	}
	if fmt.Sprint(test.shape) != fmt.Sprint(train.shape) {
		return nil, nil, fmt.Errorf("%s: examples of shape %v, expected %v as in %s", test.images, test.shape, train.shape, train.images)
	}
	testSet, err := test.set(name, classes)
	if err != nil {
		return nil, nil, err
	}
	return trainSet, testSet, nil
}
