package onerun

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/audit/stats"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/rng"
)

// The false positive rate of the headline: 5 %.
const fprNum, fprDen = 5, 100

var nan = math.NaN() // "not measured"

// Game is a one-run audit.
type Game struct {
	Data    audit.Dataset // D, with the examples that canaries will displace
	Test    audit.Dataset // unseen examples, nil if accuracy is not wanted
	Trainer audit.Trainer

	Selectors   []audit.Selector // one per method; names must differ
	NumCanaries int              // per set; 0: as many as the canary file holds
	Sets        int              // canary sets per method
	Audits      int              // training runs per set
	Seed        uint64

	// Header holds what only the caller knows of the report: Demo, Version,
	// Data, Model, Recipe, Device, Delta (0: DefaultDelta), Accounted, Notes.
	// The game fills in the rest.
	Header audit.Report

	// Dir is the run directory; "" keeps nothing. A directory that holds a game
	// already is refused unless Resume is set; then what is finished is taken
	// from there.
	Dir    string
	Resume bool
	// KeepModels asks the trainer to save each model in Dir/models.
	KeepModels bool

	// Progress, if set, is told what happens, from one goroutine at a time.
	Progress func(Progress)

	files atomicfile.Options // how files are written; tests fill the disk
}

// Progress says how far a game is.
type Progress struct {
	Stage      string // "select": canaries are made; "audit": a model is trained
	Method     string
	Set, Audit int
	Done       int // audits finished, over all methods
	Total      int // audits of the whole game
	Step       int // steps done of the running training, of Steps; 0 of 0 if not told
	Steps      int
	Run        *audit.Run // in the one report that the audit has finished, its result
	Reused     bool       // Run was not played but found in the run directory
	Note       string     // something people should know; all else is zero then
}

// Run plays the game and returns its report. With the same fields it returns
// the same report, but for Timing, however often it was interrupted. After an
// error or a cancelled ctx, Dir keeps what was finished.
func (g Game) Run(ctx context.Context) (*audit.Report, error) {
	start := time.Now()
	if err := g.check(); err != nil {
		return nil, err
	}
	bounder, err := NewBounder(g.Header.Delta)
	if err != nil {
		return nil, err
	}
	st, err := openStore(&g)
	if err != nil {
		return nil, err
	}
	defer st.close()
	watch := map[string]float64{}
	sets, err := g.selectAll(ctx, st, watch)
	if err != nil {
		return nil, err
	}
	rep := g.header()
	rep.Canaries = sets[0][0].Len()
	done := 0
	for i, sel := range g.Selectors {
		var units []unitRecord
		for set := range g.Sets {
			for aud := range g.Audits {
				u, scores, err := g.unit(ctx, st, sets[i][set], place{sel.Name(), set, aud}, done, watch)
				if err != nil {
					return nil, err
				}
				if u.bounds, err = timed(watch, "bounds", func() ([]AuditBound, error) { return bounder.Bound(scores) }); err != nil {
					return nil, fmt.Errorf("audit %v: %w", u.place, err)
				}
				units = append(units, u)
				done++
			}
		}
		m, err := method(sel.Name(), units)
		if err != nil {
			return nil, err
		}
		rep.Methods = append(rep.Methods, m)
		rep.Notes = append(rep.Notes, tieNotes(sel.Name(), rep.Canaries, units)...)
	}
	if rep.Paired, err = Pair(rep.Methods); err != nil {
		return nil, err
	}
	if err := st.finish(); err != nil {
		return nil, err
	}
	watch["total"] = time.Since(start).Seconds() + st.reusedSeconds
	rep.Timing = watch
	return rep, nil
}

// selectAll makes all canary sets, [method][set], before any model is trained:
// bad canaries fail a game early.
func (g *Game) selectAll(ctx context.Context, st *store, watch map[string]float64) ([][]*audit.CanarySet, error) {
	sets := make([][]*audit.CanarySet, len(g.Selectors))
	m := g.NumCanaries
	for i, sel := range g.Selectors {
		for set := range g.Sets {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			g.tell(Progress{Stage: "select", Method: sel.Name(), Set: set})
			c, err := st.canaries(ctx, sel, g, set, watch)
			if err != nil {
				return nil, err
			}
			if m == 0 {
				m = c.Len()
			}
			if c.Len() != m {
				return nil, fmt.Errorf("%s canaries, set %d: %d of them, expected %d as in the other sets", sel.Name(), set, c.Len(), m)
			}
			sets[i] = append(sets[i], c)
		}
	}
	return sets, nil
}

