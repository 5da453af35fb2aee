package train

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/models"
)

func TestValidate(t *testing.T) {
	const n = 300
	if err := Default().Validate(n); err != nil {
		t.Errorf("the default: %v", err)
	}
	for name, cfg := range configs() {
		if err := cfg.Validate(n); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	nan, inf := math.NaN(), math.Inf(1)
	for want, change := range map[string]func(*Config){
		"epochs is 0":               func(c *Config) { c.Epochs = 0 },
		"epochs is -1":              func(c *Config) { c.Epochs = -1 },
		"steps is -2":               func(c *Config) { c.Steps = -2 },
		"steps is 5, expected only": func(c *Config) { c.Steps = 5 },
		"batch is 301":              func(c *Config) { c.Batch = 301 },
		"batch is 0":                func(c *Config) { c.Batch = 0 },
		"microbatch is -1":          func(c *Config) { c.Microbatch = -1 },
		"lr is 0":                   func(c *Config) { c.LR = 0 },
		"lr is NaN":                 func(c *Config) { c.LR = nan },
		"lr is +Inf":                func(c *Config) { c.LR = inf },
		"momentum is 1":             func(c *Config) { c.Momentum = 1 },
		"momentum is NaN":           func(c *Config) { c.Momentum = nan },
		"weight_decay is -1":        func(c *Config) { c.WeightDecay = -1 },
		"weight_decay is +Inf":      func(c *Config) { c.WeightDecay = inf },
		"ema is 1":                  func(c *Config) { c.EMA = 1 },
		"clip is -0.5":              func(c *Config) { c.Clip = -0.5 },
		"clip is NaN":               func(c *Config) { c.Clip = nan },
		"noise_multiplier is NaN":   func(c *Config) { c.Clip, c.NoiseMultiplier = 1, nan },
		"clip is 0, expected a positive norm, since noise_multiplier is 2": func(c *Config) { c.NoiseMultiplier = 2 },
		`init is "xavier"`:     func(c *Config) { c.Init = "xavier" },
		`schedule is "linear"`: func(c *Config) { c.Schedule = "linear" },
		`augment is "rotate"`:  func(c *Config) { c.Augment = "rotate" },
	} {
		cfg := Default()
		change(&cfg)
		if err := cfg.Validate(n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if err := Default().Validate(0); err == nil || !strings.Contains(err.Error(), "training examples is 0") {
		t.Errorf("no examples: %v", err)
	}
	cfg := Default()
	if cfg.StepsPerEpoch(60000) != 235 || cfg.TotalSteps(60000) != 7*235 || cfg.SampleRate(512) != 0.5 || cfg.Init != models.He {
		t.Error("the default recipe does not have 235 steps in an epoch of 60,000")
	}
}

func TestSchedules(t *testing.T) {
	for s, want := range map[string][]float64{
		"":                 {1, 1, 1, 1, 1},
		"constant":         {1, 1, 1, 1, 1},
		"cosine":           {1, 0.853553, 0.5, 0.146447, 0},
		"step:0.1@0.5,.75": {1, 1, 0.1, 0.01, 0.01},
		"step:2@0.25":      {1, 2, 2, 2, 2},
	} {
		f, err := ParseSchedule(s)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range want {
			if got := f(i*25, 100); !(math.Abs(got-w) < 1e-6) { // the literals' digits
				t.Errorf("%q at %d %%: %v, want %v", s, i*25, got, w)
			}
		}
	}
	for _, bad := range []string{"linear", "step", "step:", "step:0.1", "step:0.1@", "step:0@0.5", "step:x@0.5", "step:0.1@1.5", "step:0.1@0.5,", "step:NaN@0.5", "step:0.1@NaN", "Cosine"} {
		if _, err := ParseSchedule(bad); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("schedule %q: %v", bad, err)
		}
	}
}

func TestParseAugment(t *testing.T) {
	for s, want := range map[string]Augment{
		"": {}, "none": {}, "flip": {Flip: true}, "shift:2": {Shift: 2}, "crop:4+flip": {Shift: 4, Flip: true}, "flip+shift:1": {Shift: 1, Flip: true},
	} {
		if got, err := ParseAugment(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, bad := range []string{"shift", "shift:0", "shift:-1", "shift:x", "flip+flip", "shift:1+crop:2", "none+flip", "rotate", "flip,shift:1"} {
		if _, err := ParseAugment(bad); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("augment %q: %v", bad, err)
		}
	}
}
