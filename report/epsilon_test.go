package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// The columns of the tables are those of the paper's Table 4, and say what each
// is worth.
func TestBoundsAreShown(t *testing.T) {
	r, load := sample(t, 200, 2, 2, leaky)
	accounted := 7.00041 // rounds up
	r.Accounted = &accounted
	page := string(read(t, write(t, r, load), HTMLFile))
	for _, want := range []string{
		"<h2>Lower bounds on ε</h2>", `colspan="2">sound</th>`, ">GDP only</th>", ">as papers, no bound</th>", "accounted, at most</th>",
		"<td>7.001</td>", "mean is a mean of bounds", "guesses 40 of 200 canaries", "<h2>Methods against each other</h2>", "4 of 4",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var b strings.Builder
	if err := Text(&b, r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`canaries +Steinke \(sound\) +f-DP \(sound\) +GDP \(GDP only\) +GDP \(as papers, no bound\) +accounted, at most\n`,
		`\nmislabeled +[^\n]*, min [^\n]* 7\.001\n`, `from 40 of 200 canaries guessed`, `"As papers" is`, `their mean is not itself a bound`,
		`\nmislabeled +random +\+0\.\d+ +[+−]0\.\d+ to \+0\.\d+ +4 of 4`,
	} {
		if !regexp.MustCompile(want).MatchString(b.String()) {
			t.Errorf("%q does not match\n%s", want, b.String())
		}
	}
	// The table of several reports has the same rows as that of each.
	other, _ := sample(t, 200, 1, 1, leaky)
	b.Reset()
	if err := Epsilons(&b, []*audit.Report{r, other}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n"); n != 3+2*2 || strings.Count(b.String(), "7.001\n") != 2 {
		t.Errorf("%d lines:\n%s", n, b.String())
	}
	if Epsilons(&b, nil) == nil {
		t.Error("a table of nothing")
	}
	other.Methods[0].Bounds, other.Methods[1].Bounds = nil, nil
	if Epsilons(&b, []*audit.Report{r, other}) == nil {
		t.Error("a table of a report without bounds")
	}
}

// A report without bounds, or of one method, shows no empty tables.
func TestNoBoundsNoTable(t *testing.T) {
	r, load := sample(t, 100, 1, 1, map[string]float64{"random": 0})
	r.Methods[0].Bounds = nil
	page := read(t, write(t, r, load), HTMLFile)
	if bytes.Contains(page, []byte("Lower bounds")) || bytes.Contains(page, []byte("against each other")) {
		t.Error("tables of nothing")
	}
}

// What a report must never say of a bound: above all that the paper's maximum
// is sound.
func TestBoundsThatSayTooMuch(t *testing.T) {
	paper := func(m *audit.Method) *audit.Bound { return &m.Bounds[3] }
	for name, test := range map[string]struct {
		change func(r *audit.Report)
		want   string
	}{
		"paper called sound":      {func(r *audit.Report) { paper(&r.Methods[0]).Sound = true }, "it is called sound"},
		"paper called model-free": {func(r *audit.Report) { paper(&r.Methods[0]).Scope = string(stats.ModelFree) }, `its scope is "model-free"`},
		"both": {func(r *audit.Report) {
			paper(&r.Methods[1]).Scope, paper(&r.Methods[1]).Sound = string(stats.ModelFree), true
		}, "mislabeled: bound by mahloujifar-gdp, rule paper"},
		"paper called fixed":  {func(r *audit.Report) { paper(&r.Methods[1]).Rule = "fixed" }, "rule fixed"},
		"family called sound": {func(r *audit.Report) { r.Methods[1].Bounds[2].Sound = true }, "it is called sound"},
		"another δ":           {func(r *audit.Report) { r.Methods[0].Bounds[1].Delta = 1e-3 }, "δ = 0.001"},
		"negative":            {func(r *audit.Report) { r.Methods[0].Bounds[1].Epsilon.Values[0] = -1 }, "ε is -1"},
		"left out":            {func(r *audit.Report) { r.Methods[1].Bounds = r.Methods[1].Bounds[:3] }, "has 3 bounds"},
		"accounted":           {func(r *audit.Report) { v := -1.; r.Accounted = &v }, "accounted ε is -1"},
		"unknown method":      {func(r *audit.Report) { r.Paired[0].Baseline = "blank" }, `"blank"`},
		"difference":          {func(r *audit.Report) { r.Paired[0].TPR.Mean = 1.5 }, "a difference of 1.5"},
	} {
		r, _ := sample(t, 100, 1, 2, leaky)
		if _, err := JSON(r); err != nil {
			t.Fatal(err)
		}
		test.change(r)
		if _, err := JSON(r); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, expected %q", name, err, test.want)
		}
	}
}

// Bounds above the accounted ε are told where there are too many of them for
// chance, and only if they are sound.
func TestRefuted(t *testing.T) {
	for name, test := range map[string]struct {
		above []int // audits of 20 above, by each of the four bounds
		want  bool
	}{
		// P[Bin(20, .05) >= 5] = .0026, four looks: .0103; of 6, .0013.
		"none": {[]int{0, 0, 0, 0}, false}, "by chance": {[]int{5, 0, 0, 0}, false}, "too many": {[]int{6, 0, 0, 0}, true},
		"the other sound one": {[]int{0, 6, 0, 0}, true}, "no sound one": {[]int{0, 0, 20, 20}, false},
	} {
		r, load := sample(t, 100, 4, 5, leaky)
		accounted := 1.0
		r.Accounted = &accounted
		for _, m := range r.Methods {
			for i := range m.Bounds {
				for j := range m.Bounds[i].Epsilon.Values {
					m.Bounds[i].Epsilon.Values[j] = .5
					if m.Name == "mislabeled" && j < test.above[i] {
						m.Bounds[i].Epsilon.Values[j] = 1.5
					}
				}
			}
		}
		if text := refuted(r); (text != "") != test.want {
			t.Errorf("%s: %q", name, text)
		}
		var text strings.Builder
		if err := Text(&text, r); err != nil {
			t.Fatal(err)
		}
		const words = "The training does not keep its promise, or the audit is broken."
		if page := read(t, write(t, r, load), HTMLFile); strings.Contains(text.String(), words) != test.want || bytes.Contains(page, []byte(words)) != test.want {
			t.Errorf("%s: the page or the text says otherwise", name)
		}
		if r.Accounted = nil; refuted(r) != "" {
			t.Errorf("%s: refuted a promise that nobody made", name)
		}
	}
}