// makeSet asks a selector for a canary set and checks what it gives.
func (g *Game) makeSet(ctx context.Context, sel audit.Selector, set int) (*audit.CanarySet, error) {
	c, err := sel.Select(ctx, g.Data, g.NumCanaries, set, g.Seed)
	if err == nil {
		want := g.NumCanaries
		if want == 0 {
			want = c.Len()
		}
		err = checkCanaries(c, g.Data, want)
	}
	if err != nil {
		return nil, fmt.Errorf("%s canaries, set %d: %w", sel.Name(), set, err)
	}
	return c, nil
}

// place is one unit of the game.
type place struct {
	Method string `json:"method"`
	Set    int    `json:"set"`
	Audit  int    `json:"audit"`
}

func (p place) String() string { return fmt.Sprintf("%s-set%d-audit%d", p.Method, p.Set, p.Audit) }

// unit takes one audit from the run directory or plays it.
func (g *Game) unit(ctx context.Context, st *store, c *audit.CanarySet, p place, done int, watch map[string]float64) (unitRecord, audit.Scores, error) {
	none := func(err error) (unitRecord, audit.Scores, error) { return unitRecord{}, audit.Scores{}, err }
	progress := Progress{Stage: "audit", Method: p.Method, Set: p.Set, Audit: p.Audit, Done: done, Total: len(g.Selectors) * g.Sets * g.Audits}
	u, reused, err := st.unit(p)
	if err != nil {
		return none(err)
	}
	var scores audit.Scores
	if reused {
		if scores, err = readScores(st.path(u.File)); err != nil {
			return none(err)
		}
	} else {
		if err := ctx.Err(); err != nil {
			return none(err)
		}
		g.tell(progress)
		if u, scores, err = g.play(ctx, st, c, p, progress); err != nil {
			return none(fmt.Errorf("audit %v: %w", p, err))
		}
	}
	watch["train"] += u.Seconds
	run := u.run()
	progress.Run, progress.Reused = &run, reused
	progress.Done++
	g.tell(progress)
	return u, scores, nil
}

// readScores reads a score file of the run directory. Its numbers read back as
// they were written, so that what is computed from them is the same.
func readScores(path string) (audit.Scores, error) {
	rows, err := scoreio.ReadScores(path)
	if err != nil {
		return audit.Scores{}, err
	}
	return scoreio.Scores(rows), nil
}

// timed adds to a report's timing what do takes.
func timed[T any](watch map[string]float64, stage string, do func() (T, error)) (T, error) {
	start := time.Now()
	v, err := do()
	watch[stage] += time.Since(start).Seconds()
	return v, err
}

// play trains one model and scores the canaries.
func (g *Game) play(ctx context.Context, st *store, c *audit.CanarySet, p place, progress Progress) (unitRecord, audit.Scores, error) {
	start := time.Now()
	in := coins(g.Seed, p.Set, p.Audit, c.Len())
	job := audit.Job{
		Seed:  rng.Seed(g.Seed, rng.Train, uint64(p.Set), uint64(p.Audit)),
		Train: newTrainingSet(g.Data, c, in), Canaries: c, Test: g.Test,
		State: st.stateFile(p), Model: st.modelFile(p),
	}
	if g.Progress != nil {
		job.Progress = func(step, steps int) {
			at := progress
			at.Step, at.Steps = step, steps
			g.tell(at)
		}
	}
	result, err := g.Trainer.Train(ctx, job)
	if err != nil {
		return unitRecord{}, audit.Scores{}, err
	}
	u, scores, err := judge(p, result, in)
	if err != nil {
		return unitRecord{}, audit.Scores{}, err
	}
	u.Seconds = time.Since(start).Seconds()
	u, err = st.finished(p, u, scores)
	return u, scores, err
}

// maxLoss keeps sums of squares of losses finite.
const maxLoss = 1e100

