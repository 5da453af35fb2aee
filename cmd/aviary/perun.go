package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/audit/pe"
	"github.com/aviary-audit/aviary/internal/progress"
	"github.com/aviary-audit/aviary/report"
)

// The files of a run of pe, besides config.yaml, journal.jsonl and the report.
const (
	lockName = "lock.json"
	poolName = "paraphrases.jsonl"
	llmName  = "llm.jsonl"
)

func runPE(cmd *cobra.Command, s *peSettings) error {
	flags := cmd.Flags()
	if s.out == "" && !s.dryRun {
		return usageError("", "--out is missing, expected the run directory")
	}
	if s.resume {
		kept := filepath.Join(s.out, configName)
		if _, err := os.Stat(kept); err != nil {
			return noRun(s.out)
		}
		if s.config == "" {
			s.config = kept
		}
	}
	if s.config != "" {
		if err := loadConfig(s.config, flags); err != nil {
			return err
		}
	}
	if err := s.checkPE(); err != nil {
		return err
	}
	ui := newPETalk(cmd.ErrOrStderr(), s.quiet)
	defer ui.line.Done()
	in, err := s.openInputs(cmd.Context(), ui)
	if err != nil {
		return err
	}
	defer in.close()
	if s.dryRun {
		return s.describePE(cmd.OutOrStdout(), in)
	}
	config, err := effectiveConfig(flags, "")
	if err != nil {
		return err
	}
	if err := openRun(&s.settings, config); err != nil {
		return err
	}
	a, err := s.audit(cmd.Context(), in, ui)
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return s.failedPE(err, ui)
	}
	lock, design, err := a.Lock(cmd.Context(), programVersion(), s.lockRule)
	if err != nil {
		return s.failedPE(err, ui)
	}
	if s.stage == "probe" {
		ui.line.Done()
		return showProbes(cmd.OutOrStdout(), lock, s.json)
	}
	path := filepath.Join(s.out, lockName)
	before, err := pe.ReadLock(path)
	switch {
	case err == nil:
		if err := before.Same(lock); err != nil {
			return usageError("a locked audit can only go on as it was locked", "%s: %w", path, err)
		}
		lock = before
	case errors.Is(err, os.ErrNotExist):
		if err := lock.Write(path); err != nil {
			return &failure{exitRun, err, ""}
		}
	default:
		return inputError(err)
	}
	if s.stage == "lock" {
		ui.line.Done()
		return showProbes(cmd.OutOrStdout(), lock, s.json)
	}
	shard, shards, err := shardNumber(s.shard)
	if err != nil {
		return err
	}
	log, err := pe.OpenTrialLog(filepath.Join(s.out, journalName), lock, shard, shards)
	if err != nil {
		return inputError(err)
	}
	defer log.Close()
	for _, other := range s.add {
		if err := log.Add(other); err != nil {
			return inputError(err)
		}
	}
	result, err := a.Test(cmd.Context(), design, lock, log)
	if errors.Is(err, pe.ErrOtherShards) {
		ui.line.Done()
		fmt.Fprintf(cmd.ErrOrStderr(), "aviary: shard %s is done; pe run --resume --add JOURNAL,... takes the journals of the others\n", s.shard)
		return nil
	}
	if err != nil {
		return s.failedPE(err, ui)
	}
	curves, err := a.ByTrials(result)
	if err != nil {
		return &failure{exitRun, err, ""}
	}
	ui.line.Done()
	r := s.report(in, lock, result, curves)
	if err := report.WritePE(s.out, r); err != nil {
		return &failure{exitRun, err, ""}
	}
	return s.showPE(cmd.OutOrStdout(), r)
}

