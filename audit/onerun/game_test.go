package onerun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/audit/stats"
)

// play runs a game that must succeed.
func play(t *testing.T, g Game) *audit.Report {
	t.Helper()
	rep, err := g.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func TestReport(t *testing.T) {
	dir := t.TempDir()
	g, trainer := toyGame(dir)
	g.Header.Demo, g.Header.Notes = true, []string{"a note"}
	rep := play(t, g)
	if trainer.runs != 8 {
		t.Errorf("%d training runs, want 8", trainer.runs)
	}
	if rep.Schema != audit.Schema || rep.Kind != "onerun" || !rep.Demo || rep.Seed != 11 || rep.Data != "toys" || rep.Model != "none" ||
		rep.Examples != 120 || rep.Canaries != 40 || rep.Sets != 2 || rep.Audits != 2 || !slices.Equal(rep.Notes, []string{"a note"}) {
		t.Errorf("header %+v", rep)
	}
	for _, stage := range []string{"total", "canaries", "train"} {
		if _, ok := rep.Timing[stage]; !ok {
			t.Errorf("no time for %q in %v", stage, rep.Timing)
		}
	}
	if len(rep.Methods) != 2 || rep.Methods[0].Name != "random" || rep.Methods[1].Name != "mislabeled" {
		t.Fatalf("methods %+v", rep.Methods)
	}
	if _, err := json.Marshal(rep); err != nil {
		t.Error(err)
	}
	for _, m := range rep.Methods {
		if len(m.Runs) != 4 || len(m.AUC.Values) != 4 || m.AUC.SD == nil || m.AUC.Low == nil || *m.TestAccuracy.SD != 0 {
			t.Errorf("%s: %+v", m.Name, m)
		}
		for i, r := range m.Runs {
			checkRun(t, dir, m, i, r)
		}
	}
}

// checkRun computes the figures of a run again from its score file.
func checkRun(t *testing.T, dir string, m audit.Method, i int, r audit.Run) {
	t.Helper()
	rows, err := scoreio.ReadScores(filepath.Join(dir, r.Scores))
	if err != nil {
		t.Fatal(err)
	}
	s := scoreio.Scores(rows)
	auc, err := stats.AUC(s)
	if err != nil {
		t.Fatal(err)
	}
	tpr, err := stats.TPRAtFPR(s, 1, 20)
	if err != nil {
		t.Fatal(err)
	}
	members, loss := 0, [2]float64{}
	for j, row := range rows {
		if row.Set != r.Set || row.Audit != r.Audit || row.Canary != j {
			t.Errorf("%s: row %d is %+v", r.Scores, j, row)
		}
		if row.Member {
			members++
			loss[1] -= row.Score
		} else {
			loss[0] -= row.Score
		}
	}
	if r.AUC != auc || r.TPR != tpr || r.Members != members || m.AUC.Values[i] != auc || m.TPR.Values[i] != tpr ||
		m.LossIn.Values[i] != loss[1]/float64(members) || m.LossOut.Values[i] != loss[0]/float64(len(rows)-members) {
		t.Errorf("%s: figures %+v do not follow from the scores", r.Scores, r)
	}
	if len(r.Curve) != 1 || *r.Curve[0].TestAccuracy != .75 {
		t.Errorf("curve %+v", r.Curve)
	}
}

// TestPaired: all methods meet the same coins and the same training seeds, and
// no two audits share either.
func TestPaired(t *testing.T) {
	dir := t.TempDir()
	g, trainer := toyGame(dir)
	rep := play(t, g)
	if !slices.Equal(trainer.seeds[:4], trainer.seeds[4:]) {
		t.Errorf("training seeds %v", trainer.seeds)
	}
	distinct := slices.Clone(trainer.seeds[:4])
	slices.Sort(distinct)
	if len(slices.Compact(distinct)) != 4 {
		t.Errorf("training seeds %v repeat", trainer.seeds[:4])
	}
	members := func(method, run int) (in []bool) {
		rows, err := scoreio.ReadScores(filepath.Join(dir, rep.Methods[method].Runs[run].Scores))
		if err != nil {
			t.Fatal(err)
		}
		return scoreio.Scores(rows).Member
	}
	for run := range 4 {
		if !slices.Equal(members(0, run), members(1, run)) {
			t.Errorf("run %d: the methods met different coins", run)
		}
		for other := range run {
			if slices.Equal(members(0, run), members(0, other)) {
				t.Errorf("runs %d and %d share their coins", run, other)
			}
		}
	}
}

// TestWithoutDirectory: a game that keeps nothing gives the same report, but
// for the paths of score files.
func TestWithoutDirectory(t *testing.T) {
	g, _ := toyGame(t.TempDir())
	kept := play(t, g)
	g, trainer := toyGame("")
	trainer.step = func(int, int) {}
	rep := play(t, g)
	for _, m := range kept.Methods {
		for i := range m.Runs {
			m.Runs[i].Scores = ""
		}
	}
	if !reflect.DeepEqual(kept.Methods, rep.Methods) {
		t.Errorf("with a directory %+v, without %+v", kept.Methods, rep.Methods)
	}
}

func TestProgress(t *testing.T) {
	g, _ := toyGame(t.TempDir())
	var selects, steps, results int
	last := -1
	g.Progress = func(p Progress) {
		switch {
		case p.Stage == "select":
			selects++
		case p.Run != nil:
			results++
			if p.Reused || p.Done != results {
				t.Errorf("result %d: %+v", results, p)
			}
		case p.Steps > 0:
			steps++
		}
		if p.Stage == "audit" && (p.Total != 8 || p.Done < last) {
			t.Errorf("after %d: %+v", last, p)
		}
		last = p.Done
	}
	play(t, g)
	if selects != 4 || results != 8 || steps != 32 {
		t.Errorf("%d selections, %d results, %d steps; want 4, 8, 32", selects, results, steps)
	}
}

// lossesOf is a trainer that returns fixed losses.
type lossesOf func(m int) []float64

func (f lossesOf) Train(_ context.Context, job audit.Job) (audit.Result, error) {
	return audit.Result{Losses: f(job.Canaries.Len()), TestAccuracy: math.NaN()}, nil
}

// wantError wants one line that says all of parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error of several lines: %v", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestBadTrainers(t *testing.T) {
	broken := errors.New("out of luck")
	for name, c := range map[string]struct {
		trainer audit.Trainer
		parts   []string
	}{
		"NaN":     {lossesOf(func(m int) []float64 { l := make([]float64, m); l[3] = math.NaN(); return l }), []string{"random-set0-audit0", "canary 3", "NaN"}},
		"Inf":     {lossesOf(func(m int) []float64 { l := make([]float64, m); l[0] = math.Inf(1); return l }), []string{"canary 0", "Inf"}},
		"huge":    {lossesOf(func(m int) []float64 { l := make([]float64, m); l[7] = -1e200; return l }), []string{"canary 7", "-1e+200", "below 1e+100"}},
		"percent": {percent{func(m int) []float64 { return make([]float64, m) }}, []string{"test accuracy is 97.5", "0 to 1"}},
		"few":     {lossesOf(func(m int) []float64 { return make([]float64, m-1) }), []string{"39 losses", "40"}},
		"err":     {&toyTrainer{fail: broken}, []string{"random-set0-audit0", "out of luck"}},
	} {
		g, _ := toyGame(t.TempDir())
		g.Trainer = c.trainer
		_, err := g.Run(context.Background())
		wantError(t, err, c.parts...)
		if name == "err" && !errors.Is(err, broken) {
			t.Errorf("the cause is lost in %v", err)
		}
	}
}

