package onerun

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/rng"
)

// trainingSet is D ∪ S: the training data less the examples that any canary
// displaces, in or out, and after them the canaries that are in. It is a view;
// nothing is copied.
type trainingSet struct {
	d        audit.Dataset
	kept     []int // examples of d, ascending
	canaries *audit.CanarySet
	in       []int // canaries, ascending
}

// newTrainingSet puts the canaries whose coin shows true into d.
func newTrainingSet(d audit.Dataset, c *audit.CanarySet, coins []bool) *trainingSet {
	displaced := make(map[int]bool, c.Len())
	for _, e := range c.Removed {
		displaced[e] = true // -1 displaces nothing
	}
	t := &trainingSet{d: d, canaries: c}
	for i := range d.Len() {
		if !displaced[i] {
			t.kept = append(t.kept, i)
		}
	}
	for i, in := range coins {
		if in {
			t.in = append(t.in, i)
		}
	}
	return t
}

// Len implements audit.Dataset.
func (t *trainingSet) Len() int { return len(t.kept) + len(t.in) }

// Shape implements audit.Dataset.
func (t *trainingSet) Shape() []int { return t.d.Shape() }

// Classes implements audit.Dataset.
func (t *trainingSet) Classes() int { return t.d.Classes() }

// Example implements audit.Dataset.
func (t *trainingSet) Example(i int, x []float32) int {
	if i < len(t.kept) {
		return t.d.Example(t.kept[i], x)
	}
	return t.canaries.Example(t.in[i-len(t.kept)], x)
}

// TrainingSet is D ∪ S for the canaries S whose coin shows true. Nothing is
// copied.
func TrainingSet(d audit.Dataset, c *audit.CanarySet, coins []bool) audit.Dataset {
	return newTrainingSet(d, c, coins)
}

// coins are the m fair coins of an audit. They depend on the seed and on the
// audit's place only, so that all methods meet the same ones.
func coins(seed uint64, set, aud, m int) []bool {
	r := rng.New(seed, rng.Coins, uint64(set), uint64(aud))
	in := make([]bool, m)
	for i := range in {
		in[i] = r.Uint64()>>63 == 1
	}
	return in
}

// checkCanaries refuses a canary set that does not fit the training data.
func checkCanaries(c *audit.CanarySet, d audit.Dataset, m int) error {
	if c.Len() != m {
		return fmt.Errorf("%d canaries, expected %d", c.Len(), m)
	}
	if err := checkCount(c.Len(), d.Len()); err != nil {
		return err
	}
	if fmt.Sprint(c.Size) != fmt.Sprint(d.Shape()) || c.K != d.Classes() {
		return fmt.Errorf("canaries of shape %v in %d classes, expected %v in %d classes as in the training data", c.Size, c.K, d.Shape(), d.Classes())
	}
	if len(c.X) != m*exampleLen(d) || len(c.Removed) != m {
		return fmt.Errorf("%d pixels and %d displaced examples, expected %d and %d", len(c.X), len(c.Removed), m*exampleLen(d), m)
	}
	seen := map[int]bool{}
	for i, y := range c.Y {
		if y < 0 || int(y) >= c.K {
			return fmt.Errorf("canary %d: label is %d, expected 0 to %d", i, y, c.K-1)
		}
		switch e := c.Removed[i]; {
		case e < -1 || e >= d.Len():
			return fmt.Errorf("canary %d displaces example %d, expected one from 0 to %d, or -1 for none", i, e, d.Len()-1)
		case e >= 0 && seen[e]:
			return fmt.Errorf("canary %d displaces example %d, which another one displaces already", i, e)
		default:
			seen[e] = true
		}
	}
	for i, p := range c.X {
		if v := float64(p); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("canary %d has a pixel that is %v, expected finite numbers", i/exampleLen(d), p)
		}
	}
	return nil
}

func exampleLen(d audit.Dataset) int {
	n := 1
	for _, s := range d.Shape() {
		n *= s
	}
	return n
}

// Digest is the SHA-256 of a data set's shape, classes, labels and pixels; ""
// for nil.
func Digest(d audit.Dataset) string {
	if d == nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintln(h, "aviary/data/1", d.Len(), d.Classes(), d.Shape())
	x := make([]float32, exampleLen(d))
	b := make([]byte, 0, 4*(len(x)+1))
	for i := range d.Len() {
		b = binary.LittleEndian.AppendUint32(b[:0], uint32(d.Example(i, x)))
		for _, v := range x {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}
