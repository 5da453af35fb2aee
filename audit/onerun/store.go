package onerun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/journal"
)

// The run directory, as far as the game writes it:
//
//	journal.jsonl                        what is finished, one record a line
//	canaries/METHOD-setK.npz
//	scores/METHOD-setK-auditJ.csv
//	models/METHOD-setK-auditJ.npz        if models are kept
//	state/METHOD-setK-auditJ.state       of the audit that is running
//
// A file is written before the record that names it and its SHA-256. A kill in
// between leaves a file that no record names, and the work is done again. A
// file that a record names and that is gone is made again too; one whose bytes
// have changed is an error, for overwriting it might destroy what somebody
// wants to keep, and believing it would be worse.
const journalName = "journal.jsonl"

// store is a game's run directory, or nothing if dir is "".
type store struct {
	dir           string
	files         atomicfile.Options
	log           *journal.Journal[record]
	sets          map[place]canariesRecord // Audit is 0
	units         map[place]unitRecord
	models        bool
	reusedSeconds float64
}

// openStore makes or reopens the run directory of g.
func openStore(g *Game) (*store, error) {
	st := &store{dir: g.Dir, files: g.files, models: g.KeepModels, sets: map[place]canariesRecord{}, units: map[place]unitRecord{}}
	if g.Dir == "" {
		return st, nil
	}
	path := filepath.Join(g.Dir, journalName)
	if _, err := os.Stat(path); err == nil && !g.Resume {
		return nil, fmt.Errorf("%s holds a game already; resume it, or choose another directory", g.Dir)
	}
	for _, folder := range st.folders() {
		if err := atomicfile.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	log, err := journal.Open[record](path, journalFormat)
	if err != nil {
		return nil, err
	}
	st.log = log
	if log.Dropped() != "" {
		g.tell(Progress{Note: log.Dropped()})
	}
	if err := st.replay(path, g); err != nil {
		st.close()
		return nil, err
	}
	return st, nil
}

// replay takes the journal's records in, or begins it.
func (st *store) replay(path string, g *Game) error {
	this := gameRecord{
		Seed: g.Seed, NumCanaries: g.NumCanaries, Sets: g.Sets, Audits: g.Audits,
		Model: g.Header.Model, Recipe: g.Header.Recipe, Device: g.Header.Device,
		Data: Digest(g.Data), Test: Digest(g.Test), Models: g.KeepModels,
	}
	for _, s := range g.Selectors {
		this.Methods = append(this.Methods, s.Name())
	}
	records := st.log.Records()
	if len(records) == 0 {
		return st.append(record{Game: &this})
	}
	if records[0].Game == nil {
		return fmt.Errorf("%s: the first record does not describe a game", path)
	}
	if err := records[0].Game.differs(this); err != nil {
		return fmt.Errorf("%s: this game cannot be resumed with other settings: %w", path, err)
	}
	for _, r := range records {
		switch {
		case r.Canaries != nil:
			st.sets[place{Method: r.Canaries.Method, Set: r.Canaries.Set}] = *r.Canaries
		case r.Unit != nil:
			st.units[r.Unit.place] = *r.Unit
		}
	}
	for _, folder := range append(st.folders(), st.dir) { // what a kill may have left
		if err := atomicfile.RemoveTemp(folder); err != nil {
			return err
		}
	}
	return nil
}

// folders are those that the game writes to.
func (st *store) folders() []string {
	all := []string{st.path("canaries"), st.path("scores"), st.path("state")}
	if st.models {
		all = append(all, st.path("models"))
	}
	return all
}

func (st *store) append(r record) error {
	if st.log == nil {
		return nil
	}
	return st.log.Append(r)
}

func (st *store) close() {
	if st.log != nil {
		st.log.Close()
	}
}

// finish drops the training states, which are of no use any more.
func (st *store) finish() error {
	if st.dir == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(st.dir, "state"))
}

func (st *store) path(name string) string { return filepath.Join(st.dir, filepath.FromSlash(name)) }

func (st *store) stateFile(p place) string {
	if st.dir == "" {
		return ""
	}
	return st.path("state/" + p.String() + ".state")
}

func (st *store) modelFile(p place) string {
	if st.dir == "" || !st.models {
		return ""
	}
	return st.path("models/" + p.String() + ".npz")
}