// TestTiesAreTold: scores without digits look like no leakage; the report must
// say why. The same is said after a resumption. A few ties are nobody's fault.
func TestTiesAreTold(t *testing.T) {
	for _, c := range []struct {
		distinct int
		want     string
	}{{1, "Of 160 scores of random canaries, 160 equal that of another canary"}, {20, "160 equal"}, {39, "8 equal"}, {40, ""}} {
		dir := filepath.Join(t.TempDir(), "run")
		g, _ := toyGame(dir)
		g.Selectors, g.KeepModels = g.Selectors[:1], false
		g.Trainer = lossesOf(func(m int) []float64 {
			l := make([]float64, m)
			for i := range l {
				l[i] = float64(i % c.distinct)
			}
			return l
		})
		rep := play(t, g)
		if c.want == "" && rep.Notes != nil || c.want != "" && (len(rep.Notes) != 1 || !strings.Contains(rep.Notes[0], c.want)) {
			t.Errorf("%d distinct losses: notes %q", c.distinct, rep.Notes)
		}
		g.Resume = true
		if again := play(t, g); fmt.Sprint(again.Notes) != fmt.Sprint(rep.Notes) {
			t.Errorf("%d distinct losses: notes %q after resuming, %q before", c.distinct, again.Notes, rep.Notes)
		}
	}
}

