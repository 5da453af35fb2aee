package data

import (
	"math"
	"slices"
	"testing"
)

func six(t *testing.T) *Set {
	t.Helper()
	s, err := NewBytes("six", []int{2}, 3, counting(12), []int32{0, 1, 2, 0, 1, 2})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// first is the first byte of each example.
func first(s *Set) []int {
	var list []int
	x := make([]float32, 2)
	for i := range s.Len() {
		s.Example(i, x)
		list = append(list, int(math.Round(float64(x[0])*255)))
	}
	return list
}

func TestSubset(t *testing.T) {
	s := six(t)
	indices := []int{5, 1, 1, 0}
	sub := s.Subset(indices)
	indices[0] = 3 // the subset has its own copy
	if got, want := first(sub), []int{10, 2, 2, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if sub.Label(0) != 2 || sub.Label(1) != 1 {
		t.Error("labels are those of other rows")
	}
	// The planted fault would take 1 as a row of s, not of sub.
	if got, want := first(sub.Subset([]int{1, 0})), []int{2, 10}; !slices.Equal(got, want) {
		t.Errorf("subset of a subset: %v, want %v", got, want)
	}
	if none := s.Subset(nil); none.Len() != 0 {
		t.Errorf("an empty subset has %d examples", none.Len())
	}
	if got := first(s); !slices.Equal(got, []int{0, 2, 4, 6, 8, 10}) {
		t.Errorf("the set itself has become %v", got)
	}
	s.Shape()[0] = 99
	if s.Shape()[0] != 2 {
		t.Error("Shape gives away the set's own slice")
	}
}

func TestCallersBugsPanic(t *testing.T) {
	s := six(t)
	for name, f := range map[string]func(){
		"room too small": func() { s.Example(0, make([]float32, 1)) },
		"room too large": func() { s.Example(0, make([]float32, 3)) },
		"no such row":    func() { s.Example(6, make([]float32, 2)) },
		"negative index": func() { s.Subset([]int{-1}) },
		"large index":    func() { s.Subset([]int{0, 6}) },
		"beyond subset":  func() { s.Subset([]int{0}).Subset([]int{1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// Every byte is scaled with one rounding, as torch and numpy do.
func TestScale(t *testing.T) {
	s, err := NewBytes("all", []int{256}, 1, counting(256), []int32{0})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 256)
	s.Example(0, x)
	for b, v := range x {
		if v != float32(float64(b)/255) {
			t.Errorf("%d gives %v", b, v)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := NewBytes("s", []int{2}, 2, counting(5), []int32{0, 1})
	says(t, err, "s: 5 pixels for 2 labels")
	_, err = NewBytes("s", []int{2}, 2, counting(4), []int32{0, 2})
	says(t, err, "s: label 2 of example 1 is out of range, expected 0 to 1")
	_, err = NewBytes("s", []int{0}, 2, nil, nil)
	says(t, err, "s: examples of shape [0]")
	_, err = NewFloats("s", []int{1}, 2, []float32{0, float32(math.Inf(-1))}, []int32{0, 1})
	says(t, err, "s: pixel [0] of example 1 is -Inf")
}
