package onerun

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// Plan is a game of one method whose models somebody else trains. Its
// directory holds
//
//	plan.json                    this, written last
//	members.csv                  the coins: set,audit,canary,member
//	canaries/METHOD-setK.npz     see scoreio.WriteCanaries
//	train/setK-auditJ.csv        what to change in the training data: action,index
//
// The rows of a train file are "leave_out,I" for each example I of the data
// that a canary displaces, and "add,C" for each canary C whose coin says in.
// Whoever trains needs these files and the canaries, and returns one loss per
// set, audit and canary; members.csv is for the analysis and should stay with
// whoever does it.
type Plan struct {
	Schema      string `json:"schema"`
	ID          string `json:"id"` // hash of all other fields
	Method      string `json:"method"`
	Seed        uint64 `json:"seed"`
	NumCanaries int    `json:"num_canaries"`
	Sets        int    `json:"sets"`
	Audits      int    `json:"audits"`
	Examples    int    `json:"examples"`
	DataSHA256  string `json:"data_sha256"`
	// Of the report's header.
	Data      string   `json:"data"`
	Model     string   `json:"model"`
	Recipe    string   `json:"recipe"`
	Delta     float64  `json:"delta,omitempty"`
	Accounted *float64 `json:"accounted_epsilon,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	// Files maps each file of the plan to its SHA-256.
	Files map[string]string `json:"files"`
}

const (
	planSchema  = "aviary/plan/1"
	planName    = "plan.json"
	membersName = "members.csv"
)

// WritePlan draws the coins of g, which needs one selector and no trainer, and
// writes the plan to g.Dir. A directory that holds a plan or a game is refused.
func (g Game) WritePlan(ctx context.Context) (*Plan, error) {
	g.Trainer = noTrainer{}
	if err := g.check(); err != nil {
		return nil, err
	}
	if len(g.Selectors) != 1 {
		return nil, fmt.Errorf("plan: %d methods, expected one: make one plan per method", len(g.Selectors))
	}
	if g.Dir == "" {
		return nil, errors.New("plan: no directory given")
	}
	for _, name := range []string{planName, journalName} {
		if _, err := os.Stat(filepath.Join(g.Dir, name)); err == nil {
			return nil, fmt.Errorf("%s holds %s already; choose another directory", g.Dir, name)
		}
	}
	for _, sub := range []string{"canaries", "train"} {
		if err := atomicfile.MkdirAll(filepath.Join(g.Dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	p := &Plan{
		Schema: planSchema, Method: g.Selectors[0].Name(), Seed: g.Seed, NumCanaries: g.NumCanaries,
		Sets: g.Sets, Audits: g.Audits, Examples: g.Data.Len(), DataSHA256: Digest(g.Data),
		Data: g.Header.Data, Model: g.Header.Model, Recipe: g.Header.Recipe,
		Delta: g.Header.Delta, Accounted: g.Header.Accounted, Notes: g.Header.Notes,
		Files: map[string]string{},
	}
	if err := p.writeAll(ctx, &g); err != nil {
		p.removeAll(g.Dir)
		return nil, err
	}
	return p, nil
}

// writeAll writes the files of the plan, and notes each in Files.
func (p *Plan) writeAll(ctx context.Context, g *Game) error {
	st := &store{dir: g.Dir, files: g.files}
	for set := range g.Sets {
		if err := p.writeSet(ctx, g, st, set); err != nil {
			return err
		}
	}
	if err := p.write(st, membersName, p.members()); err != nil {
		return err
	}
	p.ID = p.id()
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return g.files.WriteBytes(filepath.Join(g.Dir, planName), 0o644, append(text, '\n'))
}

// removeAll removes what there is of a plan that could not be finished. What
// else is in the folders stays, and so do they then.
func (p *Plan) removeAll(dir string) {
	for name := range p.Files {
		os.Remove(filepath.Join(dir, filepath.FromSlash(name)))
	}
	for _, folder := range []string{"canaries", "train", ""} {
		os.Remove(filepath.Join(dir, folder)) // fails where it is not empty
	}
}

// noTrainer stands where a plan has none.
type noTrainer struct{}

func (noTrainer) Train(context.Context, audit.Job) (audit.Result, error) {
	return audit.Result{}, errors.New("plan: no trainer")
}

// writeSet writes the canaries of one set and the changes for its audits.
func (p *Plan) writeSet(ctx context.Context, g *Game, st *store, set int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.tell(Progress{Stage: "select", Method: p.Method, Set: set})
	c, err := g.makeSet(ctx, g.Selectors[0], set)
	if err != nil {
		return err
	}
	if p.NumCanaries == 0 {
		p.NumCanaries = c.Len()
	}
	if c.Len() != p.NumCanaries {
		return fmt.Errorf("%s canaries, set %d: %d of them, expected %d as in the other sets", p.Method, set, c.Len(), p.NumCanaries)
	}
	name := fmt.Sprintf("canaries/%s-set%d.npz", p.Method, set)
	if p.Files[name], err = st.write(name, "", func(w io.Writer) error { return scoreio.WriteCanaries(w, c) }); err != nil {
		return err
	}
	for aud := range p.Audits {
		in := coins(p.Seed, set, aud, c.Len())
		if err := p.write(st, fmt.Sprintf("train/set%d-audit%d.csv", set, aud), changes(c, in)); err != nil {
			return err
		}
	}
	return nil
}

// changes is a train file.
func changes(c *audit.CanarySet, in []bool) []byte {
	displaced := slices.Clone(c.Removed)
	slices.Sort(displaced)
	b := []byte("action,index\n")
	for _, e := range displaced {
		if e >= 0 {
			b = fmt.Appendf(b, "leave_out,%d\n", e)
		}
	}
	for i, isIn := range in {
		if isIn {
			b = fmt.Appendf(b, "add,%d\n", i)
		}
	}
	return b
}

func (p *Plan) write(st *store, name string, data []byte) (err error) {
	p.Files[name], err = st.write(name, "", func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	return err
}

// members is members.csv, which follows from the seed.
func (p *Plan) members() []byte {
	b := []byte("set,audit,canary,member\n")
	for set := range p.Sets {
		for aud := range p.Audits {
			for i, in := range coins(p.Seed, set, aud, p.NumCanaries) {
				member := 0
				if in {
					member = 1
				}
				b = fmt.Appendf(b, "%d,%d,%d,%d\n", set, aud, i, member)
			}
		}
	}
	return b
}

// id is the first 64 bits of the SHA-256 of the plan without its ID.
func (p *Plan) id() string {
	q := *p
	q.ID = ""
	text, err := json.Marshal(q)
	if err != nil {
		panic(err) // strings, numbers and a map of strings always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// ReadPlan reads the plan of a directory and checks that it is whole: that
// nothing in plan.json was changed, and that members.csv belongs to it.
func ReadPlan(dir string) (*Plan, error) {
	path := filepath.Join(dir, planName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: no %s; expected a directory that a plan was written to", dir, planName)
	}
	if err != nil {
		return nil, err
	}
	p := &Plan{}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if p.Schema != planSchema {
		return nil, fmt.Errorf("%s: schema is %q, expected %q", path, p.Schema, planSchema)
	}
	if got := p.id(); got != p.ID {
		return nil, fmt.Errorf("%s: id is %q, expected %q from its contents: it was changed after it was written", path, p.ID, got)
	}
	members := filepath.Join(dir, membersName)
	kept, err := os.ReadFile(members)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(kept, p.members()) {
		return nil, fmt.Errorf("%s: not the coins of plan %s: it was changed, or belongs to another plan", members, p.ID)
	}
	return p, nil
}

// ScorePlan takes the losses of a plan's models back (see scoreio.ReadLosses),
// writes the scores to dir/scores, and reports. Every set, audit and canary of
// the plan must be there once, and nothing else.
func ScorePlan(dir, losses string) (*audit.Report, error) {
	start := time.Now()
	p, err := ReadPlan(dir)
	if err != nil {
		return nil, err
	}
	rows, err := scoreio.ReadLosses(losses)
	if err != nil {
		return nil, err
	}
	results, err := p.results(losses, rows)
	if err != nil {
		return nil, err
	}
	bounder, err := NewBounder(p.Delta)
	if err != nil {
		return nil, err
	}
	var units []unitRecord
	var scores []audit.Scores
	for set := range p.Sets {
		for aud := range p.Audits {
			at := place{p.Method, set, aud}
			u, s, err := judge(at, results[[2]int{set, aud}], coins(p.Seed, set, aud, p.NumCanaries))
			if err == nil {
				u.bounds, err = bounder.Bound(s)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: audit %v: %w", losses, at, err)
			}
			units, scores = append(units, u), append(scores, s)
		}
	}
	// All losses are good: only now are earlier scores replaced.
	if err := atomicfile.MkdirAll(filepath.Join(dir, "scores"), 0o755); err != nil {
		return nil, err
	}
	st := &store{dir: dir}
	for i, u := range units {
		if units[i], err = st.finished(u.place, u, scores[i]); err != nil {
			return nil, err
		}
	}
	m, err := method(p.Method, units)
	if err != nil {
		return nil, err
	}
	return &audit.Report{
		Schema: audit.Schema, Kind: "onerun", Seed: p.Seed, Data: p.Data, Model: p.Model, Recipe: p.Recipe,
		Notes:    append(slices.Clone(p.Notes), tieNotes(p.Method, p.NumCanaries, units)...),
		Examples: p.Examples, Canaries: p.NumCanaries, Sets: p.Sets, Audits: p.Audits,
		Delta: orDefault(p.Delta), Accounted: p.Accounted, Methods: []audit.Method{m},
		Timing: map[string]float64{"total": time.Since(start).Seconds()},
	}, nil
}

// results sorts the rows of a losses file into the plan's audits.
func (p *Plan) results(path string, rows []scoreio.Loss) (map[[2]int]audit.Result, error) {
	results := map[[2]int]audit.Result{}
	missing := p.Sets * p.Audits * p.NumCanaries
	have := make([]bool, missing)
	for i, r := range rows {
		if r.Plan != "" && r.Plan != p.ID {
			return nil, fmt.Errorf("%s: row %d: losses of plan %s, expected plan %s", path, i, r.Plan, p.ID)
		}
		if r.Set >= p.Sets || r.Audit >= p.Audits || r.Canary >= p.NumCanaries {
			return nil, fmt.Errorf("%s: row %d: set %d, audit %d, canary %d; plan %s has %d sets, %d audits and %d canaries, numbered from 0: losses of another plan?",
				path, i, r.Set, r.Audit, r.Canary, p.ID, p.Sets, p.Audits, p.NumCanaries)
		}
		key := [2]int{r.Set, r.Audit}
		if results[key].Losses == nil {
			results[key] = audit.Result{Losses: make([]float64, p.NumCanaries), TestAccuracy: nan}
		}
		results[key].Losses[r.Canary] = r.Loss
		have[(r.Set*p.Audits+r.Audit)*p.NumCanaries+r.Canary] = true // ReadLosses refuses duplicates
		missing--
	}
	if missing > 0 {
		i := slices.Index(have, false)
		unit := i / p.NumCanaries
		return nil, fmt.Errorf("%s: %d losses are missing, the first for set %d, audit %d, canary %d", path, missing, unit/p.Audits, unit%p.Audits, i%p.NumCanaries)
	}
	return results, nil
}
