package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// The files that Write makes, relative to the run directory.
const (
	JSONFile = "report.json"
	HTMLFile = "report.html"
	CSVFile  = "summary.csv"
	SVGFile  = "roc.svg"
	PNGFile  = "roc.png"

	configFile = "config.yaml" // shown in the page if it is there
)

// Files lists what Write makes, in the order in which it makes it.
func Files() []string { return []string{JSONFile, CSVFile, SVGFile, PNGFile, HTMLFile} }

// Loader reads the scores of one audit; run.Scores is relative to the run
// directory.
type Loader func(run audit.Run) (audit.Scores, error)

// Write makes all files of a report in dir. Nothing is written unless all of
// it could be made, and each file replaces its predecessor whole.
func Write(dir string, r *audit.Report, load Loader) error {
	files, err := build(dir, r, load)
	if err != nil {
		return err
	}
	for _, name := range Files() {
		if err := atomicfile.WriteBytes(filepath.Join(dir, name), 0o644, files[name]); err != nil {
			return err
		}
	}
	return nil
}

// Render makes the files of a report again, from dir's report.json and score
// files. The same report.json gives the same bytes.
func Render(dir string, load Loader) (*audit.Report, error) {
	r, err := Read(filepath.Join(dir, JSONFile))
	if err != nil {
		return nil, err
	}
	return r, Write(dir, r, load)
}

// Read reads a report.json. It refuses schemas and fields that it does not know.
func Read(path string) (*audit.Report, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("%s: not a report: %w", path, err)
	}
	if head.Schema != audit.Schema {
		return nil, fmt.Errorf("%s: schema %q, expected %q", path, head.Schema, audit.Schema)
	}
	r := new(audit.Report)
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more text after the report", path)
	}
	return r, check(r)
}

// JSON is the bytes of report.json: indented, in the order of the fields of
// audit.Report, with a final newline.
func JSON(r *audit.Report) ([]byte, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// check refuses reports that cannot be shown, above all numbers that are none.
func check(r *audit.Report) error {
	if len(r.Methods) == 0 {
		return errors.New("report: no methods, expected at least one")
	}
	for _, m := range r.Methods {
		if len(m.Runs) == 0 {
			return fmt.Errorf("report: method %q has no runs", m.Name)
		}
		for _, run := range m.Runs {
			if run.Members < 1 || run.Members >= r.Canaries {
				return fmt.Errorf("report: %s set %d audit %d: %d of %d canaries are members; both sides are needed",
					m.Name, run.Set, run.Audit, run.Members, r.Canaries)
			}
			for _, v := range []float64{run.AUC, run.TPR} {
				if !(v >= 0 && v <= 1) { // NaN too
					return fmt.Errorf("report: %s set %d audit %d: %v, expected a number from 0 to 1", m.Name, run.Set, run.Audit, v)
				}
			}
		}
		for _, f := range figures(m) {
			if !finite(f.Mean) || !finite(f.Min) {
				return fmt.Errorf("report: %s: %s has mean %v and minimum %v, expected numbers", m.Name, f.key, f.Mean, f.Min)
			}
		}
	}
	if err := checkBounds(r); err != nil {
		return err
	}
	return checkPaired(r)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func build(dir string, r *audit.Report, load Loader) (map[string][]byte, error) {
	files := make(map[string][]byte)
	var err error
	if files[JSONFile], err = JSON(r); err != nil {
		return nil, err
	}
	methods, err := loadAll(r, load)
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if files[CSVFile], err = summaryCSV(r); err != nil {
		return nil, err
	}
	roc := rocChart(methods)
	if files[SVGFile], err = standaloneSVG(roc); err != nil {
		return nil, err
	}
	if files[PNGFile], err = chartPNG(roc); err != nil {
		return nil, err
	}
	files[HTMLFile], err = page(r, methods, roc, string(config))
	return files, err
}