// percent is a trainer that takes accuracies for percentages.
type percent struct{ lossesOf }

func (p percent) Train(ctx context.Context, job audit.Job) (audit.Result, error) {
	r, err := p.lossesOf.Train(ctx, job)
	r.TestAccuracy = 97.5
	return r, err
}

func TestTestAccuracyIsOptional(t *testing.T) {
	g, _ := toyGame("")
	g.Trainer = lossesOf(func(m int) []float64 {
		l := make([]float64, m)
		for i := range l {
			l[i] = float64(i)
		}
		return l
	})
	if m := play(t, g).Methods[0]; m.TestAccuracy != nil {
		t.Errorf("test accuracy %+v", m.TestAccuracy)
	}
}

// picky is a trainer that takes no data.
type picky struct{ toyTrainer }

func (*picky) Check(audit.Dataset) error { return errors.New("shape is wrong") }

func TestBadGames(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Game)
		parts  []string
	}{
		"no canaries":   {func(g *Game) { g.NumCanaries = 0 }, []string{"0 canaries", "at least 2"}},
		"one canary":    {func(g *Game) { g.NumCanaries = 1 }, []string{"1 canaries", "at least 2"}},
		"too many":      {func(g *Game) { g.NumCanaries = 121 }, []string{"121 canaries", "120"}},
		"no data":       {func(g *Game) { g.Data = nil }, []string{"no training data"}},
		"empty data":    {func(g *Game) { g.Data = toyData(0) }, []string{"no training data"}},
		"no trainer":    {func(g *Game) { g.Trainer = nil }, []string{"no trainer"}},
		"no sets":       {func(g *Game) { g.Sets = 0 }, []string{"0 canary sets"}},
		"no audits":     {func(g *Game) { g.Audits = -1 }, []string{"-1 audits"}},
		"no methods":    {func(g *Game) { g.Selectors = nil }, []string{"no canaries"}},
		"method twice":  {func(g *Game) { g.Selectors = []audit.Selector{Random(), Random()} }, []string{"random", "twice"}},
		"bad name":      {func(g *Game) { g.Selectors = []audit.Selector{fixed{name: "../up"}} }, []string{"../up", "letters"}},
		"picky trainer": {func(g *Game) { g.Trainer = &picky{} }, []string{"shape is wrong"}},
		"wrong shape":   {func(g *Game) { g.Selectors = []audit.Selector{badSet(func(c *audit.CanarySet) { c.Size = []int{4} })} }, []string{"shape [4]", "[2 2 1]"}},
		"wrong label":   {func(g *Game) { g.Selectors = []audit.Selector{badSet(func(c *audit.CanarySet) { c.Y[2] = 4 })} }, []string{"canary 2", "label is 4"}},
		"NaN pixel": {func(g *Game) {
			g.Selectors = []audit.Selector{badSet(func(c *audit.CanarySet) { c.X[9] = float32(math.NaN()) })}
		}, []string{"canary 2", "NaN"}},
		"wrong removed": {func(g *Game) { g.Selectors = []audit.Selector{badSet(func(c *audit.CanarySet) { c.Removed[1] = 120 })} }, []string{"canary 1", "example 120"}},
		"removed twice": {func(g *Game) {
			g.Selectors = []audit.Selector{badSet(func(c *audit.CanarySet) { c.Removed[1] = c.Removed[0] })}
		}, []string{"canary 1", "another"}},
		"few canaries":    {func(g *Game) { g.Selectors = []audit.Selector{badSet(func(c *audit.CanarySet) { c.Y = c.Y[:9] })} }, []string{"9 canaries", "40"}},
		"too few pixels":  {func(g *Game) { g.Selectors = []audit.Selector{badSet(func(c *audit.CanarySet) { c.X = c.X[:9] })} }, []string{"9 pixels", "160"}},
		"one-sided coins": {func(g *Game) { g.NumCanaries, g.Seed = 2, oneSided() }, []string{"set 0, audit 0", "all 2 coins", "same side"}},
		"one-sided coins of the last audit": {func(g *Game) {
			g.NumCanaries, g.Audits = 8, 1
			for in := coins(g.Seed, 0, 0, 8); slices.Contains(in, true) && slices.Contains(in, false); g.Audits++ {
				in = coins(g.Seed, 0, g.Audits, 8)
			}
		}, []string{"set 0, audit ", "all 8 coins", "same side"}},
	} {
		g, trainer := toyGame(filepath.Join(t.TempDir(), "run"))
		c.change(&g)
		_, err := g.Run(context.Background())
		if err == nil {
			t.Errorf("%s: played", name)
		}
		wantError(t, err, c.parts...)
		if trainer.runs > 0 {
			t.Errorf("%s: trained %d times", name, trainer.runs)
		}
	}
}

