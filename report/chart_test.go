package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

func TestTicks(t *testing.T) {
	var labels []string
	for _, k := range logTicks(0.0019, 1) {
		if k.Label != "" {
			labels = append(labels, k.Label)
		}
	}
	want := "[0.2\u00a0% 0.5\u00a0% 1\u00a0% 2\u00a0% 5\u00a0% 10\u00a0% 20\u00a0% 50\u00a0% 100\u00a0%]"
	if fmt.Sprint(labels) != want {
		t.Errorf("%v, expected %v", labels, want)
	}
	for _, test := range []struct {
		lo, hi float64
		want   string
	}{
		{0, 7, "[0 1 2 3 4 5 6 7]"}, {-3, 21, "[0 5 10 15 20]"}, {-0.2, 0.2, "[−0.2 −0.1 0 0.1 0.2]"}, {0, 1000, "[0 200 400 600 800 1e+03]"},
	} {
		labels = nil
		for _, k := range niceTicks(test.lo, test.hi, 8-3*btoi(test.lo != 0 || test.hi > 7), plainNumber) {
			labels = append(labels, k.Label)
		}
		if fmt.Sprint(labels) != test.want {
			t.Errorf("%v to %v: %v, expected %v", test.lo, test.hi, labels, test.want)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// All that is drawn lies in the plot area, and what is left out of a path is
// too close to see.
func TestPathsStayInside(t *testing.T) {
	r, load := sample(t, 400, 2, 2, leaky)
	methods, err := loadAll(r, load)
	if err != nil {
		t.Fatal(err)
	}
	charts := append(trainingCharts(r), rocChart(methods), histogram(methods[0], 0), histogram(methods[1], 1))
	games := []audit.Scores{gaussianGame(300, 1, 1), gaussianGame(300, 1, 2)}
	charts = append(charts, must(scoresROC(games, PrivacyLine{Epsilon: 2, Delta: .1}))(t), must(calibrationChart(games))(t))
	number := regexp.MustCompile(`[ML]([0-9.-]+) ([0-9.-]+)`)
	for _, c := range charts {
		for _, p := range c.view("x").Paths {
			points := number.FindAllStringSubmatch(p.D, -1)
			if len(points) < 2 {
				t.Errorf("%s: a path of %d points", c.Title, len(points))
			}
			for _, q := range points {
				x, errX := strconv.ParseFloat(q[1], 64)
				y, errY := strconv.ParseFloat(q[2], 64)
				if errX != nil || errY != nil || !(x >= marginLeft && x <= c.Width-marginRight && y >= marginTop && y <= c.Height-marginBottom) {
					t.Errorf("%s: point %v is outside", c.Title, q[0])
				}
			}
		}
	}
}

// The bold line and the table agree with the headline at 5 %.
func TestMeanCurveMeetsTheHeadline(t *testing.T) {
	r, load := sample(t, 300, 3, 2, leaky)
	methods, err := loadAll(r, load)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range methods {
		mean, low, high := envelope(m.roc, []float64{0.05})
		want := r.Methods[i].TPR.Mean
		const tol = 1e-12 // a mean of six numbers below 1, in another order
		if !(math.Abs(mean[0].Y-want) <= tol) {
			t.Errorf("%s: the curve has %v at 5 %%, the report %v", m.Name, mean[0].Y, want)
		}
		if !(low[0].Y < want && want < high[0].Y && low[0].Y == r.Methods[i].TPR.Min) {
			t.Errorf("%s: range %v to %v, mean %v, min %v", m.Name, low[0].Y, high[0].Y, want, r.Methods[i].TPR.Min)
		}
		for _, cell := range m.low {
			if cell.Den == 20 && !(math.Abs(cell.TPR-want) <= tol) {
				t.Errorf("%s: the table has %v, the report %v", m.Name, cell.TPR, want)
			}
		}
	}
}

// The logit is right at both ends and keeps the order of scores.
func TestLogit(t *testing.T) {
	s := scoreScale([]float64{-1})
	scores := []float64{-1000, -700, -30, -math.Ln2, -1e-10, -1e-300}
	got := s.apply(scores)
	want := []float64{-1000, -700, -30, 0, -math.Log(1e-10), -math.Log(1e-300)}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-9*(1+math.Abs(want[i]))) {
			t.Errorf("logit of score %v is %v, expected %v", scores[i], got[i], want[i])
		}
	}
	if scoreScale([]float64{-1, 0}).logit || scoreScale([]float64{1}).logit {
		t.Error("scores that are no log-probability are shown as such")
	}
}

func TestStepsKeepTheStaircase(t *testing.T) {
	roc := must(stats.ROC(audit.Scores{Value: []float64{3, 2, 2, 1}, Member: []bool{true, true, false, false}}))(t)
	if got, want := fmt.Sprint(steps(roc)), "[{0 0} {0 0.5} {0.5 0.5} {0.5 1} {1 1}]"; got != want {
		t.Errorf("%v, expected %v", got, want)
	}
}

// Lines need a contrast of 3 against their ground and text 4.5 (WCAG 2.2,
// criteria 1.4.11 and 1.4.3).
func TestContrast(t *testing.T) {
	pick := func(name string, dark bool) string {
		for _, n := range neutrals {
			if n.name == name {
				if dark {
					return n.dark
				}
				return n.light
			}
		}
		t.Fatal(name)
		return ""
	}
	for _, dark := range []bool{false, true} {
		for _, name := range []string{"text", "soft", "link"} {
			for _, ground := range []string{"page", "card"} {
				if c := contrast(pick(name, dark), pick(ground, dark)); !(c >= 4.5) {
					t.Errorf("%s on %s (dark %v) has a contrast of %.2f", name, ground, dark, c)
				}
			}
		}
		for i, p := range palette {
			colour := p.light
			if dark {
				colour = p.dark
			}
			if c := contrast(colour, pick("page", dark)); !(c >= 3) {
				t.Errorf("colour %d (dark %v) has a contrast of %.2f", i, dark, c)
			}
		}
	}
	if c := contrast("#ffff00", "#ffffff"); c >= 3 {
		t.Errorf("yellow on white passes with %.2f", c) // the test can fail
	}
}

// contrast is the ratio of WCAG 2.2.
func contrast(a, b string) float64 {
	luminance := func(hex string) float64 {
		r, g, b, _ := colourOf(hex, 1).RGBA()
		sum := 0.0
		for i, v := range []uint32{r, g, b} {
			c := float64(v) / 0xffff
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += c * []float64{0.2126, 0.7152, 0.0722}[i]
		}
		return sum
	}
	x, y := luminance(a), luminance(b)
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}
