package records

import (
	"math"
	"testing"
)

func cosine(a, b []float32) float64 {
	s := 0.0
	for i := range a {
		s += float64(a[i]) * float64(b[i])
	}
	return s
}

func TestNGrams(t *testing.T) {
	texts := []string{
		"The delivery was late and the box was damaged.", "The box was damaged, and delivery was late!",
		"Quantum chromodynamics describes quarks and gluons.", "", " \t…", "ABC2DE-F3GHIJ", "QZ7RTA-PP4XYZ", "straße naïve 東京",
	}
	m := DefaultNGrams().Embed(texts)
	for i := range texts {
		want := 1.0
		if i == 3 || i == 4 {
			want = 0
		}
		if got := cosine(m.Row(i), m.Row(i)); !(math.Abs(got-want) < 1e-5) {
			t.Errorf("%q: squared length %v", texts[i], got)
		}
	}
	if near, far := cosine(m.Row(0), m.Row(1)), cosine(m.Row(0), m.Row(2)); !(near > far+.4) {
		t.Errorf("alike %v, unlike %v", near, far)
	}
	if c := cosine(m.Row(5), m.Row(6)); !(c > cosine(m.Row(5), m.Row(0))+.1) {
		t.Errorf("codes are not like codes: %v", c)
	}
	again := DefaultNGrams().Embed(texts[2:3])
	for i, v := range again.Row(0) {
		if v != m.Row(2)[i] {
			t.Fatal("a text's embedding depends on the others")
		}
	}
}
