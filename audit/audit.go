// Package audit holds the types that audits share: data sets, canaries,
// scores, and reports. It knows nothing of models or devices; everything that
// a bound needs to see passes through Scores.
package audit

import (
	"context"
	"fmt"
	"math"
)

// Dataset is labelled examples in host memory.
type Dataset interface {
	Len() int
	// Shape of one example, e.g. [28 28 1]: height, width, channels.
	Shape() []int
	// Classes is the number of labels; labels are 0 to Classes-1.
	Classes() int
	// Example copies example i into x, which has room for one example, and
	// returns its label. It may be called from several goroutines.
	Example(i int, x []float32) (label int)
}

// Trainer is all that an audit knows of a model: code that fits a data set and
// tells the losses of the canaries.
type Trainer interface {
	// Train fits a fresh model. The same job gives the same result, bit for bit.
	Train(ctx context.Context, job Job) (Result, error)
}

// Job is one training run.
type Job struct {
	Seed     uint64  // of all the run's randomness
	Train    Dataset // D and the canaries that are in
	Canaries Dataset // all canaries, in or out; their losses are wanted in this order
	Test     Dataset // nil if accuracy on unseen examples is not wanted
	// State is a file in which a training run may keep what it needs to go on
	// after a kill; "" for none. The game removes it once the run is done.
	State string
	// Model is a file for the trained model; "" for none.
	Model string
	// Progress, if set, is told how many of the run's steps are done.
	Progress func(done, total int)
}

// Result is what a training run gives.
type Result struct {
	Losses       []float64 // of Job.Canaries; low means fitted
	TestAccuracy float64   // NaN if not measured
	Curve        []Point   // loss and accuracy while training, may be empty
}

// Point is one point of a training curve.
type Point struct {
	Epoch        float64  `json:"epoch"`
	Step         int      `json:"step"`
	TrainLoss    float64  `json:"train_loss"`              // mean over the epoch's batches
	TestAccuracy *float64 `json:"test_accuracy,omitempty"` // nil if not measured: JSON has no NaN
}

// Selector makes a canary set out of a data set.
type Selector interface {
	// Name is the method's name in reports, e.g. "mislabeled".
	Name() string
	// Select makes set number set with m canaries.
	Select(ctx context.Context, d Dataset, m, set int, seed uint64) (*CanarySet, error)
}

// CanarySet is m canaries and the examples that they displace.
type CanarySet struct {
	Method  string
	Set     int
	Size    []int     // shape of one example
	X       []float32 // [m, Size...]
	Y       []int32   // [m]
	Removed []int     // [m]: index in D of the example that canary i displaces, or -1
	K       int       // number of classes
}

// Len, Shape, Classes and Example make a CanarySet a Dataset.
func (c *CanarySet) Len() int { return len(c.Y) }

// Shape implements Dataset.
func (c *CanarySet) Shape() []int { return c.Size }

// Classes implements Dataset.
func (c *CanarySet) Classes() int { return c.K }

// Example implements Dataset.
func (c *CanarySet) Example(i int, x []float32) int {
	n := len(x)
	copy(x, c.X[i*n:(i+1)*n])
	return int(c.Y[i])
}

// Scores is the narrow waist: one score per candidate and the side on which
// its coin fell. Attacks make Value; they never see Member.
type Scores struct {
	Value  []float64 // higher = more likely a member
	Member []bool
}

// Check reports whether s can be analysed: equal lengths, no NaN, at least one
// member and one non-member.
func (s Scores) Check() error {
	if len(s.Value) != len(s.Member) {
		return fmt.Errorf("scores: %d values for %d memberships", len(s.Value), len(s.Member))
	}
	members := 0
	for i, v := range s.Value {
		if math.IsNaN(v) {
			return fmt.Errorf("scores: score %d is NaN", i)
		}
		if s.Member[i] {
			members++
		}
	}
	if members == 0 || members == len(s.Member) {
		return fmt.Errorf("scores: %d of %d candidates are members; both sides are needed", members, len(s.Member))
	}
	return nil
}
