package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/report"
)

func auditCommand() *cobra.Command {
	flags, s := allFlags()
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Train with canaries and measure how well they can be told apart",
		Long: `Audit a training recipe in one training run per coin toss.

Each set of canaries is audited several times: fair coins decide which canaries
join the training data, a model is trained, and the loss of every canary tells,
more or less well, which way its coin fell. The run directory then holds the
report, every score, and all that is needed to check or repeat the run.

An audit that was interrupted is finished by --resume with the same results.
Sub-commands plan and score audit code that Aviary does not run itself.`,
		Example: `  aviary audit --data mnist-t10k --canaries random,mislabeled --num-canaries 500
  aviary audit --data mnist --clip 1 --noise-multiplier 0.8 --lr 0.5 --out runs/dp
  aviary audit --config runs/dp/config.yaml --seed 2 --out runs/dp-2
  aviary audit --resume --out runs/dp`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAudit(cmd, s) },
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().AddFlagSet(flags)
	cmd.AddCommand(planCommand(), scoreCommand(), multiCommand(), interferenceCommand())
	return cmd
}

func runAudit(cmd *cobra.Command, s *settings) error {
	flags := cmd.Flags()
	if s.resume {
		if s.out == "" {
			return usageError("aviary audit --resume --out DIR", "--resume needs --out, the run to finish")
		}
		kept := filepath.Join(s.out, configName)
		if _, err := os.Stat(kept); err != nil && !holdsRun(s.out) {
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
	if len(s.targetEpsilon) > 1 {
		return sweep(cmd, s, flags)
	}
	if s.resume && !holdsRun(s.out) {
		return noRun(s.out)
	}
	demo := ""
	if s.resume && isDemo(s.out) {
		demo = demoMark
	}
	return play(cmd, s, flags, demo)
}

func holdsRun(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, journalName))
	return err == nil
}

func noRun(dir string) error {
	return usageError("without --resume a new run begins", "%s holds no run to resume", dir)
}

// play runs the audit that s describes, and shows what it found. demo is the
// demo's mark, or "".
func play(cmd *cobra.Command, s *settings, flags *pflag.FlagSet, demo string) error {
	r, err := find(cmd, s, flags, demo)
	if err != nil || r == nil {
		return err
	}
	return show(cmd, s, r)
}

// find runs the audit that s describes, up to its files. With --dry-run it only
// says what it would do, and there is no report.
func find(cmd *cobra.Command, s *settings, flags *pflag.FlagSet, demo string) (*audit.Report, error) {
	if err := s.check(flags); err != nil {
		return nil, err
	}
	job, err := prepare(s)
	if err != nil {
		return nil, err
	}
	defer job.close()
	job.game.Header.Demo = demo != ""
	if s.dryRun {
		return nil, job.describe(cmd.OutOrStdout())
	}
	config, err := effectiveConfig(flags, demo)
	if err != nil {
		return nil, err
	}
	if demo != "" && !s.resume { // now that nothing is known to be wrong
		if err := clearDemo(s.out); err != nil {
			return nil, err
		}
	}
	if err := openRun(s, config); err != nil {
		return nil, err
	}
	defer closeRun(s)
	ui := newTalk(cmd.ErrOrStderr(), s.quiet)
	job.game.Progress, job.crafting = ui.progress, ui.craft
	result, err := job.game.Run(cmd.Context())
	ui.done()
	if err != nil {
		return nil, runError(err, s, ui, demo)
	}
	if err := finishRun(s.out, result, job); err != nil {
		return nil, &failure{exitRun, err, "all audits are done: aviary audit --resume --out " + shellQuote(s.out) + " writes the report once that is mended"}
	}
	return result, nil
}

