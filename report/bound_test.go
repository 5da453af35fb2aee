package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
)

// gaussianGame is m scores with members mu above the others.
func gaussianGame(m int, mu float64, seed uint64) audit.Scores {
	r := rand.New(rand.NewPCG(seed, 1))
	s := audit.Scores{}
	for i := range m {
		member := i%2 == 0
		v := r.NormFloat64()
		if member {
			v += mu
		}
		s.Value, s.Member = append(s.Value, v), append(s.Member, member)
	}
	return s
}

// wellFormed wants XML with a title, a description and the words.
func wellFormed(t *testing.T, svg []byte, words ...string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range append(words, "<title", "<desc") {
		if !strings.Contains(string(svg), w) {
			t.Errorf("the plot does not say %q", w)
		}
	}
}

func TestScoresROC(t *testing.T) {
	line := PrivacyLine{Epsilon: 1.23456, Delta: 1e-5, Estimator: "joint"}
	svg, err := ScoresROC([]audit.Scores{gaussianGame(400, 1, 1)}, line)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg, "most at ε = 1.2345, δ = 1e-05", "joint", `class="thin m1"`)
	again, err := ScoresROC([]audit.Scores{gaussianGame(400, 1, 1)}, line)
	if err != nil || string(again) != string(svg) {
		t.Errorf("the same scores gave another plot, %v", err)
	}
	line.Epsilon = -1
	svg, err = ScoresROC([]audit.Scores{gaussianGame(400, 1, 1), gaussianGame(300, 1, 2)}, line)
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg, "mean of 2 games")
	if strings.Contains(string(svg), "most at") {
		t.Error("a line without a bound")
	}
	if _, err := ScoresROC(nil, line); err == nil {
		t.Error("drew nothing")
	}
	if _, err := ScoresROC([]audit.Scores{{Value: []float64{1}, Member: []bool{true}}}, line); err == nil {
		t.Error("drew a game without non-members")
	}
}

// lineError holds points to the trade-off of randomised response: two straight
// pieces from (0, 0) over (1/(1+e^ε), e^ε/(1+e^ε)) to (1, 1).
func lineError(points []point, eps float64) error {
	corner := 1 / (1 + math.Exp(eps))
	for _, p := range points {
		want := math.Exp(eps) * p.X
		if p.X > corner {
			want = 1 - (1-p.X)*math.Exp(-eps)
		}
		if !(math.Abs(p.Y-want) <= 1e-12) { // a few roundings of numbers up to 1
			return fmt.Errorf("ε = %v: at %v the line is at %v, want %v", eps, p.X, p.Y, want)
		}
	}
	if len(points) == 0 {
		return errors.New("no line")
	}
	return nil
}

func TestPrivacyLine(t *testing.T) {
	rates := axis{Log: true, Min: 1e-4, Max: 1}
	for _, eps := range []float64{0, 0.5, 1, 3} {
		if err := lineError(PrivacyLine{Epsilon: eps}.points(rates), eps); err != nil {
			t.Error(err)
		}
	}
	for _, p := range (PrivacyLine{Epsilon: 1, Delta: .5}).points(rates) {
		if !(p.Y <= 1 && p.Y >= .5) {
			t.Errorf("δ = .5: %v", p)
		}
	}
	// Planted: one of the two inequalities alone, and a δ where there is none.
	one := PrivacyLine{Epsilon: 1}.points(rates)
	for i, p := range one {
		one[i].Y = math.Min(1, math.E*p.X)
	}
	if lineError(one, 1) == nil || lineError(PrivacyLine{Epsilon: 1, Delta: 1e-5}.points(rates), 1) == nil {
		t.Error("a wrong line passes")
	}
}

// The bold line of a calibration plot rises with scores that tell and is level
// with those that do not; members and others exchanged would make it fall.
func TestCalibration(t *testing.T) {
	ends := func(s audit.Scores) (first, last float64) {
		c, err := calibrationChart([]audit.Scores{s})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Marks {
			if m.Weight == bold {
				return m.Points[0].Y, m.Points[len(m.Points)-1].Y
			}
		}
		t.Fatal("no line")
		return 0, 0
	}
	// At μ = 2 the outer tenths are more than 95 % of one kind; .2 is far away.
	rises := func(s audit.Scores) bool { first, last := ends(s); return first < .2 && last > .8 }
	telling := gaussianGame(2000, 2, 3)
	planted := audit.Scores{Value: telling.Value}
	for _, m := range telling.Member {
		planted.Member = append(planted.Member, !m)
	}
	if !rises(telling) || rises(planted) || rises(gaussianGame(2000, 0, 3)) {
		t.Error("the line does not follow the scores")
	}
	svg, err := Calibration([]audit.Scores{telling, gaussianGame(500, 1, 4)})
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg, "10 bins", "2500 candidates", "share of members, 95 % interval")
	svg, err = Calibration([]audit.Scores{{Value: []float64{1, 1, 1}, Member: []bool{true, false, true}}})
	if err != nil {
		t.Fatal(err)
	}
	wellFormed(t, svg, "1 bin ", "3 candidates")
	if _, err := Calibration(nil); err == nil {
		t.Error("drew nothing")
	}
}
