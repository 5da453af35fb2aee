package records

import (
	"slices"
	"testing"
)

func TestRows(t *testing.T) {
	m, err := NewMatrix(2, []float32{0, 1, 2, 3, 4, 5, 6, 7})
	if err != nil {
		t.Fatal(err)
	}
	r := Rows(m, []int{3, 0, 1, 2, 0})
	all, err := ReadAll(r)
	if err != nil || !slices.Equal(all.X, []float32{6, 7, 0, 1, 2, 3, 4, 5, 0, 1}) || !slices.Equal(all.Row(1), []float32{0, 1}) {
		t.Errorf("%v, %v", all, err)
	}
	part := make([]float32, 4)
	if err := r.Read(2, part); err != nil || !slices.Equal(part, []float32{2, 3, 4, 5}) {
		t.Errorf("%v, %v", part, err)
	}
	for _, from := range []int{-1, 4} {
		if r.Read(from, part) == nil || m.Read(from, part) == nil {
			t.Errorf("reading 2 rows from %d on: no error", from)
		}
	}
	if _, err := NewMatrix(3, make([]float32, 4)); err == nil {
		t.Error("4 numbers in rows of 3: no error")
	}
}
