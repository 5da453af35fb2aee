package multirun

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/journal"
)

// The folder of a job:
//
//	journal.jsonl        the job, then what is finished, one trial a line
//	state/trialN.state   of the trial that is running
//
// The journal holds nothing that depends on time or shards, so that of a merged
// job has the bytes of that of one that was done in one place.
const journalName, journalFormat = "journal.jsonl", "multirun/1"

// Design is the plan of a job as journals hold it; exactly one field is set.
type Design struct {
	Worlds       *Worlds       `json:"worlds,omitempty"`
	Interference *Interference `json:"interference,omitempty"`
}

// Plan is the one that is set, if its numbers can be used.
func (d Design) Plan() (Plan, error) {
	switch {
	case d.Worlds != nil && d.Interference == nil:
		return *d.Worlds, d.Worlds.check()
	case d.Interference != nil && d.Worlds == nil:
		return *d.Interference, d.Interference.check()
	}
	return nil, fmt.Errorf("multirun: expected a design of two worlds or of interference")
}

func (d Design) String() string {
	switch {
	case d.Worlds != nil:
		return fmt.Sprintf("two worlds %+v", *d.Worlds)
	case d.Interference != nil:
		return fmt.Sprintf("interference %+v", *d.Interference)
	}
	return "none"
}

// record is one line of the journal. The first has Job, all others Trial.
type record struct {
	Job   *jobRecord   `json:"job,omitempty"`
	Trial *trialRecord `json:"trial,omitempty"`
}

type trialRecord struct {
	Index  int       `json:"index"`
	Losses []float64 `json:"losses"` // of the watched canaries
}

// jobRecord pins what must not change.
type jobRecord struct {
	Design   Design `json:"design"`
	Model    string `json:"model"`
	Recipe   string `json:"recipe"`
	Device   string `json:"device"`
	Data     string `json:"data_sha256"`
	Canaries string `json:"canaries_sha256"`
}

func (j *Job) record() (jobRecord, error) {
	sum, err := digest(j.Canaries)
	return jobRecord{j.Design, j.Model, j.Recipe, j.Device, onerun.Digest(j.Data), sum}, err
}

// digest is the SHA-256 of a canary set as files hold it.
func digest(c *audit.CanarySet) (string, error) {
	h := sha256.New()
	err := scoreio.WriteCanaries(h, c)
	return hex.EncodeToString(h.Sum(nil)), err
}

// differs names the first setting in which two jobs differ.
func (a jobRecord) differs(b jobRecord) error {
	for _, f := range []struct{ name, before, now string }{
		{"design", a.Design.String(), b.Design.String()},
		{"model", a.Model, b.Model},
		{"recipe", a.Recipe, b.Recipe},
		{"device", a.Device, b.Device},
		{"training data (SHA-256)", a.Data, b.Data},
		{"canaries (SHA-256)", a.Canaries, b.Canaries},
	} {
		if f.before != f.now {
			return fmt.Errorf("%s was %s, now %s", f.name, f.before, f.now)
		}
	}
	return nil
}

// store is an open job folder.
type store struct {
	dir    string
	log    *journal.Journal[record]
	losses [][]float64 // by trial; nil of those that are not done
}

func (j *Job) open() (*store, error) {
	path := filepath.Join(j.Dir, journalName)
	if _, err := os.Stat(path); err == nil && !j.Resume {
		return nil, fmt.Errorf("%s holds a job already; resume it, or choose another directory", j.Dir)
	}
	now, err := j.record()
	if err != nil {
		return nil, err
	}
	if err := atomicfile.MkdirAll(filepath.Join(j.Dir, "state"), 0o755); err != nil {
		return nil, err
	}
	log, err := journal.Open[record](path, journalFormat)
	if err != nil {
		return nil, err
	}
	st := &store{dir: j.Dir, log: log}
	if log.Dropped() != "" {
		j.tell(Progress{Note: log.Dropped()})
	}
	if err := st.replay(path, now); err != nil {
		st.close()
		return nil, err
	}
	return st, nil
}

// replay takes the journal's records in, or begins it.
func (st *store) replay(path string, now jobRecord) error {
	records := st.log.Records()
	if len(records) == 0 {
		records = []record{{Job: &now}}
		if err := st.log.Append(records[0]); err != nil {
			return err
		}
	}
	before, losses, err := replay(path, records)
	if err != nil {
		return err
	}
	if err := before.differs(now); err != nil {
		return fmt.Errorf("%s: this job cannot go on with other settings: %w", path, err)
	}
	st.losses = losses
	return atomicfile.RemoveTemp(filepath.Join(st.dir, "state")) // what a kill may have left
}

// replay checks the records of the journal at path.
func replay(path string, records []record) (jobRecord, [][]float64, error) {
	fail := func(format string, args ...any) (jobRecord, [][]float64, error) {
		return jobRecord{}, nil, fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...))
	}
	if len(records) == 0 || records[0].Job == nil {
		return fail("the first record does not describe a job of several runs")
	}
	job := *records[0].Job
	plan, err := job.Design.Plan()
	if err != nil {
		return fail("%w", err)
	}
	losses := make([][]float64, len(plan.Trials()))
	watched := len(plan.Watched())
	for i, r := range records[1:] {
		t := r.Trial
		switch {
		case t == nil:
			return fail("record %d is not of a trial", i+1)
		case t.Index < 0 || t.Index >= len(losses):
			return fail("record %d is of trial %d, expected one from 0 to %d", i+1, t.Index, len(losses)-1)
		case losses[t.Index] != nil:
			return fail("record %d: trial %d is there twice", i+1, t.Index)
		case len(t.Losses) != watched:
			return fail("trial %d has %d losses, expected %d", t.Index, len(t.Losses), watched)
		}
		for _, l := range t.Losses {
			if !(math.Abs(l) <= maxLoss) {
				return fail("trial %d has the loss %v, expected a finite number below %g", t.Index, l, maxLoss)
			}
		}
		losses[t.Index] = t.Losses
	}
	return job, losses, nil
}

func (st *store) close() { st.log.Close() }

func (st *store) stateFile(trial int) string {
	return filepath.Join(st.dir, "state", fmt.Sprintf("trial%d.state", trial))
}

// finished keeps the losses of a trial and drops the state of its training.
func (st *store) finished(trial int, losses []float64) error {
	if err := st.log.Append(record{Trial: &trialRecord{trial, losses}}); err != nil {
		return err
	}
	st.losses[trial] = losses
	if err := os.Remove(st.stateFile(trial)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
