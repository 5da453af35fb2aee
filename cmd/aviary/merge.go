package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit/multirun"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

func mergeCommand() *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "merge OUT DIR...",
		Short: "Put the shards of an audit of many trainings together",
		Long: `Put the shards of audit multi or audit interference, each in a folder DIR of its
own, together in the new folder OUT, and print what they show. The results have
the same bytes as those of one run with --shard 1/1.`,
		Example: `  aviary merge whole part1 part2 part3`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return arguments("OUT", "DIR")(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runMerge(cmd, args[0], args[1:], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON instead of a table")
	return cmd
}

func runMerge(cmd *cobra.Command, out string, dirs []string, asJSON bool) error {
	// Bounds are as the first shard's settings say.
	config, multi, err := shardConfig(dirs[0])
	if err != nil {
		return err
	}
	design, losses, err := multirun.Merge(out, dirs...)
	if err != nil {
		return inputError(err)
	}
	if err := atomicfile.WriteBytes(filepath.Join(out, configName), 0o644, config); err != nil {
		return err
	}
	return conclude(cmd, out, design, losses, multi.worldRule, multi.delta, asJSON)
}

// shardConfig is the configuration of the shard in dir, as that of a whole job.
func shardConfig(dir string) ([]byte, *multiSettings, error) {
	path := filepath.Join(dir, configName)
	if _, err := os.Stat(path); err != nil {
		return nil, nil, usageError("", "%s holds no shard: %w", dir, err)
	}
	var err error
	for _, of := range []func() (*pflag.FlagSet, *multiSettings){
		func() (*pflag.FlagSet, *multiSettings) { c, s := newMultiCommand(); return c.Flags(), s },
		func() (*pflag.FlagSet, *multiSettings) {
			c, s := newInterferenceCommand()
			return c.Flags(), &multiSettings{trialSettings: s.trialSettings}
		},
	} {
		flags, s := of()
		if err = loadConfig(path, flags); err != nil {
			continue
		}
		if err = flags.Set("shard", "1/1"); err != nil {
			return nil, nil, err
		}
		config, err := effectiveConfig(flags, "")
		return config, s, err
	}
	return nil, nil, err
}