// oneSided is a seed with which both of two coins fall on one side.
func oneSided() uint64 {
	for seed := uint64(0); ; seed++ {
		if in := coins(seed, 0, 0, 2); in[0] == in[1] {
			return seed
		}
	}
}

// fixed is a selector of its own name.
type fixed struct {
	name  string
	spoil func(*audit.CanarySet)
}

func badSet(spoil func(*audit.CanarySet)) fixed { return fixed{"bad", spoil} }

func (f fixed) Name() string { return f.name }

func (f fixed) Select(ctx context.Context, d audit.Dataset, m, set int, seed uint64) (*audit.CanarySet, error) {
	c, err := Random().Select(ctx, d, m, set, seed)
	if err == nil && f.spoil != nil {
		f.spoil(c)
	}
	return c, err
}

func TestFromFile(t *testing.T) {
	dir := t.TempDir()
	d := toyData(120)
	var sets []*audit.CanarySet
	for set := range 3 {
		sets = append(sets, selected(t, Mislabeled(), d, 30, set, 5))
	}
	path := filepath.Join(dir, "my canaries.npz")
	st := &store{dir: dir}
	if _, err := st.write("my canaries.npz", "", writeCanaries(sets)); err != nil {
		t.Fatal(err)
	}
	sel, err := FromFile(path, d)
	if err != nil {
		t.Fatal(err)
	}
	if sel.Name() != "my-canaries" {
		t.Errorf("method %q", sel.Name())
	}
	g, _ := toyGame(filepath.Join(dir, "run"))
	g.Selectors, g.NumCanaries = []audit.Selector{sel}, 0
	rep := play(t, g)
	if rep.Canaries != 30 || rep.Methods[0].Name != "my-canaries" {
		t.Errorf("report of %d %s", rep.Canaries, rep.Methods[0].Name)
	}
	for i, change := range []func(*Game){func(g *Game) { g.NumCanaries = 29 }, func(g *Game) { g.Sets = 4 }} {
		g, _ := toyGame(filepath.Join(dir, fmt.Sprint(i)))
		g.Selectors, g.NumCanaries = []audit.Selector{sel}, 30
		change(&g)
		_, err := g.Run(context.Background())
		if _, err := os.Stat(g.Dir); err == nil {
			t.Errorf("%s was made", g.Dir)
		}
		wantError(t, err, "my canaries.npz", []string{"30", "3 canary sets"}[i], []string{"29", "4"}[i])
	}
	if _, err := FromFile(path, toyData(20)); err == nil {
		t.Error("took canaries that displace examples which are not there")
	}
	if got := methodName("..//"); got != "file" {
		t.Errorf("method name %q", got)
	}
}
