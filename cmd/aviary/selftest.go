package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/audit/onerun"
)

func selftestCommand() *cobra.Command {
	var seed uint64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Audit mechanisms whose privacy is known exactly",
		Long: fmt.Sprintf(`Audit mechanisms whose privacy is known exactly, and compare. Then break the
scores on purpose, which must be noticed. A program without fault fails this for
%g of all seeds.`, onerun.FalseAlarm),
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, err := onerun.SelfTest(cmd.Context(), seed)
			if err != nil {
				return err
			}
			failed := 0
			for _, c := range checks {
				if !c.OK {
					failed++
				}
			}
			if err := showChecks(cmd, checks, asJSON); err != nil {
				return err
			}
			if failed > 0 || len(checks) == 0 {
				return &failure{exitRun, fmt.Errorf("%d of %d checks failed", failed, len(checks)), "trust no audit of this program"}
			}
			return nil
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`seed` of all randomness")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the checks as JSON")
	return cmd
}

func showChecks(cmd *cobra.Command, checks []onerun.SelfCheck, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(cmd.OutOrStdout())
		e.SetIndent("", "  ")
		return e.Encode(checks)
	}
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "mechanism\tfigure\texact\tfound\ttolerance\tverdict\tbroken on purpose")
	for _, c := range checks {
		verdict, planted := "ok", "-"
		if c.Planted != "" {
			verdict, planted = "caught", c.Planted
		}
		if !c.OK {
			verdict = "FAILED"
		}
		fmt.Fprintf(t, "%s\t%s\t%.4f\t%.4f\t%.4f\t%s\t%s\n", c.Mechanism, c.Figure, c.Want, c.Got, c.Tolerance, verdict, planted)
	}
	return t.Flush()
}