// openRun makes the run directory of a new run, which must be empty but for
// what the same run may have left if it was killed before it began.
func openRun(s *settings, config []byte) error {
	if s.resume {
		return nil
	}
	path := filepath.Join(s.out, configName)
	if same(path, s.config) {
		return usageError("keep it elsewhere, or choose another --out", "%s is in the run directory, which gets its own", s.config)
	}
	entries, err := os.ReadDir(s.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return inputError(err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		if e.Name() == configName {
			before, err := os.ReadFile(path)
			return err == nil && bytes.Equal(before, config)
		}
		return strings.HasPrefix(e.Name(), "."+configName+".tmp-")
	})
	if len(entries) > 0 {
		hint := "choose another --out"
		if _, err := os.Stat(filepath.Join(s.out, journalName)); err == nil {
			hint = "finish it with --resume, or " + hint
		}
		return usageError(hint, "%s is there already and not empty", s.out)
	}
	if err := atomicfile.MkdirAll(s.out, 0o755); err != nil {
		return inputError(err)
	}
	if err := atomicfile.RemoveTemp(s.out); err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, 0o644, config)
}

// closeRun leaves no trace of a run that never began.
func closeRun(s *settings) {
	if _, err := os.Stat(filepath.Join(s.out, journalName)); errors.Is(err, fs.ErrNotExist) {
		os.Remove(filepath.Join(s.out, configName))
		os.Remove(s.out) // fails if something else is there
	}
}

// same says whether two names are of one file.
func same(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// runError tells an interruption, a failure, and settings that only turned out
// to be wrong once they met the data: those come before any training.
func runError(err error, s *settings, ui *talk, demo string) error {
	again := "aviary audit --resume --out " + shellQuote(s.out)
	if s.resume {
		demo = "" // which begins anew, while this goes on
	}
	if demo != "" {
		again = "aviary demo"
	}
	switch {
	case errors.Is(err, context.Canceled):
		verb := "finishes it"
		if demo != "" {
			verb = "starts again"
		}
		if ui.total == 0 {
			return &failure{exitRun, errors.New("interrupted before the first audit"), again + " " + verb}
		}
		return &failure{exitRun, fmt.Errorf("interrupted after %d of %d audits", ui.finished, ui.total), again + " " + verb}
	case errors.Is(err, train.ErrDiverged):
		return &failure{exitRun, err, "it would again: choose other settings, and another --out"}
	case ui.training && s.trainer != "":
		return &failure{exitRun, err, again + " goes on once the trainer is mended; another command needs another --out"}
	case ui.training:
		return &failure{exitRun, err, again + " goes on once that is mended"}
	case errors.Is(err, syscall.ENOSPC):
		return &failure{exitRun, err, again + " goes on once there is room"}
	}
	return inputError(err)
}

// finishRun writes all that follows from the scores, the manifest last.
func finishRun(dir string, r *audit.Report, job *job) error {
	if err := report.Write(dir, r, loader(dir)); err != nil {
		return err
	}
	return writeManifest(dir, r, job.inputs, job.deviceName)
}

// show prints the result and applies the gates.
func show(cmd *cobra.Command, s *settings, r *audit.Report) error {
	out := cmd.OutOrStdout()
	if s.json {
		text, err := report.JSON(r)
		if err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	} else {
		if err := report.Text(out, r); err != nil {
			return err
		}
		fmt.Fprintf(out, "\nreport: %s\n", filepath.Join(s.out, report.HTMLFile))
	}
	return gates(s, r)
}

// gates is an error if a figure is above what the user set.
func gates(s *settings, r *audit.Report) error {
	var crossed []string
	for _, m := range r.Methods {
		for _, g := range []struct {
			name         string
			value, limit float64
			flag         string
		}{{"AUC", m.AUC.Mean, s.failAUC, "fail-if-auc-above"}, {"TPR at 5 % FPR", m.TPR.Mean, s.failTPR, "fail-if-tpr-above"}} {
			if !(g.value <= g.limit) {
				crossed = append(crossed, fmt.Sprintf("%s of %s canaries is %.4f, above --%s %v", g.name, m.Name, g.value, g.flag, g.limit))
			}
		}
	}
	if len(crossed) == 0 {
		return nil
	}
	return &failure{exitGate, errors.New("gate crossed: " + strings.Join(crossed, "; ")), ""}
}
