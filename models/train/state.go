package train

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// meta is what a state file holds besides the vectors.
type meta struct {
	Version int     `json:"version"`
	Run     string  `json:"run"` // identity of the run
	Step    int     `json:"step"`
	Sum     float64 `json:"loss_sum"` // of the epoch so far
	Count   int     `json:"loss_count"`
	Curve   []point `json:"curve"`
}

// point is a Point in JSON, which has no NaN.
type point struct {
	Epoch        float64  `json:"epoch"`
	Step         int      `json:"step"`
	TrainLoss    float64  `json:"train_loss"`
	TestAccuracy *float64 `json:"test_accuracy"`
}

const stateVersion = 1

// identity is a hash of what must be the same for a run to go on: the
// configuration, the data's shape and labels, the parameters' names and shapes,
// and the precision. The microbatch may differ, since it changes no bit.
func identity(m *models.Model, d *Data, cfg Config) string {
	cfg.Microbatch = 0
	type param struct {
		Name  string
		Shape []int
	}
	var params []param
	for _, q := range m.Params {
		params = append(params, param{q.Name, q.Shape})
	}
	head, err := json.Marshal(map[string]any{
		"config": cfg, "shape": d.X.Shape(), "classes": d.Classes, "params": params, "bits": m.Device().ElemBits(),
	})
	if err != nil { // numbers were validated to be finite
		panic(fmt.Sprintf("train: identity: %v", err))
	}
	for _, y := range d.Y {
		head = binary.LittleEndian.AppendUint32(head, uint32(y))
	}
	sum := sha256.Sum256(head)
	return hex.EncodeToString(sum[:])
}

// vectors are the run's flat vectors by name. What the run does not use is nil.
func (r *run) vectors() []vector {
	all := []vector{{"theta", r.m.Theta}, {"momentum", r.momentum}, {"ema", r.ema}}
	return slices.DeleteFunc(all, func(v vector) bool { return v.t == nil })
}

type vector struct {
	name string
	t    *tensor.Tensor
}

// save writes the state file, whole or not at all.
func (r *run) save() error {
	if err := r.meter.flush(); err != nil {
		return err
	}
	if err := r.converges(r.meter.sum); err != nil { // no state for what cannot go on, and no number for JSON
		return err
	}
	text, err := json.Marshal(meta{
		Version: stateVersion, Run: r.id, Step: r.step, Sum: r.meter.sum, Count: r.meter.count, Curve: toJSON(r.curve),
	})
	if err != nil {
		return fmt.Errorf("train: state: %w", err)
	}
	arrays := []npz.Named{{Name: "meta", Array: npz.Array{Shape: []int{len(text)}, Data: text}}}
	for _, v := range r.vectors() {
		a, err := download(r.dev, v.t, v.t.Shape())
		if err != nil {
			return fmt.Errorf("train: state: %w", err)
		}
		arrays = append(arrays, npz.Named{Name: v.name, Array: a})
	}
	return writeArrays(r.opts.State, arrays, r.opts.files)
}

// load goes on from the state file, if there is one.
func (r *run) load() error {
	path := r.opts.State
	arrays, err := npz.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = r.restore(arrays)
	}
	if err != nil {
		return fmt.Errorf("train: cannot resume from %s: %w (remove the file to start again)", path, err)
	}
	return nil
}

func (r *run) restore(arrays map[string]npz.Array) error {
	text, err := npz.Of[uint8](arrays["meta"])
	if err != nil {
		return fmt.Errorf("array \"meta\": %w", err)
	}
	var s meta
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("array \"meta\": %w", err)
	}
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("it has version %d, expected %d", s.Version, stateVersion)
	case s.Run != r.id:
		return errors.New("it belongs to another run: configuration, data, model or precision differ")
	case s.Step < 0 || s.Step > r.total:
		return fmt.Errorf("it is at step %d of %d", s.Step, r.total)
	}
	want := "float32"
	if r.dev.ElemBits() == 64 {
		want = "float64"
	}
	for _, v := range r.vectors() { // all is checked before anything changes
		if a, ok := arrays[v.name]; !ok || a.DType() != want || !slices.Equal(a.Shape, v.t.Shape()) {
			return fmt.Errorf("array %q is missing or is not %s %v", v.name, want, v.t.Shape())
		}
	}
	for _, v := range r.vectors() {
		upload(r.dev, v.t.Mem(), arrays[v.name])
	}
	r.m.Moved()
	r.step, r.resumed = s.Step, s.Step
	r.meter.sum, r.meter.count = s.Sum, s.Count
	r.curve = fromJSON(s.Curve)
	return nil
}

func toJSON(curve []Point) []point {
	list := make([]point, len(curve))
	for i, p := range curve {
		list[i] = point{Epoch: p.Epoch, Step: p.Step, TrainLoss: p.TrainLoss}
		if !math.IsNaN(p.TestAccuracy) {
			list[i].TestAccuracy = &p.TestAccuracy
		}
	}
	return list
}

func fromJSON(list []point) []Point {
	curve := make([]Point, len(list))
	for i, p := range list {
		curve[i] = Point{Epoch: p.Epoch, Step: p.Step, TrainLoss: p.TrainLoss, TestAccuracy: math.NaN()}
		if p.TestAccuracy != nil {
			curve[i].TestAccuracy = *p.TestAccuracy
		}
	}
	return curve
}
