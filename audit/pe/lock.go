package pe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/aviary-audit/aviary/audit/mechanism"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// Lock is all that is decided before a test user is looked at: probes, thresholds,
// and the hashes of what they were decided on.
type Lock struct {
	Schema    string              `json:"schema"`
	Version   string              `json:"version"` // of the program
	Seed      uint64              `json:"seed"`
	Bank      string              `json:"bank_sha256"`
	Users     string              `json:"users_sha256"` // embeddings of all users but the test users
	Mechanism mechanism.Histogram `json:"mechanism"`
	Protocol  Protocol            `json:"protocol"`
	Eligible  int                 `json:"eligible_users"`
	Rule      string              `json:"threshold_rule"`
	Split     Split               `json:"split"`
	Attacks   []Locked            `json:"attacks"`
}

const lockSchema = "aviary/pe-lock/2"

// Locked is one experiment as it was locked.
type Locked struct {
	Experiment
	Probes string `json:"probes_sha256"`
	Decision
}

// Lock designs all experiments on the auxiliary users, and locks their thresholds
// on the calibration users. It reads no test user.
func (a *Audit) Lock(ctx context.Context, version, rule string) (*Lock, *Design, error) {
	if err := a.Check(); err != nil {
		return nil, nil, err
	}
	if err := a.game(rule).Check(); err != nil {
		return nil, nil, err
	}
	l := &Lock{Schema: lockSchema, Version: version, Seed: a.Seed, Mechanism: a.Mechanism, Protocol: a.Protocol,
		Eligible: a.Eligible, Rule: rule, Split: a.Split}
	var err error
	if l.Bank, err = digest(a.Bank); err != nil {
		return nil, nil, err
	}
	seen := slices.Concat(a.Split.Canaries, a.Split.Auxiliary, a.Split.Calibration)
	if l.Users, err = digest(a.Users.Only(seen).X); err != nil {
		return nil, nil, err
	}
	d := &Design{bench: a.newBench(), lock: l}
	total := len(a.Variants) * a.Protocol.Canaries
	for _, v := range a.Variants {
		for c := range a.Protocol.Canaries {
			a.tell("probes and thresholds", len(d.experiments), total)
			e, err := a.design(ctx, d.bench, v, c)
			if err != nil {
				return nil, nil, fmt.Errorf("%s, canary %d: %w", v.Name, c, err)
			}
			e.Step = len(d.experiments)
			locked, err := a.lock(ctx, d.bench, e, rule)
			if err != nil {
				return nil, nil, fmt.Errorf("%s, canary %d: %w", v.Name, c, err)
			}
			d.experiments = append(d.experiments, e)
			l.Attacks = append(l.Attacks, *locked)
		}
	}
	a.tell("probes and thresholds", total, total)
	return l, d, nil
}

// Design is the experiments of an audit, with what is not written down of them.
type Design struct {
	bench       *bench
	lock        *Lock // as it was made with the design
	experiments []*Experiment
}

func (a *Audit) lock(ctx context.Context, b *bench, e *Experiment, rule string) (*Locked, error) {
	if e.Blind {
		var never LockedPrefix
		for _, f := range a.Protocol.Purposes(1) {
			never.Thresholds = append(never.Thresholds, Threshold{f, math.MaxFloat64})
		}
		sum, err := digest(e.probes)
		return &Locked{*e, sum, Decision{Prefixes: []LockedPrefix{never}}}, err
	}
	cal, err := a.contributions(ctx, b, calibration, e.probes, e.Observe)
	if err != nil {
		return nil, err
	}
	d, err := a.game(rule).Lock(ctx, e.Step, []*View{e.view}, []*Contributions{cal})
	if err != nil {
		return nil, err
	}
	l := &Locked{Experiment: *e, Decision: *d}
	l.Probes, err = digest(e.probes)
	return l, err
}

// game is the audit's statistics.
func (a *Audit) game(rule string) Game {
	return Game{Mechanism: a.Mechanism, Protocol: a.Protocol, Eligible: a.Eligible, Seed: a.Seed, Rule: rule}
}

// Digest is the SHA-256 of the rows, for the lock of an audit that begins with them.
func (c *Contributions) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "aviary/contributions/1 %d\n", c.Slots)
	for _, v := range c.Row {
		fmt.Fprintf(h, "%x\n", math.Float64bits(v))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (s *Statistic) digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "aviary/statistic/1 %x %x\n", math.Float64bits(s.Offset), math.Float64bits(s.Noise))
	for _, v := range s.A {
		fmt.Fprintf(h, "%x\n", math.Float64bits(v))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Write keeps the lock in a file, which must not be there yet.
func (l *Lock) Write(path string) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s is there already: what is locked stays", path)
	}
	return atomicfile.Write(path, 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(l)
	})
}

// ReadLock reads a lock.
func ReadLock(path string) (*Lock, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := &Lock{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if l.Schema != lockSchema {
		return nil, fmt.Errorf("%s: schema %q, expected %s", path, l.Schema, lockSchema)
	}
	return l, nil
}

// Digest is the SHA-256 of all that is locked.
func (l *Lock) Digest() (string, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Same is an error that names what differs, if l is not what now would be locked.
// The thresholds, too, must be the same: they follow from the rest.
func (l *Lock) Same(now *Lock) error {
	if l.Version != now.Version {
		// another program may round otherwise: only what it decided must agree
		other := *now
		other.Version = l.Version
		now = &other
	}
	for _, f := range []struct {
		name     string
		was, now any
	}{
		{"seed", l.Seed, now.Seed}, {"bank", l.Bank, now.Bank}, {"users' embeddings", l.Users, now.Users},
		{"mechanism", l.Mechanism, now.Mechanism}, {"protocol", l.Protocol, now.Protocol},
		{"number of eligible users", l.Eligible, now.Eligible}, {"rule", l.Rule, now.Rule}, {"number of experiments", len(l.Attacks), len(now.Attacks)},
	} {
		if f.was != f.now {
			return fmt.Errorf("pe: the %s was %v when the thresholds were locked, now %v", f.name, f.was, f.now)
		}
	}
	for _, part := range []struct {
		name     string
		was, now []int
	}{
		{"canaries", l.Split.Canaries, now.Split.Canaries}, {"auxiliary users", l.Split.Auxiliary, now.Split.Auxiliary},
		{"calibration users", l.Split.Calibration, now.Split.Calibration}, {"test users", l.Split.Test, now.Split.Test},
	} {
		if !slices.Equal(part.was, part.now) {
			return fmt.Errorf("pe: the %s of the split are not those that thresholds were locked with", part.name)
		}
	}
	for i, e := range l.Attacks {
		n := now.Attacks[i]
		was, _ := json.Marshal(e)
		is, _ := json.Marshal(n)
		if !bytes.Equal(was, is) {
			return fmt.Errorf("pe: %s, canary %d: probes, statistic or threshold are not those that were locked", e.Attack, e.Canary)
		}
	}
	return nil
}
