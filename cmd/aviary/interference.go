package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/audit/multirun"
)

// interferenceSettings are the flags of audit interference.
type interferenceSettings struct {
	trialSettings
	toggled, subsets int
}

func interferenceCommand() *cobra.Command {
	cmd, _ := newInterferenceCommand()
	return cmd
}

func newInterferenceCommand() (*cobra.Command, *interferenceSettings) {
	s := &interferenceSettings{trialSettings: trialSettings{command: "interference"}}
	cmd := &cobra.Command{
		Use:   "interference",
		Short: "Measure how much canaries disturb each other",
		Long: `Measure how much the canaries of a set disturb each other, by toggling.

For random subsets S of the set and canaries z drawn from it, a model is trained
on S with z and on S without it; the gap Δ(z, S) is how much that changes the
score of z. Were there no interference, it would not depend on S. The measure is
the mean over z of the variance of Δ(z, S) over S, divided by the squared mean
gap (arXiv:2605.27292). A subset costs one training, and one for each z.

All trainings share their seed and the order of their batches: a canary that is
out leaves its place to a second copy of a training example.

The folder holds result.json with all gaps.`,
		Example: `  aviary craft --sets 1 --out ibis.npz
  aviary audit interference --canaries ibis.npz --toggled 20 --subsets 10 --out interference
  aviary audit interference --resume --out interference`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runInterference(cmd, s) },
	}
	s.flags(cmd.Flags(), func() {
		cmd.Flags().IntVar(&s.toggled, "toggled", 20, "canaries (`N`) that are toggled, drawn from the set")
		cmd.Flags().IntVar(&s.subsets, "subsets", 10, "subsets (`N`) of the other canaries")
	})
	return cmd, s
}

func runInterference(cmd *cobra.Command, s *interferenceSettings) error {
	flags := cmd.Flags()
	if err := s.start(flags); err != nil {
		return err
	}
	if err := checkInts([]intSetting{{"toggled", s.toggled, 1, most}, {"subsets", s.subsets, 2, most}}); err != nil {
		return err
	}
	j, c, err := s.open()
	if err != nil {
		return err
	}
	if s.toggled > c.Len() {
		return usageError("", "--toggled is %d, expected at most the %d canaries of set %d", s.toggled, c.Len(), s.set)
	}
	design := multirun.Design{Interference: &multirun.Interference{Set: s.set, Canaries: c.Len(), Toggled: s.toggled, Subsets: s.subsets, Seed: s.seed}}
	losses, err := s.run(cmd, flags, j, c, design)
	if err != nil || losses == nil {
		return err
	}
	return conclude(cmd, s.out, design, losses, worldRule{}, s.delta, s.json)
}

func concludeInterference(cmd *cobra.Command, dir string, f multirun.Interference, losses [][]float64, asJSON bool) error {
	m, err := f.Measure(losses)
	if err != nil {
		return err
	}
	result := struct {
		Design multirun.Interference `json:"design"`
		*multirun.Measured
	}{f, m}
	if err := writeResult(dir, result); err != nil {
		return err
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), result)
	}
	return interferenceTable(cmd.OutOrStdout(), f, m)
}

func interferenceTable(w io.Writer, f multirun.Interference, m *multirun.Measured) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "canary\tmean gap\tvariance\tvariance / mean²")
	for _, c := range m.Canaries {
		fmt.Fprintf(t, "%d\t%.4f\t%.4f\t%s\n", c.Canary, c.Mean, c.Variance, orDash(c.Ratio))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, `
%d canaries of set %d in %d subsets: mean gap %.4f
interference, mean variance / squared mean gap: %s
median of the canaries' own: %s
`, f.Toggled, f.Set, f.Subsets, m.MeanGap, withInterval(m.Ratio), withInterval(m.Median))
	return err
}

func orDash(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.4f", *v)
}

func withInterval(i multirun.Interval) string {
	return fmt.Sprintf("%s (95 %%: %s to %s)", orDash(i.Value), orDash(i.Low), orDash(i.High))
}
