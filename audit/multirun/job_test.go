package multirun

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

func worlds(runs int) Design { return Design{Worlds: &Worlds{Set: 0, Canary: 0, Runs: runs, Seed: 3}} }

// TestResume: a job that failed goes on to the same journal, and does nothing
// twice.
func TestResume(t *testing.T) {
	f := toggles(5, 3, 2)
	design := Design{Interference: &f}
	whole, broken := t.TempDir(), t.TempDir()
	want := run(t, job(whole, &sum{gap: 1, couple: .5}, canaries(5), design))
	for _, failAt := range []int{4, 1, 3} {
		j := job(broken, &sum{gap: 1, couple: .5, failAt: failAt}, canaries(5), design)
		j.Resume = true
		if _, err := j.Run(t.Context()); !errors.Is(err, errToy) {
			t.Fatalf("run %d: %v, expected the toy's error", failAt, err)
		}
	}
	s := &sum{gap: 1, couple: .5}
	j := job(broken, s, canaries(5), design)
	j.Resume = true
	var last Progress
	j.Progress = func(p Progress) { last = p }
	if got := run(t, j); !same(got, want) {
		t.Errorf("resumed %v, at once %v", got, want)
	}
	if journalOf(t, broken) != journalOf(t, whole) {
		t.Error("the journals differ")
	}
	if done := 3 + 0 + 2; len(s.jobs) != len(f.Trials())-done || last.Done != 8 || last.Total != 8 {
		t.Errorf("%d trainings after resuming, told %+v", len(s.jobs), last)
	}
	if left, _ := os.ReadDir(filepath.Join(broken, "state")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := job(broken, s, canaries(5), design).Run(t.Context()); err == nil {
		t.Error("a folder that holds a job was taken without Resume")
	}
	other := canaries(5)
	other.X[2] = -100
	for want, change := range map[string]func(*Job){
		"canaries": func(j *Job) { j.Canaries = other },
		"data":     func(j *Job) { j.Data = line(41) },
		"model":    func(j *Job) { j.Model = "other" },
		"recipe":   func(j *Job) { j.Recipe = "other" },
		"device":   func(j *Job) { j.Device = "other" },
		"design":   func(j *Job) { g := f; g.Seed++; j.Design = Design{Interference: &g} },
	} {
		k := j
		change(&k)
		if _, err := k.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want+" ") {
			t.Errorf("another %s: %v", want, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := job(t.TempDir(), s, canaries(5), design).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestMerge: shards, put together in any order, have the bytes of one run.
func TestMerge(t *testing.T) {
	f := toggles(5, 3, 3)
	for _, design := range []Design{{Interference: &f}, worlds(5)} {
		m := 5
		if design.Worlds != nil {
			m = 1
		}
		s := &sum{gap: 1, couple: .5, noise: 1}
		whole := t.TempDir()
		want := run(t, job(whole, s, canaries(m), design))
		var dirs []string
		for shard := range 3 {
			dir := t.TempDir()
			j := job(dir, s, canaries(m), design)
			j.Shard, j.Shards = shard, 3
			if got := run(t, j); got != nil {
				t.Error("a shard returned the losses of all")
			}
			dirs = append([]string{dir}, dirs...)
		}
		out := filepath.Join(t.TempDir(), "out")
		got, losses, err := Merge(out, dirs...)
		if err != nil {
			t.Fatal(err)
		}
		if !same(losses, want) || journalOf(t, out) != journalOf(t, whole) || got.String() != design.String() {
			t.Errorf("%v: merged %v, in one place %v", got, losses, want)
		}
		if _, again, err := Read(out); err != nil || !same(again, want) {
			t.Errorf("read again: %v, %v", again, err)
		}
		for want, args := range map[string][]string{
			"missing":            dirs[:2],
			"expected in one":    append([]string{dirs[0]}, dirs...),
			"holds no job":       {t.TempDir()},
			"no shards to merge": {},
		} {
			to := filepath.Join(t.TempDir(), "out")
			if _, _, err := Merge(to, args...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
			if _, err := os.Stat(to); err == nil {
				t.Errorf("%s: left %s behind", want, to)
			}
		}
		if _, _, err := Merge(out, dirs...); err == nil {
			t.Error("merged into a folder that is not empty")
		}
		foreign := t.TempDir()
		j := job(foreign, s, canaries(m), design)
		j.Recipe = "other"
		run(t, j)
		if _, _, err := Merge(filepath.Join(t.TempDir(), "out"), foreign, dirs[0]); err == nil || !strings.Contains(err.Error(), "recipe was other") {
			t.Errorf("shards of another job: %v", err)
		}
	}
}

// TestDamagedJournal: what does not fit is told with its place.
func TestDamagedJournal(t *testing.T) {
	dir := t.TempDir()
	j := job(dir, &sum{gap: 1}, canaries(1), worlds(2))
	run(t, j)
	path := filepath.Join(dir, journalName)
	text := journalOf(t, dir)
	lines := strings.SplitAfter(text, "\n")
	if err := os.WriteFile(path, []byte(strings.Join(append(lines[:2:2], lines[3:]...), "")), 0o644); err != nil {
		t.Fatal(err)
	}
	j.Resume = true
	if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a lost line: %v", err)
	}
}

// TestWorlds: half of the trials have the canary; its example is not in either
// world, all others are in both; each has a seed of its own.
func TestWorlds(t *testing.T) {
	s := &sum{gap: 1}
	d := worlds(50)
	losses := run(t, job(t.TempDir(), s, canaries(1), d))
	rows := d.Worlds.Scores(losses)
	seeds := map[uint64]bool{}
	members, runs := 0, 0
	for i, r := range rows {
		seeds[s.jobs[i].Seed] = true
		n := s.jobs[i].Train.Len()
		if r.Member {
			members++
		}
		if want := 39; (r.Member && n != want+1) || (!r.Member && n != want) {
			t.Errorf("trial %d: %d examples, member %v", i, n, r.Member)
		}
		if (r.Score == 1) != r.Member || r.Audit != i {
			t.Errorf("trial %d: %+v", i, r)
		}
		if i > 0 && r.Member != rows[i-1].Member {
			runs++
		}
	}
	if members != 50 || len(seeds) != 100 || runs < 25 {
		t.Errorf("%d members, %d seeds, %d changes of world", members, len(seeds), runs)
	}
}

// TestWorldsAreSound: bounds of a mechanism whose ε is known exceed it no more
// often than their level says. The trainer is a Gaussian mechanism of μ = 1, for
// which δ = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2) at ε = 1 (Balle and Wang 2018).
// The threshold is the best there is, ε/μ + μ/2. A trainer of μ = 3 must be seen to break the claim.
func TestWorldsAreSound(t *testing.T) {
	const eps, alpha, games, runs = 1.0, .05, 40, 60
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	delta := phi(-eps+.5) - math.Exp(eps)*phi(-eps-.5)
	exceed := func(tr audit.Trainer) int {
		n := 0
		for g := range games {
			w := Worlds{Runs: runs, Seed: uint64(g)}
			losses := run(t, job(t.TempDir(), tr, canaries(1), Design{Worlds: &w}))
			var scores audit.Scores
			for _, r := range w.Scores(losses) {
				scores.Value, scores.Member = append(scores.Value, r.Score), append(scores.Member, r.Member)
			}
			b, _, err := stats.Locked{Threshold: 1.5}.Bound(scores, stats.ClopperPearson{Delta: delta, Bounds: 2}, alpha)
			if err != nil {
				t.Fatal(err)
			}
			if b.Epsilon > eps {
				n++
			}
		}
		return n
	}
	limit := int(games*alpha + 5*math.Sqrt(games*alpha*(1-alpha)))
	if n := exceed(&sum{gap: 1, noise: 1}); n > limit {
		t.Errorf("%d of %d bounds are above ε = %g, expected at most %d", n, games, eps, limit)
	}
	if n := exceed(&sum{gap: 3, noise: 1}); n <= limit {
		t.Errorf("a mechanism of μ = 3: %d of %d bounds above ε = %g: nothing was tested", n, games, eps)
	}
}

func TestRefuses(t *testing.T) {
	f := toggles(4, 2, 2)
	for want, change := range map[string]func(*Job){
		"no training data": func(j *Job) { j.Data = line(0) },
		"no trainer":       func(j *Job) { j.Trainer = nil },
		"no folder":        func(j *Job) { j.Dir = "" },
		"no canaries":      func(j *Job) { j.Canaries = nil },
		"shard 3 of 3":     func(j *Job) { j.Shard, j.Shards = 3, 3 },
		"two worlds or":    func(j *Job) { j.Design.Worlds = &Worlds{Runs: 1} },
		"plan for 4":       func(j *Job) { j.Canaries = canaries(3) },
	} {
		j := job(t.TempDir(), &sum{}, canaries(4), Design{Interference: &f})
		change(&j)
		if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, loss := range []float64{math.NaN(), math.Inf(1), 1e200} {
		j := job(t.TempDir(), constant(loss), canaries(4), Design{Interference: &f})
		if _, err := j.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "the loss of canary 0 is "+fmt.Sprint(loss)) {
			t.Errorf("loss %v: %v", loss, err)
		}
	}
}

// constant is a trainer with one loss.
type constant float64

func (c constant) Train(_ context.Context, job audit.Job) (audit.Result, error) {
	losses := make([]float64, job.Canaries.Len())
	for i := range losses {
		losses[i] = float64(c)
	}
	return audit.Result{Losses: losses}, nil
}
