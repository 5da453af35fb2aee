package main

import (
	"path/filepath"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/ibis"
	"github.com/aviary-audit/aviary/audit/onerun"
)

// canaryKinds are the names that --canaries takes, besides files.
var canaryKinds = []string{"random", "mislabeled", "blank", "clipbkd", "self-influence", "greedy", "ibis"}

// openCanaries makes a selector of every kind of canaries. Some need the model
// that will be audited, or at least a device.
func (j *job) openCanaries() error {
	g := &j.game
	for _, kind := range j.settings.canaries {
		var selector audit.Selector
		switch {
		case isCanaryFile(kind):
			file, err := onerun.FromFile(kind, g.Data)
			if err != nil {
				return inputError(err)
			}
			selector = file
			j.inputs = append(j.inputs, kind)
		case kind == "random":
			selector = onerun.Random()
		case kind == "mislabeled":
			selector = onerun.Mislabeled()
		case kind == "blank":
			selector = ibis.Blank()
		case !isCanaryKind(kind):
			return usageError(didYouMean(kind, canaryKinds, ""),
				"--canaries: unknown kind %q, expected random, mislabeled, blank, clipbkd, self-influence, greedy, ibis or FILE.npz", kind)
		case j.device == nil:
			return usageError("make them with aviary craft --method "+kind+" --arch MODEL --out FILE.npz, and give that file",
				"--canaries: %s canaries need a model of Aviary's own", kind)
		case kind == "clipbkd":
			selector = ibis.ClipBKD(j.device)
		default:
			dir := j.settings.craftDir
			if dir == "" {
				dir = filepath.Join(j.settings.out, "craft")
			}
			crafter, err := j.crafter(kind, filepath.Join(dir, kind), ibis.DefaultRecipe(j.arch, j.train))
			if err != nil {
				return err
			}
			selector = crafter
		}
		g.Selectors = append(g.Selectors, selector)
	}
	return nil
}

func isCanaryKind(kind string) bool {
	for _, k := range canaryKinds {
		if k == kind {
			return true
		}
	}
	return false
}

// crafter crafts canaries of a kind for the job's model, in a folder of their
// own.
func (j *job) crafter(kind, dir string, r ibis.Recipe) (*ibis.Crafter, error) {
	if kind != "ibis" {
		r.Init, r.SelectOnly = kind, true
	}
	r.Selection.Preselect = min(r.Selection.Preselect, j.game.Data.Len())
	if m := j.game.NumCanaries; m == 0 {
		return nil, usageError("give --num-canaries M", "%s canaries are as many as asked for", kind)
	} else if err := r.Validate(j.game.Data, m); err != nil {
		return nil, inputError(err)
	}
	c := ibis.NewCrafter(j.device, r, ibis.CraftOptions{
		Dir: dir, Device: j.game.Header.Device,
		Progress: func(set int, stage string, done, total int) {
			if j.crafting != nil {
				j.crafting(set, stage, done, total)
			}
		},
	})
	j.crafters = append(j.crafters, c)
	return c, nil
}