// judge turns losses and coins into scores and figures.
func judge(p place, result audit.Result, in []bool) (unitRecord, audit.Scores, error) {
	if len(result.Losses) != len(in) {
		return unitRecord{}, audit.Scores{}, fmt.Errorf("the trainer returned %d losses, expected one for each of %d canaries", len(result.Losses), len(in))
	}
	scores := audit.Scores{Value: make([]float64, len(in)), Member: in}
	u := unitRecord{place: p, Curve: result.Curve}
	if a := result.TestAccuracy; a < 0 || a > 1 {
		return unitRecord{}, audit.Scores{}, fmt.Errorf("the test accuracy is %v, expected a fraction from 0 to 1", a)
	}
	var sum [2]float64 // of losses outside and inside
	for i, loss := range result.Losses {
		if !(math.Abs(loss) <= maxLoss) { // NaN too
			return unitRecord{}, audit.Scores{}, fmt.Errorf("the loss of canary %d is %v, expected a finite number below %g: the training may have diverged", i, loss, maxLoss)
		}
		scores.Value[i] = -loss
		if in[i] {
			u.Members++
			sum[1] += loss
		} else {
			sum[0] += loss
		}
	}
	var err error
	if u.AUC, err = stats.AUC(scores); err != nil {
		return unitRecord{}, audit.Scores{}, err
	}
	if u.TPR, err = stats.TPRAtFPR(scores, fprNum, fprDen); err != nil {
		return unitRecord{}, audit.Scores{}, err
	}
	if u.Tied, err = stats.Tied(scores); err != nil {
		return unitRecord{}, audit.Scores{}, err
	}
	u.LossIn = sum[1] / float64(u.Members)
	u.LossOut = sum[0] / float64(len(in)-u.Members)
	if !math.IsNaN(result.TestAccuracy) {
		u.TestAccuracy = &result.TestAccuracy
	}
	return u, scores, nil
}

func (g *Game) tell(p Progress) {
	if g.Progress != nil {
		g.Progress(p)
	}
}

// header is the report without results.
func (g *Game) header() *audit.Report {
	r := g.Header
	r.Schema, r.Kind, r.Seed = audit.Schema, "onerun", g.Seed
	r.Examples, r.Sets, r.Audits = g.Data.Len(), g.Sets, g.Audits
	r.Delta = orDefault(r.Delta)
	r.Methods, r.Paired, r.Notes = nil, nil, slices.Clone(r.Notes)
	return &r
}

// tieNotes warns where more than one score in a hundred ties with another: then
// a figure near chance says little.
func tieNotes(method string, canaries int, units []unitRecord) []string {
	tied, all := 0, canaries*len(units)
	for _, u := range units {
		tied += u.Tied
	}
	if tied*100 <= all {
		return nil
	}
	return []string{fmt.Sprintf("Of %d scores of %s canaries, %d equal that of another canary in the same audit. Such ties hide leakage: losses may have been rounded, or canaries may be the same.", all, method, tied)}
}

// method sums up the audits of one method.
func method(name string, units []unitRecord) (audit.Method, error) {
	m := audit.Method{Name: name}
	sets := make([]int, len(units))
	bounds := make([][]AuditBound, len(units))
	measured := true
	for i, u := range units {
		sets[i], bounds[i] = u.Set, u.bounds
		measured = measured && u.TestAccuracy != nil
		m.Runs = append(m.Runs, u.run())
	}
	type summarize func(values []float64, sets []int) (audit.Summary, error)
	summary := func(of summarize, figure func(unitRecord) float64) (audit.Summary, error) {
		values := make([]float64, len(units))
		for i, u := range units {
			values[i] = figure(u)
		}
		return of(values, sets)
	}
	var err error
	for _, f := range []struct {
		to     *audit.Summary
		of     summarize
		figure func(unitRecord) float64
	}{
		{&m.AUC, stats.SummarizeRate, func(u unitRecord) float64 { return u.AUC }},
		{&m.TPR, stats.SummarizeRate, func(u unitRecord) float64 { return u.TPR }},
		{&m.LossIn, stats.Summarize, func(u unitRecord) float64 { return u.LossIn }},
		{&m.LossOut, stats.Summarize, func(u unitRecord) float64 { return u.LossOut }},
	} {
		if *f.to, err = summary(f.of, f.figure); err != nil {
			return audit.Method{}, err
		}
	}
	if m.Bounds, err = SummarizeBounds(bounds, sets); err != nil {
		return audit.Method{}, err
	}
	if measured {
		acc, err := summary(stats.SummarizeRate, func(u unitRecord) float64 { return *u.TestAccuracy })
		if err != nil {
			return audit.Method{}, err
		}
		m.TestAccuracy = &acc
	}
	return m, nil
}