// intact says whether a file that the journal names is there. Changed bytes
// are an error.
func (st *store) intact(name, sum string) (bool, error) {
	path := st.path(name)
	got, err := atomicfile.Sum(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if got != sum {
		return false, fmt.Errorf("%s has changed since it was written: SHA-256 is %s, expected %s as in %s; move it away to have it made again", path, got, sum, journalName)
	}
	return true, nil
}

// canaries reads a canary set from the run directory, or has it made and
// keeps it.
func (st *store) canaries(ctx context.Context, sel audit.Selector, g *Game, set int, watch map[string]float64) (*audit.CanarySet, error) {
	name := fmt.Sprintf("canaries/%s-set%d.npz", sel.Name(), set)
	before, known := st.sets[place{Method: sel.Name(), Set: set}]
	if r := before; known {
		if ok, err := st.intact(r.File, r.SHA256); err != nil {
			return nil, err
		} else if ok {
			if file, isFile := sel.(*fromFile); isFile {
				if err := file.unchanged(ctx, g, set, r.SHA256); err != nil {
					return nil, err
				}
			}
			st.reusedSeconds += r.Seconds
			watch["canaries"] += r.Seconds
			addStages(watch, r.Stages)
			read, err := scoreio.ReadCanaries(st.path(r.File), g.Data, sel.Name())
			if err != nil {
				return nil, err
			}
			return read[0], nil
		}
	}
	start := time.Now()
	c, err := g.makeSet(ctx, sel, set)
	if err != nil {
		return nil, err
	}
	seconds := time.Since(start).Seconds()
	watch["canaries"] += seconds
	var stages map[string]float64
	if s, ok := sel.(Staged); ok {
		stages = s.Seconds(set)
	}
	addStages(watch, stages)
	if st.dir == "" {
		return c, nil
	}
	sum, err := st.write(name, before.SHA256, func(w io.Writer) error { return scoreio.WriteCanaries(w, c) })
	if err != nil {
		return nil, err
	}
	return c, st.append(record{Canaries: &canariesRecord{Method: sel.Name(), Set: set, File: name, SHA256: sum, Seconds: seconds, Stages: stages}})
}

// Staged is a selector that tells how long, in seconds, each stage of a set that
// it made took. Reports hold the sums beside the whole.
type Staged interface {
	Seconds(set int) map[string]float64
}

// addStages adds to a report's timing.
func addStages(watch, stages map[string]float64) {
	for stage, s := range stages {
		watch["canaries: "+stage] += s
	}
}

// unit finds a finished audit whose score file is intact.
func (st *store) unit(p place) (u unitRecord, ok bool, err error) {
	u, ok = st.units[p]
	if !ok {
		return unitRecord{}, false, nil
	}
	if ok, err = st.intact(u.File, u.SHA256); err != nil || !ok {
		return unitRecord{}, false, err
	}
	st.reusedSeconds += u.Seconds
	return u, true, st.dropState(p)
}

// finished keeps the scores of an audit and its record, and drops the state
// of its training.
func (st *store) finished(p place, u unitRecord, scores audit.Scores) (unitRecord, error) {
	if st.dir == "" {
		return u, nil
	}
	u.File = "scores/" + p.String() + ".csv"
	var err error
	u.SHA256, err = st.write(u.File, st.units[p].SHA256, func(w io.Writer) error {
		return scoreio.WriteScoresCSV(w, scoreio.Rows(p.Set, p.Audit, scores))
	})
	if err != nil {
		return unitRecord{}, err
	}
	if err := st.append(record{Unit: &u}); err != nil {
		return unitRecord{}, err
	}
	return u, st.dropState(p)
}

// dropState removes what a training kept in order to be resumed.
func (st *store) dropState(p place) error {
	if err := os.Remove(st.stateFile(p)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write writes a file of the run directory and returns its SHA-256. want is
// that of the same file in an earlier session, "" if there was none: what is
// made again must come out the same.
func (st *store) write(name, want string, fill func(io.Writer) error) (string, error) {
	h := sha256.New()
	err := st.files.Write(st.path(name), 0o644, func(w io.Writer) error {
		if err := fill(io.MultiWriter(w, h)); err != nil {
			return err
		}
		if got := hex.EncodeToString(h.Sum(nil)); want != "" && got != want {
			return fmt.Errorf("made again, it differs: SHA-256 is %s, expected %s as in %s", got, want, journalName)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
