package onerun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/rng"
)

// Random makes canaries of training examples as they are. They displace
// themselves: a canary whose coin says out is not in the training data at all.
// A model that tells these canaries apart memorises its training data.
func Random() audit.Selector { return random{} }

// Mislabeled makes canaries of training examples with a wrong label, uniform
// over the other classes. The originals are taken out of the training data.
func Mislabeled() audit.Selector { return mislabeled{} }

type random struct{}

func (random) Name() string { return "random" }

// Displaced implements Displacer.
func (random) Displaced(m, _ int) int { return m }

func (random) Select(_ context.Context, d audit.Dataset, m, set int, seed uint64) (*audit.CanarySet, error) {
	if err := checkCount(m, d.Len()); err != nil {
		return nil, err
	}
	size := exampleLen(d)
	c := &audit.CanarySet{
		Method: "random", Set: set, Size: d.Shape(), K: d.Classes(),
		X: make([]float32, m*size), Y: make([]int32, m),
		Removed: rng.New(seed, rng.Select, uint64(set)).Perm(d.Len())[:m:m],
	}
	for i, e := range c.Removed {
		c.Y[i] = int32(d.Example(e, c.X[i*size:(i+1)*size]))
	}
	return c, nil
}

type mislabeled struct{}

func (mislabeled) Name() string { return "mislabeled" }

// Displaced implements Displacer.
func (mislabeled) Displaced(m, _ int) int { return m }

func (mislabeled) Select(ctx context.Context, d audit.Dataset, m, set int, seed uint64) (*audit.CanarySet, error) {
	if d.Classes() < 2 {
		return nil, fmt.Errorf("mislabeled canaries: the data have %d classes, expected 2 or more", d.Classes())
	}
	c, err := random{}.Select(ctx, d, m, set, seed)
	if err != nil {
		return nil, err
	}
	c.Method = "mislabeled"
	Relabel(c, seed)
	return c, nil
}

// Relabel gives every canary a wrong label, uniform over the other classes, of
// which there must be some.
func Relabel(c *audit.CanarySet, seed uint64) {
	r := rng.New(seed, rng.Relabel, uint64(c.Set))
	for i, y := range c.Y {
		wrong := r.Int32N(int32(c.K) - 1)
		if wrong >= y {
			wrong++
		}
		c.Y[i] = wrong
	}
}

// FromFile takes canaries from an npz file (see scoreio.ReadCanaries), which
// is read and checked against the training data d at once. Set k of the game is
// the file's k-th set, in ascending order of the sets' numbers. A game that
// asks for 0 canaries takes as many as the file holds. The method is named
// after the file.
func FromFile(path string, d audit.Dataset) (audit.Selector, error) {
	name := methodName(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
	sets, err := scoreio.ReadCanaries(path, d, name)
	if err != nil {
		return nil, err
	}
	return &fromFile{path: path, name: name, sets: sets}, nil
}

type fromFile struct {
	path, name string
	sets       []*audit.CanarySet
}

func (f *fromFile) Name() string { return f.name }

// check reports whether the file has what a game of this many sets needs: m
// canaries in each, or with m 0 equally many, whose number it returns.
func (f *fromFile) check(m, sets int) (int, error) {
	if len(f.sets) < sets {
		return 0, fmt.Errorf("%s: holds %d canary sets, expected at least %d, as many as the audit has", f.path, len(f.sets), sets)
	}
	for _, c := range f.sets[:sets] {
		if m == 0 {
			m = c.Len()
		}
		if c.Len() != m {
			return 0, fmt.Errorf("%s: set %d holds %d canaries, expected %d like every set of the audit", f.path, c.Set, c.Len(), m)
		}
	}
	return m, nil
}

// Displaced implements Displacer.
func (f *fromFile) Displaced(_, set int) int {
	n := 0
	for _, e := range f.sets[set].Removed {
		if e >= 0 {
			n++
		}
	}
	return n
}

func (f *fromFile) Select(_ context.Context, _ audit.Dataset, m, set int, _ uint64) (*audit.CanarySet, error) {
	if set >= len(f.sets) {
		return nil, fmt.Errorf("%s: holds %d canary sets, expected at least %d", f.path, len(f.sets), set+1)
	}
	c := *f.sets[set]
	if m != 0 && c.Len() != m {
		return nil, fmt.Errorf("%s: set %d holds %d canaries, expected %d (the number of canaries asked for)", f.path, c.Set, c.Len(), m)
	}
	c.Set = set
	return &c, nil
}

// unchanged reports whether set number set is still the one that was kept under
// a SHA-256 when the game began.
func (f *fromFile) unchanged(ctx context.Context, g *Game, set int, sum string) error {
	c, err := g.makeSet(ctx, f, set)
	if err != nil {
		return err
	}
	h := sha256.New()
	if err := scoreio.WriteCanaries(h, c); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != sum {
		return fmt.Errorf("%s: the canaries of set %d are not those that the run began with", f.path, set)
	}
	return nil
}

// checkCount refuses numbers of canaries that make no game.
func checkCount(m, n int) error {
	if m < 2 {
		return fmt.Errorf("%d canaries: expected at least 2, so that one can be in and one out", m)
	}
	if m > n {
		return fmt.Errorf("%d canaries: expected at most the %d training examples", m, n)
	}
	return nil
}

// methodName turns a file's name into one that file names and reports can
// carry: letters, digits, dots, dashes and underscores.
func methodName(s string) string {
	clean := strings.Map(func(r rune) rune {
		if nameRune(r) {
			return r
		}
		return '-'
	}, s)
	if clean = strings.Trim(clean, ".-"); clean == "" {
		return "file"
	}
	return clean
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)
}
