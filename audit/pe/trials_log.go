package pe

import (
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/aviary-audit/aviary/internal/journal"
)

// TrialLog keeps the counts of finished blocks in a file, so that trials go on where
// they were stopped, and those of shards that ran elsewhere are added up. It holds
// whole numbers only, and belongs to one lock.
type TrialLog struct {
	file          *journal.Journal[[]loggedBlock]
	config        string
	done          map[int]map[int][]Counts // by experiment and block
	pending       []loggedBlock
	saved         time.Time
	shard, shards int
}

// loggedBlock is one line's entry.
type loggedBlock struct {
	Experiment int      `json:"experiment"`
	Block      int      `json:"block"`
	Counts     []Counts `json:"counts"` // in the order of the locked thresholds
}

// OpenTrialLog opens the log at path, or makes it, for the trials of a lock: blocks ≡
// shard modulo shards are run here, all with shards = 1. A log of another lock is an
// error.
func OpenTrialLog(path string, l *Lock, shard, shards int) (*TrialLog, error) {
	if shards < 1 || shard < 0 || shard >= shards {
		return nil, fmt.Errorf("pe: shard %d of %d, expected one from 0 to %d", shard, shards, shards-1)
	}
	config, err := l.Digest()
	if err != nil {
		return nil, err
	}
	log := &TrialLog{config: config, done: map[int]map[int][]Counts{}, saved: time.Now(), shard: shard, shards: shards}
	if log.file, err = journal.Open[[]loggedBlock](path, config); err != nil {
		return nil, err
	}
	for _, line := range log.file.Records() {
		if err := log.add(line); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return log, nil
}

// Add takes in the blocks of another log of the same lock, as another shard wrote it.
func (t *TrialLog) Add(path string) error {
	if _, err := os.Stat(path); err != nil { // a journal that is not there would be made
		return err
	}
	other, err := journal.Open[[]loggedBlock](path, t.config)
	if err != nil {
		return err
	}
	for _, line := range other.Records() {
		if err := t.add(line); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return other.Close()
}

func (t *TrialLog) add(line []loggedBlock) error {
	for _, b := range line {
		of := t.done[b.Experiment]
		if of == nil {
			of = map[int][]Counts{}
			t.done[b.Experiment] = of
		}
		if known, twice := of[b.Block]; twice && !slices.Equal(known, b.Counts) {
			return fmt.Errorf("pe: block %d of experiment %d has counts %v, and elsewhere %v", b.Block, b.Experiment, b.Counts, known)
		}
		of[b.Block] = b.Counts
	}
	return nil
}

// Run implements Counted.
func (t *TrialLog) Run(experiment int) Run {
	return Run{Done: t.done[experiment], Shard: t.shard, Shards: t.shards, Finish: t.flush,
		Keep: func(block int, c []Counts) error {
			t.pending = append(t.pending, loggedBlock{experiment, block, c})
			// A line is on the disk when it is written, which takes longer than a block
			// of trials may.
			if time.Since(t.saved) < time.Second {
				return nil
			}
			return t.flush()
		}}
}

func (t *TrialLog) flush() error {
	if len(t.pending) == 0 {
		return nil
	}
	// In order, whatever the threads did first.
	slices.SortFunc(t.pending, func(a, b loggedBlock) int { return a.Block - b.Block })
	if err := t.file.Append(t.pending); err != nil {
		return err
	}
	t.pending, t.saved = nil, time.Now()
	return nil
}

// Close closes the file.
func (t *TrialLog) Close() error {
	if err := t.flush(); err != nil {
		return err
	}
	return t.file.Close()
}
