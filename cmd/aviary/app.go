package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes; scripts rely on them.
const (
	exitDone  = 0
	exitGate  = 1 // a gate the user set was crossed, or verify found a difference
	exitUsage = 2 // a command line, configuration or input that cannot be used
	exitRun   = 3 // the work failed or was interrupted
)

// failure is an error with its exit code and, perhaps, what to do about it.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usageError(hint, format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), hint}
}

// inputError marks err as the fault of what the user gave.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	return &failure{exitUsage, err, ""}
}

// run is the whole program but for the process around it: results go to
// stdout, everything else to stderr, and the exit code is returned.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	started := false // what fails before that is the command line
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCompletion(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	var f *failure
	switch {
	case errors.As(err, &f):
	case started:
		f = &failure{code: exitRun, err: err}
	default:
		f = &failure{code: exitUsage, err: err}
	}
	fmt.Fprintf(stderr, "aviary: %s\n", strings.TrimPrefix(err.Error(), "aviary: "))
	if f.hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", f.hint)
	}
	return f.code
}

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "aviary",
		Short: "Audit how much a trained model gives away of its training data",
		Long: `Aviary measures how much a trained model gives away of what it was trained on.
It hides canaries in the training data, each by the toss of a coin, trains once,
and tells from the finished model which way the coins fell.

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 a gate
you set was crossed or verify found a difference, 2 usage or input error,
3 run error or interrupted.`,
		Example: `  aviary demo
  aviary audit --data mnist --canaries random,mislabeled --out runs/first
  aviary verify runs/first`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault)
	root.AddCommand(demoCommand(), auditCommand(), craftCommand(), embedCommand(), accountCommand(), boundCommand(), reportCommand(), verifyCommand(), mergeCommand(), peCommand(),
		selftestCommand(), devicesCommand(), versionCommand())
	root.Version = programVersion()
	root.SetVersionTemplate(versionText())
	root.SetHelpCommand(helpCommand())
	return root
}

// addCompletion adds cobra's command, which takes an unknown shell for none. It
// keeps the output that root has now.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = noSuchCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// helpCommand is cobra's, but for unknown commands, which are errors.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil {
				return &failure{exitUsage, err, ""}
			}
			if err := noSuchCommand(of, rest); err != nil {
				return err
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// noSuchCommand is the argument check of commands that only have sub-commands.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return usageError(didYouMean(args[0], names, cmd.CommandPath()+" --help lists the commands"),
		"unknown command %q for %q", args[0], cmd.CommandPath())
}

// arguments checks that there are as many arguments as there are names.
func arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch n := len(names); {
		case len(args) < n:
			return usageError("usage: "+cmd.UseLine(), "%s is missing", names[len(args)])
		case len(args) > n:
			return usageError("usage: "+cmd.UseLine(), "unexpected argument %q", args[n])
		}
		return nil
	}
}

// flagError names a flag that was probably meant.
func flagError(cmd *cobra.Command, err error) error {
	hint := cmd.CommandPath() + " --help lists the flags"
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return usageError(hint, "--%s is %q, expected %s", invalid.GetFlag().Name, invalid.GetValue(), expected(invalid.GetFlag(), err))
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		hint = didYouMean("--"+unknown.GetSpecifiedName(), names, hint)
	}
	return usageError(hint, "%s", err)
}

// didYouMean suggests the nearest of names, if one is near enough to be a slip.
func didYouMean(got string, names []string, otherwise string) string {
	if best := nearest(got, names); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return otherwise
}

// nearest is the name with the smallest edit distance to got, if that is at
// most a third of its length, or 2 for short ones, else "".
func nearest(got string, names []string) string {
	best, least := "", min(max(2, len(got)/3)+1, len(got))
	for _, name := range names {
		if d := editDistance(got, name); d < least {
			best, least = name, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance: the fewest insertions, deletions
// and substitutions of bytes that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
