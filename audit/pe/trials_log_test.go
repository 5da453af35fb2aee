package pe

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTrialLog: an audit that was stopped, and one in shards, end with the counts of
// one that ran at once.
func TestTrialLog(t *testing.T) {
	a := synthetic(t, 2)
	v, err := VariantsNamed([]string{"nonce", "exact"})
	if err != nil {
		t.Fatal(err)
	}
	a.Variants, a.Protocol.Trials = v, 4*Block+1
	l, d, err := a.Lock(t.Context(), "v", ExactLock)
	if err != nil {
		t.Fatal(err)
	}
	tallies := func(r *Result) (list []Tally) {
		for _, at := range r.Attacks {
			for _, c := range at.Canaries {
				list = append(list, c.Tallies...)
			}
		}
		return list
	}
	want, err := a.Test(t.Context(), d, l, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	open := func(name string, shard, shards int) *TrialLog {
		t.Helper()
		log, err := OpenTrialLog(filepath.Join(dir, name), l, shard, shards)
		if err != nil {
			t.Fatal(err)
		}
		return log
	}
	// Stopped in the third experiment.
	log := open("whole", 0, 1)
	full := errors.New("stopped")
	run := 0
	_, err = a.Test(t.Context(), d, l, stopping{log, func(experiment int) error {
		if run++; experiment == 2 {
			return full
		}
		return nil
	}})
	if !errors.Is(err, full) {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	log = open("whole", 0, 1)
	before := run
	got, err := a.Test(t.Context(), d, l, stopping{log, func(int) error { run++; return nil }})
	if err != nil || !slices.Equal(tallies(got), tallies(want)) {
		t.Errorf("resumed: %v, %v; expected %v", got, err, want)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if again := run - before; before < 10 || again < 5 || again > 10 {
		t.Errorf("%d blocks of 20 before the stop, %d after", before, again)
	}
	// Three shards, of which the last puts all together.
	for s := range 3 {
		log := open(fmt.Sprint("shard", s), s, 3)
		if _, err := a.Test(t.Context(), d, l, log); !errors.Is(err, ErrOtherShards) {
			t.Errorf("shard %d: %v", s, err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
	log = open("shard2", 2, 3)
	for s := range 2 {
		if err := log.Add(filepath.Join(dir, fmt.Sprint("shard", s))); err != nil {
			t.Fatal(err)
		}
	}
	got, err = a.Test(t.Context(), d, l, log)
	if err != nil || !slices.Equal(tallies(got), tallies(want)) {
		t.Errorf("shards: %v, %v; expected %v", got, err, want)
	}
	// What does not belong together.
	if err := log.add([]loggedBlock{{0, 0, []Counts{{1, 2}}}}); err == nil || !strings.Contains(err.Error(), "block 0 of experiment 0") {
		t.Errorf("other counts of a block: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	other := *l
	other.Seed++
	if _, err := OpenTrialLog(filepath.Join(dir, "whole"), &other, 0, 1); err == nil {
		t.Error("a log of another lock was opened")
	}
	if _, err := OpenTrialLog(filepath.Join(dir, "none"), l, 3, 3); err == nil || !strings.Contains(err.Error(), "shard 3 of 3") {
		t.Errorf("%v", err)
	}
}

// stopping is a log whose blocks are told of first.
type stopping struct {
	*TrialLog
	told func(experiment int) error
}

func (s stopping) Run(experiment int) Run {
	r := s.TrialLog.Run(experiment)
	keep := r.Keep
	r.Keep = func(block int, c []Counts) error {
		if err := keep(block, c); err != nil {
			return err
		}
		return s.told(experiment)
	}
	return r
}

// TestTestNeedsItsLock: before a test user is read, a lock that is missing or of
// other probes, thresholds or mechanism is refused.
func TestTestNeedsItsLock(t *testing.T) {
	a := synthetic(t, 2)
	v, err := VariantsNamed([]string{"nonce"})
	if err != nil {
		t.Fatal(err)
	}
	a.Variants, a.Protocol.Trials = v, 1000
	l, d, err := a.Lock(t.Context(), "v", ExactLock)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	a.Users.X = watched{a.Users.X, func(int) { seen++ }}
	for what, change := range map[string]func(l *Lock){
		"threshold": func(l *Lock) { l.Attacks[0].Prefixes[0].Thresholds[0].Tau += .1 },
		"probes":    func(l *Lock) { l.Attacks[1].Probes = "00" },
		"mechanism": func(l *Lock) { l.Mechanism.Noise = 3 },
		"number of": func(l *Lock) { l.Attacks = l.Attacks[:1] },
	} {
		other := *l
		other.Attacks = slices.Clone(l.Attacks)
		for i := range other.Attacks {
			p := slices.Clone(l.Attacks[i].Prefixes)
			p[0].Thresholds = slices.Clone(p[0].Thresholds)
			other.Attacks[i].Prefixes = p
		}
		change(&other)
		if _, err := a.Test(t.Context(), d, &other, nil); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("another %s: %v", what, err)
		}
	}
	if _, err := a.Test(t.Context(), d, nil, nil); err == nil {
		t.Error("a test without a lock")
	}
	if seen > 0 {
		t.Errorf("%d records were read", seen)
	}
	if _, err := a.Test(t.Context(), d, l, nil); err != nil || seen == 0 {
		t.Errorf("%v, %d records read", err, seen)
	}
}
