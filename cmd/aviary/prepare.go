package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/ibis"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/data"
	"github.com/aviary-audit/aviary/models/train"
)

// job is an audit that is ready to run.
type job struct {
	game       onerun.Game
	settings   *settings
	inputs     []string // files that went in, for the manifest
	deviceName string   // with its threads
	device     kernels.Device
	trainer    *onerun.ModelTrainer
	arch       models.Arch
	train      train.Config
	crafters   []*ibis.Crafter
	crafting   func(set int, stage string, done, total int) // told of their progress, if set
}

func (j *job) close() {
	if j.trainer != nil {
		j.trainer.Close()
	}
	if j.device != nil {
		j.device.Close()
	}
}

// prepare opens what s names and fills in the game. Its errors are the user's.
func prepare(s *settings) (*job, error) {
	j := &job{settings: s}
	if err := j.openData(); err != nil {
		return nil, err
	}
	if s.out == "" {
		s.out = defaultOut(s)
	}
	g := &j.game
	g.Dir, g.Resume, g.KeepModels = s.out, s.resume, s.saveModels
	g.Header.Version, g.Header.Delta = programVersion(), s.delta
	if s.trainer != "" {
		g.Trainer = onerun.CommandTrainer{Cmd: s.trainer}
		g.Header.Model, g.Header.Recipe, g.Header.Device = "command", s.trainer, "that of the command"
	} else if err := j.openModel(); err != nil {
		j.close()
		return nil, err
	}
	if err := j.openCanaries(); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// openData opens the data set.
func (j *job) openData() error {
	s, g := j.settings, &j.game
	trainSet, testSet, err := data.Open(s.data, data.Options{})
	if err != nil {
		return inputError(err)
	}
	if s.limit > 0 {
		if trainSet, err = first(trainSet, s.limit); err != nil {
			return err
		}
	}
	g.Data, g.Test = trainSet, testSet
	g.NumCanaries, g.Sets, g.Audits, g.Seed = s.numCanaries, s.sets, s.audits, s.seed
	g.Header.Data = trainSet.Name()
	return nil
}

// first is the first n examples.
func first(s *data.Set, n int) (*data.Set, error) {
	if n > s.Len() {
		return nil, usageError("", "--limit is %d, expected at most the %d training examples of %s", n, s.Len(), s.Name())
	}
	rows := make([]int, n)
	for i := range rows {
		rows[i] = i
	}
	return s.Subset(rows), nil
}

// openModel checks the model and its training against the data, and opens the
// device.
func (j *job) openModel() error {
	s, g := j.settings, &j.game
	var err error
	if j.arch, err = models.ParseArch(s.arch); err != nil {
		return inputError(err)
	}
	if err := j.arch.Check(g.Data.Shape(), g.Data.Classes()); err != nil {
		return inputError(err)
	}
	j.train = s.trainConfig()
	if err := j.train.Validate(g.Data.Len()); err != nil {
		return inputError(err)
	}
	if err := j.calibrate(); err != nil {
		return err
	}
	var name string
	if j.device, name, err = openDevice(s.device, s.threads); err != nil {
		return err
	}
	if err := j.checkMemory(machineMemory()); err != nil {
		return err
	}
	j.deviceName = j.device.Name()
	j.trainer = onerun.NewModelTrainer(j.device, j.arch, j.train)
	g.Trainer = j.trainer
	g.Header.Model, g.Header.Recipe, g.Header.Device = j.arch.String(), recipe(j.train), name
	if j.train.Private() {
		upper, cost, note := j.accounted(j.train)
		g.Header.Accounted = upper
		if cost != "" {
			g.Header.Recipe += ", " + cost
		}
		g.Header.Notes = append(g.Header.Notes, note)
	}
	return nil
}

func (s *settings) trainConfig() train.Config {
	c := train.Default()
	c.Epochs, c.Batch, c.LR, c.Momentum, c.WeightDecay, c.EMA = s.epochs, s.batch, s.lr, s.momentum, s.weightDecay, s.ema
	c.Schedule, c.Augment = s.schedule, s.augment
	c.Clip, c.NoiseMultiplier, c.Microbatch = s.clip, s.noiseMultiplier, s.microbatch
	return c
}

// recipe says in words how a model is trained. It holds all that changes the
// result, and so not the microbatches.
func recipe(c train.Config) string {
	words := []string{fmt.Sprintf("SGD, %d epochs of batches of %d", c.Epochs, c.Batch)}
	if c.Private() {
		words[0] = fmt.Sprintf("DP-SGD, %d epochs of Poisson batches of mean size %d, clip norm %s, noise multiplier %s",
			c.Epochs, c.Batch, formatFloat(c.Clip), formatFloat(c.NoiseMultiplier))
	}
	words = append(words, "lr "+formatFloat(c.LR))
	if c.Schedule != "" && c.Schedule != "constant" {
		words[len(words)-1] += " (" + c.Schedule + ")"
	}
	for _, w := range []struct {
		name string
		v    float64
	}{{"momentum", c.Momentum}, {"weight decay", c.WeightDecay}, {"average of weights", c.EMA}} {
		if w.v != 0 {
			words = append(words, w.name+" "+formatFloat(w.v))
		}
	}
	if c.Augment != "" && c.Augment != "none" {
		words = append(words, "augmentation "+c.Augment)
	}
	return strings.Join(words, ", ")
}

// defaultOut names a run after what tells it from others.
func defaultOut(s *settings) string {
	kinds := make([]string, len(s.canaries))
	for i, k := range s.canaries {
		kinds[i] = strings.TrimSuffix(filepath.Base(k), filepath.Ext(k))
	}
	name := fmt.Sprintf("%s-%s-seed%d", filepath.Base(s.data), strings.Join(kinds, "+"), s.seed)
	return filepath.Join("runs", name)
}

// describe prints what a run would do and cost.
func (j *job) describe(w io.Writer) error {
	g, s := &j.game, j.settings
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	n := g.Data.Len()
	runs := len(g.Selectors) * g.Sets * g.Audits
	m := "as many canaries as the files hold"
	if g.NumCanaries > 0 {
		m = fmt.Sprintf("%d canaries", g.NumCanaries)
	}
	fmt.Fprintf(t, "data\t%s: %d training examples of %v, %d classes\n", g.Header.Data, n, g.Data.Shape(), g.Data.Classes())
	fmt.Fprintf(t, "canaries\t%s: %s in each of %d sets\n", strings.Join(s.canaries, ", "), m, g.Sets)
	fmt.Fprintf(t, "audits\t%d: %d of each of %d sets of %d kinds\n", runs, g.Audits, g.Sets, len(g.Selectors))
	fmt.Fprintf(t, "model\t%s\nrecipe\t%s\ndevice\t%s\n", g.Header.Model, g.Header.Recipe, g.Header.Device)
	if j.device != nil {
		steps := j.train.TotalSteps(n)
		// Two operations per parameter and example forward, four backward.
		flops := 6 * float64(j.parameters()) * float64(j.train.Batch) * float64(steps)
		fmt.Fprintf(t, "cost\t%d steps and %.3g floating-point operations per audit, %.3g in all\n", steps, flops, flops*float64(runs))
		fmt.Fprintf(t, "memory\tabout %d MB\n", j.memory()>>20)
	}
	fmt.Fprintf(t, "output\t%s\n", g.Dir)
	return t.Flush()
}

func exampleSize(d audit.Dataset) int {
	size := 1
	for _, n := range d.Shape() {
		size *= n
	}
	return size
}
