package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// The files of a run directory, besides those of the report.
const (
	configName   = "config.yaml"
	journalName  = "journal.jsonl"
	manifestName = "manifest.json"
)

const manifestSchema = "aviary/manifest/1"

// manifest says what went into a run and what came out.
type manifest struct {
	Schema   string            `json:"schema"`
	Version  string            `json:"version"`
	Go       string            `json:"go"`
	Platform string            `json:"platform"`
	Device   string            `json:"device"` // with its threads
	Seed     uint64            `json:"seed"`
	Inputs   map[string]string `json:"inputs"`  // SHA-256 of data sets by role, and of files
	Outputs  map[string]string `json:"outputs"` // SHA-256 by path in the run directory
}

// writeManifest hashes everything in dir.
func writeManifest(dir string, r *audit.Report, inputs []string, device string) error {
	m := manifest{
		Schema: manifestSchema, Version: r.Version, Go: runtime.Version(), Platform: platform(),
		Device: device, Seed: r.Seed, Inputs: map[string]string{}, Outputs: map[string]string{},
	}
	if m.Device == "" {
		m.Device = r.Device
	}
	for _, path := range inputs {
		sum, err := atomicfile.Sum(path)
		if err != nil {
			return err
		}
		m.Inputs[filepath.ToSlash(path)] = sum
	}
	if err := dataHashes(dir, m.Inputs); err != nil {
		return err
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == manifestName || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		m.Outputs[filepath.ToSlash(name)], err = atomicfile.Sum(path)
		return err
	})
	if err != nil {
		return err
	}
	return m.write(dir)
}

func (m *manifest) write(dir string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(dir, manifestName), 0o644, append(text, '\n'))
}

// dataHashes takes the hashes of the data sets, which the game has computed,
// from its plan or its journal.
func dataHashes(dir string, into map[string]string) error {
	var data struct {
		Train string `json:"data_sha256"`
		Test  string `json:"test_sha256"`
	}
	text, err := os.ReadFile(filepath.Join(dir, planName))
	if err == nil {
		err = json.Unmarshal(text, &data)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = readJournalHead(filepath.Join(dir, journalName), &data)
	}
	if err != nil {
		return err
	}
	into["training data"] = data.Train
	if data.Test != "" {
		into["test data"] = data.Test
	}
	return nil
}

// readJournalHead decodes the record that describes the game.
func readJournalHead(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		var line struct {
			Data struct {
				Game json.RawMessage `json:"game"`
			} `json:"data"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if line.Data.Game != nil {
			return json.Unmarshal(line.Data.Game, into)
		}
	}
	return fmt.Errorf("%s: no record describes the game", path)
}

func readManifest(dir string) (*manifest, error) {
	path := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !isDir(dir) {
		return nil, usageError("", "%s does not exist, expected the directory of a finished run", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usageError("an unfinished run is finished by aviary audit --resume --out "+shellQuote(dir),
			"%s has no %s, expected the directory of a finished run", dir, manifestName)
	}
	if err != nil {
		return nil, inputError(err)
	}
	m := &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, usageError("", "%s: %w", path, err)
	}
	if m.Schema != manifestSchema {
		return nil, usageError("", "%s: schema is %q, expected %q", path, m.Schema, manifestSchema)
	}
	if len(m.Outputs) == 0 {
		return nil, usageError("", "%s: lists no outputs", path)
	}
	return m, nil
}
