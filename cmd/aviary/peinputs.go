package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/aviary-audit/aviary/audit/pe"
	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/hf"
)

// peInputs are the files of an audit, read.
type peInputs struct {
	table    *records.Table
	people   *pe.Population
	bank     *records.Matrix
	encoder  string // in words
	embedder pe.Embedder
	rewriter string // in words, "" if none was asked
	device   kernels.Device
	deviceIs string
	split    pe.Split
	notes    []string
	toClose  []io.Closer
}

func (in *peInputs) close() {
	for _, c := range slices.Backward(in.toClose) {
		c.Close()
	}
}

// openInputs reads users and bank, and embeds what has no embeddings.
func (s *peSettings) openInputs(ctx context.Context, ui *peTalk) (*peInputs, error) {
	in := &peInputs{}
	ok := false
	defer func() {
		if !ok {
			in.close()
		}
	}()
	var err error
	columns := records.Columns{ID: s.columns.id, User: s.columns.user, Text: s.columns.text}
	if in.table, err = records.Read(s.users, columns); err != nil {
		return nil, inputError(err)
	}
	if in.table.User == nil {
		return nil, usageError("--user-column names it", "%s has no column for the user", s.users)
	}
	dev, name, err := openDevice(s.device, s.threads)
	if err != nil {
		return nil, err
	}
	in.device, in.deviceIs = dev, name
	in.toClose = append(in.toClose, dev)
	if s.encoder != "" {
		e, err := hf.OpenText(s.encoder, dev)
		if err != nil {
			return nil, inputError(err)
		}
		in.toClose = append(in.toClose, closer(e.Free))
		in.embedder, in.encoder = encoderEmbedder{e}, encoderName(s.encoder, e.Folder)
	} else {
		in.embedder, in.encoder = pe.Hashed{NGrams: records.DefaultNGrams()}, records.NGramsName
	}
	vectors := func(what, file string, texts []string, n int) (records.Vectors, error) {
		if file == "" {
			if texts == nil {
				return nil, usageError("--text-column names it, or --"+what+"-embeddings brings embeddings", "the %s file has no column of texts to embed", what)
			}
			ui.told("embedding "+what+" records", 0, len(texts))
			m, err := in.embedder.Embed(ctx, texts)
			ui.told("embedding "+what+" records", len(texts), len(texts))
			return m, err
		}
		v, err := records.OpenVectors(file)
		if err != nil {
			return nil, inputError(err)
		}
		in.toClose = append(in.toClose, v)
		if n >= 0 && v.Len() != n {
			return nil, usageError("", "%s has %d rows, expected one for each of the %d records", file, v.Len(), n)
		}
		least, most, err := records.Norms(v)
		if err != nil {
			return nil, usageError("", "%s: %w", file, err)
		}
		if least < .999 || most > 1.001 {
			in.notes = append(in.notes, fmt.Sprintf("embeddings in %s have lengths from %.3g to %.3g, not 1: distances are taken as they are", file, least, most))
		}
		return v, nil
	}
	if (s.userVectors == "") != (s.bankVectors == "") {
		return nil, usageError("", "--user-embeddings and --bank-embeddings go together: all must be by one encoder")
	}
	switch {
	case s.userVectors != "" && s.encoder == "":
		in.encoder, in.embedder = "from files", nil
	case s.encoder == "":
		in.notes = append(in.notes, "embeddings are "+records.NGramsName+": they know no meaning; --encoder or --user-embeddings brings others")
	}
	x, err := vectors("user", s.userVectors, in.table.Text, in.table.Len())
	if err != nil {
		return nil, err
	}
	if err := s.openBank(in, columns, vectors); err != nil {
		return nil, err
	}
	if in.people, err = pe.NewPopulation(in.table.User, x, s.mechanism.Cap, s.minRecords); err != nil {
		return nil, usageError("--min-records says how many records a user needs", "%s: %w", s.users, err)
	}
	if in.split, err = pe.NewSplit(s.seed, in.people.Users(), s.protocol.Canaries, s.aux, s.cal, s.test); err != nil {
		return nil, usageError("--auxiliary, --calibration, --test and --num-canaries say how many take which part", "%s: %w", s.users, err)
	}
	for _, note := range in.notes {
		ui.note("%s", note)
	}
	ok = true
	return in, nil
}

func (s *peSettings) openBank(in *peInputs, columns records.Columns, vectors func(what, file string, texts []string, n int) (records.Vectors, error)) error {
	var texts []string
	n := -1
	if s.bank != "" {
		columns.User = ""
		t, err := records.Read(s.bank, columns)
		if err != nil {
			return inputError(err)
		}
		n, texts = t.Len(), t.Text
		if s.bankVectors == "" && s.mechanism.Slots > 0 && n > s.mechanism.Slots {
			texts = texts[:s.mechanism.Slots]
		}
	}
	v, err := vectors("bank", s.bankVectors, texts, n)
	if err != nil {
		return err
	}
	p := v.Len()
	if s.mechanism.Slots > p {
		return usageError("--bank-size says how many are used", "the bank has %d candidates, expected %d", p, s.mechanism.Slots)
	}
	if s.mechanism.Slots > 0 {
		p = s.mechanism.Slots
	}
	s.mechanism.Slots = p
	in.bank = &records.Matrix{D: v.Dim(), X: make([]float32, p*v.Dim())}
	return v.Read(0, in.bank.X)
}

