package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aviary-audit/aviary/audit"
)

func write(t *testing.T, r *audit.Report, load Loader) string {
	t.Helper()
	dir := t.TempDir()
	if err := Write(dir, r, load); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t *testing.T, elem ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRenderMakesTheSameBytesAgain(t *testing.T) {
	r, load := sample(t, 200, 3, 2, leaky)
	dir := write(t, r, load)
	before := map[string][]byte{}
	for _, name := range Files() {
		before[name] = read(t, dir, name)
	}
	for _, name := range Files()[1:] {
		os.Remove(filepath.Join(dir, name))
	}
	back, err := Render(dir, load)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back); diff != "" {
		t.Error(diff)
	}
	for _, name := range Files() {
		if !bytes.Equal(before[name], read(t, dir, name)) {
			t.Errorf("%s differs after Render", name)
		}
	}
}

// tokens parses HTML or XML, fails on tags that do not match, and returns its
// start elements.
func tokens(t *testing.T, text []byte) []xml.StartElement {
	t.Helper()
	text = regexp.MustCompile(`<((?:meta|img|link)\b[^>]*)>`).ReplaceAll(text, []byte("<$1/>"))
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Entity = xml.HTMLEntity
	var all []xml.StartElement
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}

// outside lists what a page would load, run or link to.
func outside(t *testing.T, page []byte) []string {
	t.Helper()
	var found []string
	for _, e := range tokens(t, page) {
		switch e.Name.Local {
		case "script", "link", "iframe", "img", "object", "embed", "form":
			found = append(found, "<"+e.Name.Local+">")
		}
		for _, a := range e.Attr {
			switch name := strings.ToLower(a.Name.Local); {
			case name == "href" && e.Name.Local == "a" && strings.HasPrefix(a.Value, "https://arxiv.org/abs/"):
			case name == "href", name == "src", name == "srcset", name == "data", strings.HasPrefix(name, "on"):
				found = append(found, name+"="+a.Value)
			}
		}
	}
	for _, match := range regexp.MustCompile(`(?i)url\(|@import`).FindAll(page, -1) {
		found = append(found, string(match))
	}
	return found
}

func TestPageIsSelfContained(t *testing.T) {
	r, load := sample(t, 200, 2, 2, leaky)
	dir := write(t, r, load)
	for _, name := range []string{HTMLFile, SVGFile} {
		if found := outside(t, read(t, dir, name)); found != nil {
			t.Errorf("%s needs %v", name, found)
		}
	}
}

func TestTheSelfContainedTestCanFail(t *testing.T) {
	for _, planted := range []string{
		`<p><script>1</script></p>`, `<p><img src="x.png"></p>`, `<a href="https://example.org">x</a>`,
		`<p onclick="x()">x</p>`, `<style>p{background:url(x)}</style>`,
	} {
		if outside(t, []byte(planted)) == nil {
			t.Errorf("%s was not noticed", planted)
		}
	}
}

func TestTextFromOutsideIsEscaped(t *testing.T) {
	const evil = `</title></pre><script>alert("x")</script><img src=x onerror=alert(1)>&`
	r, load := sample(t, 100, 1, 2, leaky)
	r.Data, r.Model, r.Recipe, r.Device, r.Version = evil, evil, evil, evil, evil
	r.Notes = []string{evil}
	r.Methods[0].Name, r.Paired[0].Baseline = evil, evil
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, configFile), []byte(evil), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, r, load); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{HTMLFile, SVGFile} {
		text := read(t, dir, name)
		if found := outside(t, text); found != nil {
			t.Errorf("%s: %v got through", name, found)
		}
		if !bytes.Contains(text, []byte("&lt;script&gt;alert")) {
			t.Errorf("%s does not show the text at all", name)
		}
	}
}

func TestPageSaysWhatItMust(t *testing.T) {
	r, load := sample(t, 200, 2, 2, leaky)
	text := string(read(t, write(t, r, load), HTMLFile))
	for _, want := range []string{
		`role="img"`, "<desc", "<caption>", "5\u00a0% FPR", "arXiv:2605.27292", "prefers-color-scheme:dark", "@media print",
		"no evidence of leakage by this attack; this does not show that the training is private", "These scores are synthetic.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	const demo = "<strong>Demo.</strong>"
	if strings.Contains(text, demo) {
		t.Error("the page says demo, the report does not")
	}
	r.Demo = true
	if text = string(read(t, write(t, r, load), HTMLFile)); !strings.Contains(text, demo) {
		t.Error("a demo's page does not say so")
	}
}

// keys lists the paths of a JSON value, lists as [].
func keys(prefix string, v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			into[prefix+k] = true
			keys(prefix+k+".", inner, into)
		}
	case []any:
		for _, inner := range v {
			keys(prefix+"[].", inner, into)
		}
	}
}

// Scripts rely on these names: a change of this list is a new schema.
func TestJSONKeys(t *testing.T) {
	r, load := sample(t, 200, 2, 1, leaky)
	var v any
	if err := json.Unmarshal(read(t, write(t, r, load), JSONFile), &v); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	keys("", v, found)
	want := strings.Fields("schema kind demo version seed data model recipe device examples num_canaries sets audits delta methods paired notes timing timing.total timing.train")
	for _, s := range strings.Fields("auc tpr_at_fpr_0.05 loss_in loss_out test_accuracy") {
		want = append(want, "methods.[]."+s)
		for _, k := range strings.Fields("mean sd min values low high") {
			want = append(want, "methods.[]."+s+"."+k)
		}
	}
	for _, k := range strings.Fields("name runs runs.[].set runs.[].audit runs.[].members runs.[].scores runs.[].auc runs.[].tpr_at_fpr_0.05 runs.[].curve") {
		want = append(want, "methods.[]."+k)
	}
	for _, k := range strings.Fields("bounds bounds.[].estimator bounds.[].scope bounds.[].sound bounds.[].rule bounds.[].delta bounds.[].confidence bounds.[].epsilon") {
		want = append(want, "methods.[]."+k)
	}
	for _, k := range strings.Fields("method baseline auc tpr_at_fpr_0.05 wins_auc wins_tpr runs") {
		want = append(want, "paired.[]."+k)
	}
	for _, k := range strings.Fields("mean sd min values low high") {
		want = append(want, "methods.[].bounds.[].epsilon."+k, "paired.[].auc."+k, "paired.[].tpr_at_fpr_0.05."+k)
	}
	for _, k := range strings.Fields("epoch step train_loss test_accuracy") {
		want = append(want, "methods.[].runs.[].curve.[]."+k)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" {
		t.Error(diff)
	}
}

