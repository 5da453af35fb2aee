package ibis

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/audit/scoreio"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/journal"
	"github.com/aviary-audit/aviary/internal/npz"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/models/train"
)

// The folder of a crafting:
//
//	journal.jsonl     what is finished, and how long it took
//	setK-STAGE.npz    the models: select-train, theta-star, theta-0
//	setK-STAGE.state  of the stage that is running
//	setK.npz          a finished set: its canaries, and Crafted's other arrays
//
// A file is written before the record that names it and its SHA-256.
const workJournal, workFormat = "journal.jsonl", "craft/1"

// workRecord is one line of the journal. The first has Settings.
type workRecord struct {
	Settings *workSettings      `json:"settings,omitempty"`
	File     string             `json:"file,omitempty"`
	SHA256   string             `json:"sha256,omitempty"`
	Seconds  map[string]float64 `json:"seconds,omitempty"` // by stage
}

// workSettings pin what must not change.
type workSettings struct {
	Seed     uint64 `json:"seed"`
	Canaries int    `json:"num_canaries"`
	Arch     string `json:"arch"`
	Recipe   Recipe `json:"recipe"`
	Device   string `json:"device"`
	Data     string `json:"data_sha256"`
}

func (c *Crafter) settings(d audit.Dataset, m int, seed uint64) workSettings {
	r := c.recipe
	r.Train.Microbatch, r.Train.Seed = 0, 0 // change nothing
	s := workSettings{Seed: seed, Canaries: m, Arch: r.Arch.String(), Recipe: r, Device: c.opts.Device}
	if c.opts.Dir != "" {
		s.Data = onerun.Digest(d)
	}
	return s
}

// work is the folder of a crafting, or nothing if dir is "".
type work struct {
	dir  string
	log  *journal.Journal[workRecord]
	done map[string]workRecord // by file
}

func openWork(o CraftOptions, now workSettings) (*work, error) {
	w := &work{dir: o.Dir, done: map[string]workRecord{}}
	if o.Dir == "" {
		return w, nil
	}
	if err := atomicfile.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, workJournal)
	log, err := journal.Open[workRecord](path, workFormat)
	if err != nil {
		return nil, err
	}
	w.log = log
	if log.Dropped() != "" && o.Note != nil {
		o.Note(log.Dropped())
	}
	if err := w.replay(path, now); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *work) replay(path string, now workSettings) error {
	records := w.log.Records()
	if len(records) == 0 {
		return w.log.Append(workRecord{Settings: &now})
	}
	if records[0].Settings == nil {
		return fmt.Errorf("%s: the first record does not hold the settings of a crafting", path)
	}
	if err := differs(*records[0].Settings, now); err != nil {
		return fmt.Errorf("%s: this crafting cannot go on with other settings: %w", path, err)
	}
	for _, r := range records[1:] {
		w.done[r.File] = r
	}
	return atomicfile.RemoveTemp(w.dir) // what a kill may have left
}

// differs names the first setting in which two craftings differ.
func differs(before, now workSettings) error {
	a, b := leaves(before), leaves(now)
	names := make([]string, 0, len(b))
	for name := range b {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if a[name] != b[name] {
			return fmt.Errorf("%s was %s, now %s", name, a[name], b[name])
		}
	}
	return nil
}

// leaves is the settings by their name in JSON, those of the recipe with a path.
func leaves(s workSettings) map[string]string {
	text, err := json.Marshal(s)
	if err != nil { // a recipe that is valid has only finite numbers
		return map[string]string{"settings": err.Error()}
	}
	out := map[string]string{}
	var walk func(path string, text json.RawMessage)
	walk = func(path string, text json.RawMessage) {
		var fields map[string]json.RawMessage
		if json.Unmarshal(text, &fields) != nil {
			out[path] = string(text)
			return
		}
		for name, value := range fields {
			if path != "" {
				name = path + "." + name
			}
			walk(name, value)
		}
	}
	walk("", text)
	return out
}

func (w *work) close() {
	if w.log != nil {
		w.log.Close()
	}
}

// state is the file in which a running stage keeps itself.
func (w *work) state(set int, stage string) string {
	if w.dir == "" {
		return ""
	}
	return filepath.Join(w.dir, fmt.Sprintf("set%d-%s.state", set, stage))
}

// intact looks a file up that the journal names. One that is gone is made again;
// one whose bytes have changed is an error.
func (w *work) intact(name string) (r workRecord, ok bool, err error) {
	r, ok = w.done[name]
	if !ok {
		return r, false, nil
	}
	path := filepath.Join(w.dir, name)
	sum, err := atomicfile.Sum(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err == nil && sum != r.SHA256 {
		err = fmt.Errorf("%s has changed since it was written: SHA-256 is %s, expected %s as in %s; move it away to have it made again", path, sum, r.SHA256, workJournal)
	}
	return r, err == nil, err
}

// wrote records a file that is on the disk.
func (w *work) wrote(name string, seconds map[string]float64) error {
	sum, err := atomicfile.Sum(filepath.Join(w.dir, name))
	if err != nil {
		return err
	}
	if before, again := w.done[name]; again && before.SHA256 != sum {
		return fmt.Errorf("%s: made again, it differs: SHA-256 is %s, expected %s as in %s", filepath.Join(w.dir, name), sum, before.SHA256, workJournal)
	}
	return w.log.Append(workRecord{File: name, SHA256: sum, Seconds: seconds})
}

func modelFile(set int, stage string) string { return fmt.Sprintf("set%d-%s.npz", set, stage) }

// model reads a finished model and returns how long it had taken; negative if
// there is none.
func (w *work) model(set int, stage string, m *models.Model) (seconds float64, err error) {
	name := modelFile(set, stage)
	r, ok, err := w.intact(name)
	if err != nil || !ok {
		return -1, err
	}
	return r.Seconds[stage], train.LoadModel(filepath.Join(w.dir, name), m)
}

// keep writes a finished model, and drops the state of its training.
func (w *work) keep(set int, stage string, m *models.Model, seconds float64) error {
	if w.dir == "" {
		return nil
	}
	name := modelFile(set, stage)
	if err := train.SaveModel(filepath.Join(w.dir, name), m); err != nil {
		return err
	}
	if err := w.wrote(name, map[string]float64{stage: seconds}); err != nil {
		return err
	}
	return remove(w.state(set, stage))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func setFile(set int) string { return fmt.Sprintf("set%d.npz", set) }

// finish writes a finished set.
func (w *work) finish(set int, c *Crafted) error {
	if w.dir == "" {
		return nil
	}
	arrays, err := craftedArrays(c)
	if err != nil {
		return err
	}
	name := setFile(set)
	err = atomicfile.Write(filepath.Join(w.dir, name), 0o644, func(to io.Writer) error {
		return npz.Write(to, arrays...)
	})
	if err != nil {
		return err
	}
	if err := w.wrote(name, c.Seconds); err != nil {
		return err
	}
	return remove(w.state(set, StageRefine))
}

// finished reads a finished set; nil if there is none.
func (w *work) finished(d audit.Dataset, method string, set int) (*Crafted, error) {
	name := setFile(set)
	r, ok, err := w.intact(name)
	if err != nil || !ok {
		return nil, err
	}
	path := filepath.Join(w.dir, name)
	sets, err := scoreio.ReadCanaries(path, d, method)
	if err != nil {
		return nil, err
	}
	arrays, err := npz.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := &Crafted{Canaries: sets[0], Before: Canaries(d, method, set, sets[0].Removed), Seconds: r.Seconds}
	if err := out.take(arrays); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}
