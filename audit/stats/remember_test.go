package stats

import "testing"

// counting counts how often it is asked.
type counting struct {
	Steinke
	asked *int
}

func (c counting) Lower(g Guesses, alpha float64) (float64, error) {
	*c.asked++
	return c.Steinke.Lower(g, alpha)
}

// TestRemember: the same values, each found once; errors are not kept.
func TestRemember(t *testing.T) {
	asked := 0
	e := Remember[Guesses](counting{Steinke{1e-5}, &asked})
	for range 2 {
		for _, g := range []Guesses{{100, 20, 18}, {100, 20, 17}, {200, 20, 18}} {
			for _, alpha := range []float64{.05, .01} {
				want := lowerOf[Guesses](t, Steinke{1e-5}, g, alpha)
				if got := lowerOf(t, e, g, alpha); got != want {
					t.Errorf("%+v at %v: %v, want %v", g, alpha, got, want)
				}
			}
		}
	}
	if asked != 6 || e.Name() != "steinke" {
		t.Errorf("%s was asked %d times, want 6", e.Name(), asked)
	}
	for range 2 {
		if _, err := e.Lower(Guesses{10, 20, 5}, .05); err == nil {
			t.Error("20 guesses of 10 canaries were accepted")
		}
	}
}