func TestOneAuditHasNoSDAndNoInterval(t *testing.T) {
	r, load := sample(t, 200, 1, 1, leaky)
	dir := write(t, r, load)
	if text := string(read(t, dir, JSONFile)); !strings.Contains(text, `"sd": null`) || !strings.Contains(text, `"low": null`) {
		t.Error("sd or low is not null")
	}
	if !strings.Contains(string(read(t, dir, HTMLFile)), "there is no interval") {
		t.Error("the page does not say that there is no interval")
	}
}

func TestReadRefuses(t *testing.T) {
	r, load := sample(t, 100, 1, 1, leaky)
	good := string(read(t, write(t, r, load), JSONFile))
	for name, test := range map[string]struct{ text, want string }{
		"another schema": {strings.Replace(good, "aviary/1", "aviary/9", 1), `schema "aviary/9", expected "aviary/1"`},
		"unknown field":  {strings.Replace(good, `"kind"`, `"sort"`, 1), `unknown field "sort"`},
		"cut":            {good[:len(good)/2], "not a report"},
		"no JSON":        {"hello", "not a report"},
		"more":           {good + "{}", "not a report"},
		"no runs":        {`{"schema":"aviary/1","methods":[{"name":"x","runs":[]}]}`, "no runs"},
		"no methods":     {`{"schema":"aviary/1"}`, "no methods"},
	} {
		path := filepath.Join(t.TempDir(), JSONFile)
		if err := os.WriteFile(path, []byte(test.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, expected %q", name, err, test.want)
		}
	}
}

// A failure leaves what was there before, and nothing else.
func TestNothingIsHalfWritten(t *testing.T) {
	r, load := sample(t, 100, 1, 1, leaky)
	short := func(run audit.Run) (audit.Scores, error) {
		s, err := load(run)
		return audit.Scores{Value: s.Value[1:], Member: s.Member[1:]}, err
	}
	nan := *r
	nan.Methods = slices.Clone(r.Methods)
	nan.Methods[1].AUC.Mean = math.NaN()
	for name, test := range map[string]struct {
		report *audit.Report
		load   Loader
		want   string
	}{
		"no file":    {r, func(audit.Run) (audit.Scores, error) { return audit.Scores{}, errors.New("scores/x.csv: gone") }, "scores/x.csv: gone"},
		"one absent": {r, short, "scores/random-0-0.csv: "},
		"NaN":        {&nan, load, "mislabeled: auc has mean NaN"},
	} {
		dir := t.TempDir()
		err := Write(dir, test.report, test.load)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, expected %q", name, err, test.want)
		}
		if left, _ := os.ReadDir(dir); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}

// Scores that are all the same, infinite, or positive still make a page.
func TestOddScores(t *testing.T) {
	for name, change := range map[string]func(float64) float64{
		"same":     func(float64) float64 { return -1 },
		"zero":     func(float64) float64 { return 0 },
		"infinite": func(v float64) float64 { return math.Inf(int(v*1e6)%2*2 - 1) },
		"positive": func(v float64) float64 { return -v },
		"huge":     func(v float64) float64 { return 1e6 * v },
	} {
		r, load := sample(t, 60, 1, 1, leaky)
		changed := func(run audit.Run) (audit.Scores, error) {
			s, err := load(run)
			for i, v := range s.Value {
				s.Value[i] = change(v)
			}
			return s, err
		}
		text := string(read(t, write(t, r, changed), HTMLFile))
		for _, bad := range []string{"NaN", "Inf"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s: the page holds %s", name, bad)
			}
		}
	}
}

func TestPNGIsAPicture(t *testing.T) {
	r, load := sample(t, 100, 1, 2, leaky)
	img, err := png.Decode(bytes.NewReader(read(t, write(t, r, load), PNGFile)))
	if err != nil {
		t.Fatal(err)
	}
	pixels := map[color.RGBA]int{}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			pixels[color.RGBAModel.Convert(img.At(x, y)).(color.RGBA)]++
		}
	}
	for _, p := range palette[:2] {
		if n := pixels[color.RGBAModel.Convert(colourOf(p.light, 1)).(color.RGBA)]; n < 100 {
			t.Errorf("%d pixels have the colour %s, expected a curve", n, p.light)
		}
	}
}

func TestSummaryCSV(t *testing.T) {
	r, load := sample(t, 100, 1, 1, map[string]float64{"random": 0})
	lines := strings.Split(strings.TrimSpace(string(read(t, write(t, r, load), CSVFile))), "\n")
	if len(lines) != 6+4 || lines[0] != "method,figure,mean,sd,min,low95,high95,audits" {
		t.Fatalf("%q", lines)
	}
	auc := exact(&r.Methods[0].AUC.Mean)
	if want := "random,auc," + auc + ",," + auc + ",,,1"; lines[1] != want {
		t.Errorf("%q, expected %q", lines[1], want)
	}
}
