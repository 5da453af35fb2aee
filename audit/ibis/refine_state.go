package ibis

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/tensor"
)

// stateFile is where a refinement saves itself.
type stateFile struct {
	path string // "" for none
	id   string // of the refinement
}

// stateMeta is what the file holds besides the arrays.
type stateMeta struct {
	Version int          `json:"version"`
	Run     string       `json:"run"`
	Step    int          `json:"step"`
	Points  []TracePoint `json:"points"`
}

const stateVersion = 1

// identity is a hash of what must be the same for a refinement to go on: its
// configuration and seed, precision, shapes and labels, θ*, θ₀, and the canaries
// at the start. The other examples' pixels are left out for speed.
func (r *refiner) identity(seed uint64) (string, error) {
	head, err := json.Marshal(map[string]any{
		"config": r.cfg, "seed": seed, "bits": r.dev.ElemBits(), "params": r.theta.Params,
		"shape": r.canaries.Shape(), "classes": r.canaries.Classes, "rest": len(r.rest.Y),
	})
	if err != nil { // numbers were validated to be finite
		return "", fmt.Errorf("ibis: identity: %w", err)
	}
	h := sha256.New()
	h.Write(head)
	for _, labels := range [][]int32{r.rest.Y, r.canaries.Y} {
		if err := binary.Write(h, binary.LittleEndian, labels); err != nil {
			return "", fmt.Errorf("ibis: identity: %w", err)
		}
	}
	for _, t := range []*tensor.Tensor{r.star.Theta, r.theta.Theta, r.canaries.X} {
		numbers, err := t.Floats(r.dev)
		if err != nil {
			return "", fmt.Errorf("ibis: identity: %w", err)
		}
		for _, x := range numbers {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], math.Float64bits(x))
			h.Write(word[:])
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// stateArray is a tensor by its name in the file.
type stateArray struct {
	name string
	t    *tensor.Tensor
}

// arrays are all that moves. What the refinement does not use is left out.
func (r *refiner) arrays() []stateArray {
	all := []stateArray{{"theta", r.theta.Theta}, {"canaries", r.canaries.X}, {"v", r.v}, {"sum", r.sum}}
	return slices.DeleteFunc(all, func(a stateArray) bool { return a.t == nil })
}

// save writes the state, whole or not at all. The numbers are stored as float64,
// which holds every float32.
func (f stateFile) save(r *refiner) error {
	text, err := json.Marshal(stateMeta{stateVersion, f.id, r.step, r.points})
	if err != nil {
		return fmt.Errorf("ibis: state: %w", err)
	}
	named := []npz.Named{{Name: "meta", Array: npz.Array{Shape: []int{len(text)}, Data: text}}}
	for _, a := range r.arrays() {
		numbers, err := a.t.Floats(r.dev)
		if err != nil {
			return fmt.Errorf("ibis: state: %w", err)
		}
		named = append(named, npz.Named{Name: a.name, Array: npz.Array{Shape: a.t.Shape(), Data: numbers}})
	}
	return atomicfile.Write(f.path, 0o666, func(w io.Writer) error { return npz.Write(w, named...) })
}

// stop saves a refinement whose context has ended.
func (f stateFile) stop(ctx context.Context, r *refiner) error {
	if f.path != "" {
		if err := f.save(r); err != nil {
			return fmt.Errorf("ibis: stopped at step %d of %d, and its state is lost: %w", r.step, r.cfg.Steps, err)
		}
	}
	return fmt.Errorf("ibis: stopped at step %d of %d: %w", r.step, r.cfg.Steps, context.Cause(ctx))
}

// load goes on from the file, if there is one.
func (f stateFile) load(r *refiner) error {
	arrays, err := npz.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = f.restore(r, arrays)
	}
	if err != nil {
		return fmt.Errorf("ibis: cannot resume from %s: %w (remove the file to start again)", f.path, err)
	}
	return nil
}

func (f stateFile) restore(r *refiner, arrays map[string]npz.Array) error {
	text, err := npz.Of[uint8](arrays["meta"])
	if err != nil {
		return fmt.Errorf("array \"meta\": %w", err)
	}
	var s stateMeta
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("array \"meta\": %w", err)
	}
	switch {
	case s.Version != stateVersion:
		return fmt.Errorf("it has version %d, expected %d", s.Version, stateVersion)
	case s.Run != f.id:
		return errors.New("it belongs to another refinement: settings, seed, models or canaries differ")
	case s.Step < 0 || s.Step > r.cfg.Steps:
		return fmt.Errorf("it is at step %d of %d", s.Step, r.cfg.Steps)
	}
	numbers := map[string][]float64{}
	for _, a := range r.arrays() { // all is checked before anything changes
		x, err := npz.Of[float64](arrays[a.name])
		if err != nil {
			return fmt.Errorf("array %q: %w", a.name, err)
		}
		if got := arrays[a.name].Shape; !slices.Equal(got, a.t.Shape()) {
			return fmt.Errorf("array %q has shape %v, expected %v", a.name, got, a.t.Shape())
		}
		numbers[a.name] = x
	}
	for _, a := range r.arrays() {
		r.dev.UploadF64(a.t.Mem(), numbers[a.name])
	}
	r.theta.Moved()
	r.step, r.points = s.Step, s.Points
	return nil
}
