package ibis

import (
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// Recipe says how canaries are crafted for a training recipe.
type Recipe struct {
	Arch  models.Arch  `json:"-"`
	Train train.Config `json:"train"` // of the model that will be audited; noise is left out
	// Init is which training examples canaries begin as: "greedy" or
	// "self-influence", chosen by a model trained as Train says on all of the
	// data, or "random", the ones that onerun.Random takes.
	Init      string    `json:"init"`
	Selection Selection `json:"selection"` // its Order is Init's
	// FlipLabels gives each canary a wrong label, as onerun.Mislabeled does,
	// before it is refined.
	FlipLabels bool `json:"flip_labels"`
	// SelectOnly leaves the canaries as they were chosen; what follows is not
	// looked at.
	SelectOnly bool `json:"select_only"`
	// ThetaEpochs is how long θ* and θ₀ train, otherwise as Train says. Longer
	// than Train makes better canaries, since θ₀ then nearly fits them.
	ThetaEpochs int `json:"theta_epochs"`
	// OtherInit starts θ₀ from other random parameters than θ*.
	OtherInit  bool       `json:"other_init"`
	Refinement Refinement `json:"refinement"` // its Augment and ClipNorm are Train's
}

// DefaultRecipe is the recipe for MNIST, for models that are trained as cfg
// says.
func DefaultRecipe(arch models.Arch, cfg train.Config) Recipe {
	return Recipe{
		Arch: arch, Train: cfg, Init: "greedy", Selection: DefaultSelection(),
		ThetaEpochs: 20, Refinement: DefaultRefinement(),
	}
}

// settle fills in what follows from other fields.
func (r Recipe) settle() Recipe {
	r.Selection.Order = r.Init
	// DP-SGD without its noise, whose mean it is: canaries are crafted for what
	// clipping leaves of them, and serve every ε.
	r.Train.NoiseMultiplier = 0
	r.Refinement.Augment, r.Refinement.ClipNorm = r.Train.Augment, r.Train.Clip
	return r
}

// Validate returns an error, naming the setting and its value, unless r can
// craft m canaries out of d.
func (r Recipe) Validate(d audit.Dataset, m int) error {
	r = r.settle()
	if err := r.Arch.Check(d.Shape(), d.Classes()); err != nil {
		return err
	}
	if err := r.Train.Validate(d.Len()); err != nil {
		return err
	}
	if !slices.Contains([]string{"greedy", "self-influence", "random"}, r.Init) {
		return fmt.Errorf("ibis: init is %q, expected greedy, self-influence or random", r.Init)
	}
	if m < 2 || m >= d.Len() {
		return fmt.Errorf("ibis: %d canaries, expected 2 to %d, fewer than there are training examples", m, d.Len()-1)
	}
	if r.Init != "random" {
		if err := r.Selection.Validate(m, d.Len()); err != nil {
			return err
		}
	}
	if r.FlipLabels && d.Classes() < 2 {
		return fmt.Errorf("ibis: labels are to be flipped, but the data have %d classes, expected 2 or more", d.Classes())
	}
	if r.SelectOnly {
		return nil
	}
	if r.ThetaEpochs < 1 {
		return fmt.Errorf("ibis: theta_epochs is %d, expected 1 or more", r.ThetaEpochs)
	}
	if err := r.thetaConfig(0).Validate(d.Len() - m); err != nil {
		return err
	}
	return r.Refinement.Validate(m, d.Len(), d.Shape())
}

// seeded is the training with a seed.
func (r Recipe) seeded(seed uint64) train.Config {
	c := r.Train
	c.Seed = seed
	return c
}

// thetaConfig is how θ* and θ₀ are trained.
func (r Recipe) thetaConfig(seed uint64) train.Config {
	c := r.seeded(seed)
	c.Epochs, c.Steps = r.ThetaEpochs, 0
	return c
}

// name is the method's in reports.
func (r Recipe) name() string {
	if r.SelectOnly {
		return r.Init
	}
	return "ibis"
}