// audit puts the audit together: the texts that attacks need are made, or read.
func (s *peSettings) audit(ctx context.Context, in *peInputs, ui *peTalk) (*pe.Audit, error) {
	variants, err := pe.VariantsNamed(s.attacks)
	if err != nil {
		return nil, err
	}
	a := &pe.Audit{Mechanism: s.mechanism, Protocol: s.protocol, Variants: variants, Bank: in.bank, Users: in.people, Split: in.split,
		Eligible: s.eligible, Probes: s.probes, Slots: pe.Slots(s.slots), KeepOriginals: s.keepOriginals, Seed: s.seed, Device: in.device, Told: ui.told}
	if a.Eligible == 0 {
		a.Eligible = s.test
	}
	needs := func(p pe.Probes) bool {
		return slices.ContainsFunc(variants, func(v pe.Variant) bool { return v.Probes == p })
	}
	if (needs(pe.Paraphrases) || needs(pe.Nonces)) && in.embedder == nil {
		return nil, usageError("--encoder is the one that made the files; --attacks ordinary,exact needs none", "paraphrases and nonces have to be embedded as the records were, and the embeddings are from files")
	}
	if needs(pe.Nonces) {
		for c := range s.protocol.Canaries {
			x, err := in.embedder.Embed(ctx, pe.NonceRecords(s.seed, c, s.mechanism.Cap))
			if err != nil {
				return nil, err
			}
			pool, err := pe.EmbedPool(ctx, in.embedder, pe.NoncePool(s.seed, c, s.pool))
			if err != nil {
				return nil, err
			}
			a.Material.Nonces, a.Material.NoncePools = append(a.Material.Nonces, x), append(a.Material.NoncePools, pool)
		}
	}
	if needs(pe.Paraphrases) {
		pools, err := s.paraphrasePools(ctx, in, ui)
		if err != nil {
			return nil, err
		}
		for _, p := range pools {
			pool, err := pe.EmbedPool(ctx, in.embedder, p)
			if err != nil {
				return nil, err
			}
			a.Material.Paraphrases = append(a.Material.Paraphrases, pool)
		}
	}
	return a, nil
}

// paraphrasePools are the pools of all canaries: those that are in the run
// directory, those of --paraphrases, or new ones.
func (s *peSettings) paraphrasePools(ctx context.Context, in *peInputs, ui *peTalk) ([][]pe.PoolText, error) {
	if in.table.Text == nil {
		return nil, usageError("--text-column names it", "%s has no column of texts to paraphrase", s.users)
	}
	path := filepath.Join(s.out, poolName)
	from := s.paraphrases
	if _, err := os.Stat(path); err == nil {
		from = path
	}
	var w pe.Rewriter = pe.Offline{}
	switch {
	case s.paraphrases != "":
		in.rewriter = "from " + filepath.Base(s.paraphrases)
	case s.llm != "":
		in.rewriter = s.model
	default:
		in.rewriter = w.Name()
	}
	if from != "" {
		return readPools(from, s.protocol.Canaries, s.probes)
	}
	if s.llm != "" {
		l := &pe.LLM{URL: s.llm, Model: s.model, Key: os.Getenv("AVIARY_LLM_KEY"), Tries: s.tries}
		if err := l.OpenCache(filepath.Join(s.out, llmName)); err != nil {
			return nil, err
		}
		defer l.Close()
		w = l
	} else {
		ui.note("paraphrases are by the %s; --llm has a language model make them", w.Name())
	}
	pools := make([][]pe.PoolText, s.protocol.Canaries)
	for c := range pools {
		only := in.people.Only(in.split.Canaries[c : c+1])
		var texts []string
		for _, row := range only.Row {
			texts = append(texts, in.table.Text[row])
		}
		var err error
		pools[c], err = pe.ParaphrasePool(ctx, w, texts, s.pool, c, s.seed, func(done int) {
			ui.told("paraphrases", c*s.pool+done, s.protocol.Canaries*s.pool)
		})
		if err != nil {
			return nil, err
		}
	}
	return pools, writePools(path, pools)
}

// poolLine is a line of a file of paraphrases.
type poolLine struct {
	Canary int `json:"canary"`
	pe.PoolText
}

func writePools(path string, pools [][]pe.PoolText) error {
	return atomicfile.Write(path, 0o644, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for c, pool := range pools {
			for _, t := range pool {
				if err := e.Encode(poolLine{c, t}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func readPools(path string, canaries, least int) ([][]pe.PoolText, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pools := make([][]pe.PoolText, canaries)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for n := 1; lines.Scan(); n++ {
		l := poolLine{Canary: -1, PoolText: pe.PoolText{Source: -1}}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		switch {
		case l.Canary < 0 || l.Canary >= canaries:
			return nil, fmt.Errorf("%s: line %d: canary %d, expected one from 0 to %d", path, n, l.Canary, canaries-1)
		case l.Source < 0:
			return nil, fmt.Errorf("%s: line %d: no source_record, expected the number of the canary's record", path, n)
		case l.Text == "":
			return nil, fmt.Errorf("%s: line %d: no text", path, n)
		}
		pools[l.Canary] = append(pools[l.Canary], l.PoolText)
	}
	for c, p := range pools {
		if len(p) < least {
			return nil, fmt.Errorf("%s: %d paraphrases of canary %d, expected at least the %d probes", path, len(p), c, least)
		}
	}
	return pools, nil
}

// encoderEmbedder embeds by a sentence encoder.
type encoderEmbedder struct{ *hf.TextEncoder }

// Embed implements pe.Embedder.
func (e encoderEmbedder) Embed(ctx context.Context, texts []string) (*records.Matrix, error) {
	x, err := e.EmbedTexts(ctx, texts, nil)
	if err != nil {
		return nil, err
	}
	return records.NewMatrix(e.Config.Width, x)
}

// closer frees something.
type closer func()

// Close implements io.Closer.
func (c closer) Close() error {
	c()
	return nil
}