func (s *peSettings) checkPE() error {
	if s.users == "" || s.bank == "" && s.bankVectors == "" {
		return usageError("make data-debian fetches an example", "--users and --bank are needed: files of records")
	}
	if err := checkInts([]intSetting{
		{"bank-size", s.mechanism.Slots, 0, most}, {"min-records", s.minRecords, 1, most}, {"k", s.mechanism.K, 1, pe.MaxK},
		{"cap", s.mechanism.Cap, 1, most}, {"num-canaries", s.protocol.Canaries, 1, most}, {"auxiliary", s.aux, 1, most},
		{"calibration", s.cal, 1, most}, {"test", s.test, 1, most}, {"eligible", s.eligible, 0, most}, {"probes", s.probes, 1, most},
		{"pool", s.pool, s.probes, most}, {"tries", s.tries, 1, 1000}, {"trials", s.protocol.Trials, 1, math.MaxInt},
	}); err != nil {
		return err
	}
	if !(s.gate >= 0) { // NaN too
		return usageError("", "--gate is %v, expected a number of at least 0", s.gate)
	}
	if _, _, err := shardNumber(s.shard); err != nil {
		return err
	}
	if (s.llm == "") != (s.model == "") {
		return usageError("", "--llm and --model go together")
	}
	if s.llm != "" && s.paraphrases != "" {
		return usageError("", "--paraphrases brings what --llm would make: expected one of them")
	}
	if _, err := pe.VariantsNamed(s.attacks); err != nil {
		return inputError(err)
	}
	h := s.mechanism
	h.Slots = max(h.Slots, h.K)
	if err := h.Check(); err != nil {
		return inputError(err)
	}
	return inputError(s.protocol.Check())
}

// failedPE tells an interruption from what the input is to blame for.
func (s *peSettings) failedPE(err error, ui *peTalk) error {
	ui.line.Done()
	again := "aviary pe " + s.stage + " --resume --out " + shellQuote(s.out)
	if errors.Is(err, context.Canceled) {
		return &failure{exitRun, errors.New("interrupted"), again + " goes on"}
	}
	if kept, _ := os.ReadDir(s.out); len(kept) > 1 { // more than config.yaml: answers of a language model, a lock
		return &failure{exitRun, err, again + " goes on once that is mended"}
	}
	closeRun(&s.settings)
	return inputError(err)
}

// peTalk tells people how far the audit is.
type peTalk struct {
	w    io.Writer
	line *progress.Progress
	what string
}

func newPETalk(w io.Writer, quiet bool) *peTalk {
	return &peTalk{w: w, line: newLine(w, quiet)}
}

func (t *peTalk) told(what string, done, total int) {
	if t.what != what {
		t.line.Start(what, total)
		t.what = what
	}
	t.line.Set(done)
}

// note is told even if quiet: it changes what the numbers mean.
func (t *peTalk) note(format string, args ...any) {
	t.line.Done()
	fmt.Fprintf(t.w, "aviary: note: "+format+"\n", args...)
}

// describePE prints what would be done.
func (s *peSettings) describePE(w io.Writer, in *peInputs) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "users\t%d with at least %d records, %d records in all\n", in.people.Users(), s.minRecords, in.people.X.Len())
	fmt.Fprintf(t, "bank\t%d candidates\n", in.bank.Len())
	fmt.Fprintf(t, "embeddings\t%s, %d dimensions\n", in.encoder, in.bank.Dim())
	fmt.Fprintf(t, "attacks\t%d on %d canaries each\n", len(s.attacks), s.protocol.Canaries)
	fmt.Fprintf(t, "routing\t%.3g multiplications and additions\n", float64(in.people.X.Len())*float64(in.bank.Len())*float64(in.bank.Dim()))
	fmt.Fprintf(t, "trials\t%d in each of 2 worlds, %.3g in all\n", s.protocol.Trials, 2*float64(s.protocol.Trials)*float64(len(s.attacks)*s.protocol.Canaries))
	fmt.Fprintf(t, "output\t%s\n", s.out)
	return t.Flush()
}

// showProbes prints what each attack sees of its canaries.
func showProbes(w io.Writer, l *pe.Lock, asJSON bool) error {
	if asJSON {
		return printJSON(w, l)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "attack\tcanary\tprobes\t‖v‖/C\tμ_eff·σ\tthreshold\texpected ε_lower")
	for _, a := range l.Attacks {
		if a.Blind {
			fmt.Fprintf(t, "%s\t%d\t%d\t0\t0\tno vote falls on a probe\t0\n", a.Attack, a.Canary, len(a.Slots))
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%.4f\t%.4f\t%.4f\t%.4f\n", a.Attack, a.Canary, len(a.Slots), a.Norm, a.Mu*l.Mechanism.Noise, a.Prefixes[0].Thresholds[0].Tau, a.Prefixes[0].Expected.Mean)
	}
	return t.Flush()
}
