package train

import (
	"fmt"
	"math"

	"github.com/aviary-audit/aviary/models"
)

// Config says how a model is trained.
type Config struct {
	// Epochs or Steps is the length of the run; the other is 0. An epoch has
	// ⌈N/Batch⌉ steps.
	Epochs int `json:"epochs"`
	Steps  int `json:"steps"`
	// Batch is the number of examples in a step: each epoch is a new shuffle, cut
	// in batches, of which the last may be smaller. With Clip it is the expected
	// number, since every example joins every step by its own coin, with
	// probability Batch/N.
	Batch int `json:"batch"`

	LR          float64 `json:"lr"`
	Momentum    float64 `json:"momentum"`     // m = Momentum m + g, in [0, 1)
	WeightDecay float64 `json:"weight_decay"` // g includes WeightDecay θ
	// EMA is the decay, per step, of the average of the weights that is the
	// trained model; 0: no average.
	EMA      float64 `json:"ema"`
	Schedule string  `json:"schedule"` // see ParseSchedule; "" is "constant"

	Init    models.Scheme `json:"init"`    // "" is "he"
	Augment string        `json:"augment"` // see ParseAugment; "" is "none"

	// Clip > 0 makes it DP-SGD: each example's gradient is clipped to this norm
	// C, noise of standard deviation NoiseMultiplier C is added to the sum, and
	// the result divided by Batch. NoiseMultiplier may be 0.
	Clip            float64 `json:"clip"`
	NoiseMultiplier float64 `json:"noise_multiplier"`

	// Microbatch is how many examples are held at once; 0: the whole batch. It
	// changes the memory that is needed, and not a bit of the result.
	Microbatch int `json:"microbatch"`

	Seed uint64 `json:"seed"` // of all the run's randomness
}

// Default is the recipe that audits on MNIST use: plain SGD, constant rate, and
// an average of the weights.
func Default() Config {
	return Config{
		Epochs: 7, Batch: 256, LR: 0.1, Momentum: 0.9, WeightDecay: 1e-5, EMA: 0.9,
		Schedule: "constant", Init: models.He, Augment: "none",
	}
}

// Private says whether the run is DP-SGD.
func (c Config) Private() bool { return c.Clip > 0 }

// StepsPerEpoch is ⌈n/Batch⌉.
func (c Config) StepsPerEpoch(n int) int { return (n + c.Batch - 1) / c.Batch }

// TotalSteps is the length of the run on n examples.
func (c Config) TotalSteps(n int) int {
	if c.Steps > 0 {
		return c.Steps
	}
	return c.Epochs * c.StepsPerEpoch(n)
}

// SampleRate is the probability q with which an example joins a step of DP-SGD.
func (c Config) SampleRate(n int) float64 { return float64(c.Batch) / float64(n) }

// Validate returns an error, naming the setting and its value, unless a run on
// n examples is possible.
func (c Config) Validate(n int) error {
	bad := func(name string, value any, want string) error {
		return fmt.Errorf("train: %s is %v, expected %s", name, value, want)
	}
	switch {
	case n < 1:
		return bad("number of training examples", n, "at least 1")
	case c.Epochs < 0:
		return bad("epochs", c.Epochs, "at least 1")
	case c.Steps < 0:
		return bad("steps", c.Steps, "at least 1")
	case c.Epochs == 0 && c.Steps == 0:
		return bad("epochs", 0, "at least 1 (or a number of steps)")
	case c.Epochs > 0 && c.Steps > 0:
		return fmt.Errorf("train: epochs is %d and steps is %d, expected only one of them", c.Epochs, c.Steps)
	case c.Batch < 1 || c.Batch > n:
		return bad("batch", c.Batch, fmt.Sprintf("1 to %d, the number of training examples", n))
	case c.Microbatch < 0:
		return bad("microbatch", c.Microbatch, "at least 0")
	case !(c.LR > 0) || math.IsInf(c.LR, 0):
		return bad("lr", c.LR, "a positive number")
	case !(c.Momentum >= 0 && c.Momentum < 1):
		return bad("momentum", c.Momentum, "a number in [0, 1)")
	case !(c.WeightDecay >= 0) || math.IsInf(c.WeightDecay, 0):
		return bad("weight_decay", c.WeightDecay, "a number that is not negative")
	case !(c.EMA >= 0 && c.EMA < 1):
		return bad("ema", c.EMA, "a number in [0, 1)")
	case !(c.Clip >= 0) || math.IsInf(c.Clip, 0):
		return bad("clip", c.Clip, "a norm, or 0 for no clipping")
	case !(c.NoiseMultiplier >= 0) || math.IsInf(c.NoiseMultiplier, 0):
		return bad("noise_multiplier", c.NoiseMultiplier, "a number that is not negative")
	case c.NoiseMultiplier > 0 && c.Clip == 0:
		return bad("clip", c.Clip, fmt.Sprintf("a positive norm, since noise_multiplier is %v", c.NoiseMultiplier))
	}
	if err := c.scheme().Check(); err != nil {
		return fmt.Errorf("train: %w", err)
	}
	if _, err := ParseSchedule(c.Schedule); err != nil {
		return err
	}
	_, err := ParseAugment(c.Augment)
	return err
}

func (c Config) scheme() models.Scheme {
	if c.Init == "" {
		return models.He
	}
	return c.Init
}
