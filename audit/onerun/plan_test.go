package onerun

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// toyPlan is toyGame's second method as a plan.
func toyPlan(t *testing.T, seed uint64) (string, *Plan) {
	t.Helper()
	dir := t.TempDir()
	g, _ := toyGame(dir)
	g.Selectors, g.Trainer, g.Seed = []audit.Selector{Mislabeled()}, nil, seed
	p, err := g.WritePlan(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return dir, p
}

// follow does what somebody who trains elsewhere does with a plan: from the
// canaries and the train file of an audit it makes the training data.
func follow(t *testing.T, dir string, p *Plan, set, aud int) (audit.Dataset, *audit.CanarySet) {
	t.Helper()
	d := toyData(120)
	sets, err := scoreio.ReadCanaries(filepath.Join(dir, fmt.Sprintf("canaries/%s-set%d.npz", p.Method, set)), d, p.Method)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, fmt.Sprintf("train/set%d-audit%d.csv", set, aud)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(rows[0], ",") != "action,index" {
		t.Fatalf("header %v", rows[0])
	}
	out := map[int]bool{}
	made := &audit.CanarySet{Size: d.Shape(), K: d.Classes()}
	add := func(from audit.Dataset, i int) {
		var x [4]float32
		y := from.Example(i, x[:])
		made.X, made.Y = append(made.X, x[:]...), append(made.Y, int32(y))
	}
	var in []int
	for _, row := range rows[1:] {
		i, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		switch row[0] {
		case "leave_out":
			out[i] = true
		case "add":
			in = append(in, i)
		default:
			t.Fatalf("action %q", row[0])
		}
	}
	for i := range d.Len() {
		if !out[i] {
			add(d, i)
		}
	}
	for _, i := range in {
		add(sets[0], i)
	}
	return made, sets[0]
}

// TestPlanAndScore: a plan, trained elsewhere with the same trainer and scored,
// gives the same figures and the same score files as the game itself.
func TestPlanAndScore(t *testing.T) {
	dir, p := toyPlan(t, 11)
	gameDir := t.TempDir()
	g, trainer := toyGame(gameDir)
	g.Selectors = []audit.Selector{Mislabeled()}
	want := play(t, g)

	text := "plan,set,audit,canary,loss\n"
	for set := range p.Sets {
		for aud := range p.Audits {
			data, canaries := follow(t, dir, p, set, aud)
			r, err := trainer.Train(context.Background(), audit.Job{
				Seed: trainer.seeds[set*p.Audits+aud], Train: data, Canaries: canaries, Progress: func(int, int) {},
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, loss := range r.Losses {
				text += fmt.Sprintf("%s,%d,%d,%d,%v\n", p.ID, set, aud, i, loss)
			}
		}
	}
	losses := filepath.Join(t.TempDir(), "losses.csv")
	if err := os.WriteFile(losses, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	rep, err := ScorePlan(dir, losses)
	if err != nil {
		t.Fatal(err)
	}
	m, w := rep.Methods[0], want.Methods[0]
	if m.Name != w.Name || !reflect.DeepEqual(m.AUC, w.AUC) || !reflect.DeepEqual(m.TPR, w.TPR) || !reflect.DeepEqual(m.LossIn, w.LossIn) || !reflect.DeepEqual(m.LossOut, w.LossOut) {
		t.Errorf("scored %+v, played %+v", m, w)
	}
	if rep.Schema != want.Schema || rep.Kind != want.Kind || rep.Seed != want.Seed || rep.Data != "toys" || rep.Model != "none" || rep.Recipe != "short" ||
		rep.Examples != 120 || rep.Canaries != 40 || rep.Sets != 2 || rep.Audits != 2 || rep.Timing["total"] <= 0 {
		t.Errorf("report %+v", rep)
	}
	got, wanted := snapshot(t, filepath.Join(dir, "scores")), snapshot(t, filepath.Join(gameDir, "scores"))
	if !reflect.DeepEqual(got, wanted) || len(got) != 4 {
		t.Errorf("score files %v, want %v, and equal", names(got), names(wanted))
	}
}

// TestPlanIsItsSeed: the same settings give the same bytes, another seed
// others.
func TestPlanIsItsSeed(t *testing.T) {
	a, first := toyPlan(t, 1)
	b, again := toyPlan(t, 1)
	c, other := toyPlan(t, 2)
	if !reflect.DeepEqual(snapshot(t, a), snapshot(t, b)) || first.ID != again.ID {
		t.Error("the same settings gave another plan")
	}
	if reflect.DeepEqual(snapshot(t, a), snapshot(t, c)) || first.ID == other.ID {
		t.Error("another seed gave the same plan")
	}
	if files := names(snapshot(t, a)); len(files) != 2+2+4 || len(first.Files) != len(files)-1 {
		t.Errorf("files %v, of which the plan lists %v", files, first.Files)
	}
	for name, sum := range first.Files {
		if got, err := atomicfile.Sum(filepath.Join(a, name)); err != nil || got != sum {
			t.Errorf("%s has SHA-256 %s, %v; the plan says %s", name, got, err, sum)
		}
	}
	if read, err := ReadPlan(a); err != nil || !reflect.DeepEqual(read, first) {
		t.Errorf("read %+v, %v; wrote %+v", read, err, first)
	}
}

// table makes a losses file of all of p's rows, but for what change does.
func table(t *testing.T, p *Plan, change func(rows []string) []string) string {
	t.Helper()
	var rows []string
	for set := range p.Sets {
		for aud := range p.Audits {
			for i := range p.NumCanaries {
				rows = append(rows, fmt.Sprintf("%s,%d,%d,%d,%d.5", p.ID, set, aud, i, i))
			}
		}
	}
	path := filepath.Join(t.TempDir(), "losses.csv")
	text := "plan,set,audit,canary,loss\n" + strings.Join(change(rows), "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestScorePlanRefuses(t *testing.T) {
	dir, p := toyPlan(t, 1)
	_, other := toyPlan(t, 2)
	same := func(rows []string) []string { return rows }
	for name, c := range map[string]struct {
		change func(rows []string) []string
		parts  []string
	}{
		"missing": {func(rows []string) []string { return append(rows[:41], rows[43:]...) }, []string{"2 losses are missing", "set 0, audit 1, canary 1"}},
		"twice":   {func(rows []string) []string { return append(rows, rows[0]) }, []string{"line 162", "line 2", "once"}},
		"NaN":     {func(rows []string) []string { rows[0] = p.ID + ",0,0,0,NaN"; return rows }, []string{"line 2", "NaN"}},
		"set":     {func(rows []string) []string { rows[0] = p.ID + ",2,0,0,1"; return rows }, []string{"row 0", "set 2", "2 sets", "another plan"}},
		"audit":   {func(rows []string) []string { rows[0] = p.ID + ",0,2,0,1"; return rows }, []string{"audit 2", "2 audits"}},
		"canary":  {func(rows []string) []string { rows[0] = p.ID + ",0,0,40,1"; return rows }, []string{"canary 40", "40 canaries"}},
		"mixed": {func(rows []string) []string { rows[7] = strings.Replace(rows[7], p.ID, other.ID, 1); return rows },
			[]string{"row 7", other.ID, p.ID}},
	} {
		rep, err := ScorePlan(dir, table(t, p, c.change))
		if rep != nil {
			t.Errorf("%s: a report", name)
		}
		wantError(t, err, append(c.parts, "losses.csv")...)
	}
	if _, err := os.Stat(filepath.Join(dir, "scores")); err == nil {
		t.Error("scores were written")
	}
	if _, err := ScorePlan(dir, table(t, other, same)); err == nil {
		t.Error("took the losses of another plan")
	}
	if _, err := ScorePlan(dir, table(t, p, same)); err != nil {
		t.Error(err)
	}
}

// TestReadPlanRefuses: a plan that was changed, or put together from two.
func TestReadPlanRefuses(t *testing.T) {
	_, err := ReadPlan(t.TempDir())
	wantError(t, err, "no plan.json")

	dir, _ := toyPlan(t, 1)
	other, _ := toyPlan(t, 2)
	swap := func(name string, edit func(string) string) string {
		to := copyDir(t, dir)
		text, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), []byte(edit(string(text))), 0o644); err != nil {
			t.Fatal(err)
		}
		return to
	}
	same := func(s string) string { return s }
	_, err = ReadPlan(swap(membersName, same))
	wantError(t, err, membersName, "another plan")
	_, err = ReadPlan(swap(planName, same))
	wantError(t, err, membersName, "another plan")
	_, err = ReadPlan(swap(planName, func(s string) string { return strings.Replace(s, `"seed": 2`, `"seed": 1`, 1) }))
	wantError(t, err, planName, "was changed")
	_, err = ReadPlan(swap(planName, func(s string) string { return strings.Replace(s, planSchema, "aviary/plan/9", 1) }))
	wantError(t, err, planName, "aviary/plan/9", planSchema)
	_, err = ReadPlan(swap(planName, func(s string) string { return s[:len(s)/2] }))
	wantError(t, err, planName)
	gone := copyDir(t, dir)
	if err := os.Remove(filepath.Join(gone, membersName)); err != nil {
		t.Fatal(err)
	}
	_, err = ReadPlan(gone)
	wantError(t, err, membersName)
}

func TestWritePlanRefuses(t *testing.T) {
	dir, _ := toyPlan(t, 1)
	before := snapshot(t, dir)
	g, _ := toyGame(dir)
	g.Selectors = g.Selectors[:1]
	_, err := g.WritePlan(context.Background())
	wantError(t, err, dir, planName, "another directory")
	if !reflect.DeepEqual(before, snapshot(t, dir)) {
		t.Error("the directory was touched")
	}

	g, _ = toyGame(t.TempDir())
	_, err = g.WritePlan(context.Background())
	wantError(t, err, "2 methods", "one")
	g, _ = toyGame("")
	g.Selectors = g.Selectors[:1]
	_, err = g.WritePlan(context.Background())
	wantError(t, err, "no directory")
	g, _ = toyGame(t.TempDir())
	g.Selectors, g.NumCanaries = g.Selectors[:1], 1
	_, err = g.WritePlan(context.Background())
	wantError(t, err, "1 canaries")
	g, _ = toyGame(t.TempDir())
	g.Selectors, g.NumCanaries, g.Seed = g.Selectors[:1], 2, oneSided()
	_, err = g.WritePlan(context.Background())
	wantError(t, err, "same side")
}

// smallDisk has room for so many bytes in all files together.
func smallDisk(room int) atomicfile.Options {
	return atomicfile.Options{Wrap: func(w io.Writer) io.Writer { return diskWriter{w, &room} }}
}

type diskWriter struct {
	w    io.Writer
	room *int
}

func (d diskWriter) Write(p []byte) (int, error) {
	n := min(*d.room, len(p))
	*d.room -= n
	if n, err := d.w.Write(p[:n]); n < len(p) {
		return n, errors.Join(err, syscall.ENOSPC)
	}
	return n, nil
}

// TestPlanOnFullDisk: wherever the space ends, nothing of the plan is left, and
// what else was there stays.
func TestPlanOnFullDisk(t *testing.T) {
	_, p := toyPlan(t, 11)
	for _, room := range []int{0, 1000, 3000, 6000, 7000} {
		for _, before := range []string{"", "notes.txt"} {
			dir := filepath.Join(t.TempDir(), "plan")
			if before != "" {
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, before), nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			g, _ := toyGame(dir)
			g.Selectors, g.files = []audit.Selector{Mislabeled()}, smallDisk(room)
			_, err := g.WritePlan(context.Background())
			wantError(t, err, dir, "no space")
			entries, err := os.ReadDir(dir)
			if before == "" && !errors.Is(err, fs.ErrNotExist) || before != "" && (len(entries) != 1 || err != nil) {
				t.Errorf("room for %d bytes: %v %v is left", room, entries, err)
			}
			g.files = atomicfile.Options{} // space again
			if again, err := g.WritePlan(context.Background()); err != nil || again.ID != p.ID {
				t.Errorf("room for %d bytes: %v after the retry", room, err)
			}
		}
	}
}

// TestScoreKeepsEarlierResults: losses that cannot be used leave the scores of
// others as they were, and make no folder.
func TestScoreKeepsEarlierResults(t *testing.T) {
	dir, p := toyPlan(t, 11)
	losses := func(last string) string {
		text := "set,audit,canary,loss\n"
		for set := range p.Sets {
			for aud := range p.Audits {
				for i := range p.NumCanaries {
					loss := fmt.Sprint(float64(i) / 7)
					if set == p.Sets-1 && aud == p.Audits-1 && i == 0 {
						loss = last
					}
					text += fmt.Sprintf("%d,%d,%d,%s\n", set, aud, i, loss)
				}
			}
		}
		path := filepath.Join(t.TempDir(), "losses.csv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	before := snapshot(t, dir)
	for _, good := range []bool{false, true} {
		for _, bad := range []string{"1e101", "-1e308"} { // whose squares, or sum, are not finite
			_, err := ScorePlan(dir, losses(bad))
			wantError(t, err, "losses.csv", "mislabeled-set1-audit1", "canary 0", "below 1e+100")
			if !reflect.DeepEqual(before, snapshot(t, dir)) {
				t.Errorf("%s: the directory was touched", bad)
			}
		}
		if !good {
			if _, err := ScorePlan(dir, losses("0.5")); err != nil {
				t.Fatal(err)
			}
			before = snapshot(t, dir)
		}
	}
}
