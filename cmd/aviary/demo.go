package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/journal"
	"github.com/aviary-audit/aviary/report"
)

// demoMark begins the config.yaml of a demo: where it is, the demo may
// overwrite.
const demoMark = "# Settings of aviary demo."

// demoSettings are what the demo changes of the defaults.
var demoSettings = [][2]string{
	{"data", "mnist-t10k"}, {"canaries", "random,mislabeled"}, {"num-canaries", "500"},
	{"sets", "5"}, {"audits", "2"}, {"epochs", "7"}, {"out", "aviary-demo"},
}

func demoCommand() *cobra.Command {
	all, s := allFlags()
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Audit a small network on real digits and write a report, in under two minutes",
		Long: `Audit a network on the 10,000 digits that are built in: once with canaries that
are ordinary digits, once with digits under a wrong label, which a network must
memorise to fit. The second kind gives itself away.`,
		Example: "  aviary demo",
		Args:    arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, v := range demoSettings {
				if f := all.Lookup(v[0]); !f.Changed {
					if err := all.Set(v[0], v[1]); err != nil {
						return err
					}
				}
			}
			return play(cmd, s, all, demoMark)
		},
	}
	for _, name := range []string{"out", "seed", "threads", "device", "limit", "epochs", "json", "quiet"} {
		cmd.Flags().AddFlag(all.Lookup(name))
	}
	cmd.Flags().Lookup("out").Usage = "run directory (`DIR`), aviary-demo if not given; an earlier demo there is overwritten"
	return cmd
}

// clearDemo removes what an earlier demo left in dir, and nothing else. It
// refuses a folder that holds anything else before it removes anything.
func clearDemo(dir string) error {
	config, err := os.ReadFile(filepath.Join(dir, configName))
	if errors.Is(err, fs.ErrNotExist) || err != nil && !isDir(dir) {
		return nil // nothing of a demo is there; play refuses what else is
	}
	if err != nil {
		return inputError(err)
	}
	if !bytes.HasPrefix(config, []byte(demoMark)) {
		return usageError("choose another --out", "%s holds a run that is not a demo", dir)
	}
	if err := journal.Free(filepath.Join(dir, journalName)); err != nil {
		return &failure{exitUsage, err, "wait for it, or choose another --out"}
	}
	if err := atomicfile.RemoveTemp(dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return inputError(err)
	}
	made := append(report.Files(), manifestName, "canaries", "scores", "state", "models", journalName)
	for _, e := range entries {
		if e.Name() != configName && !slices.Contains(made, e.Name()) {
			return usageError("choose another --out", "%s is there already and not empty: %s is not the demo's", dir, e.Name())
		}
	}
	for _, name := range made {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.Remove(filepath.Join(dir, configName)) // last: until then it is a demo's
}

// isDemo says whether the run in dir was begun as a demo.
func isDemo(dir string) bool {
	config, err := os.ReadFile(filepath.Join(dir, configName))
	return err == nil && bytes.HasPrefix(config, []byte(demoMark))
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
