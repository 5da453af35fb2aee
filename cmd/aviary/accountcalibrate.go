package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aviary-audit/aviary/audit/accounting"
)

// calibrated is the answer to --target-epsilon.
type calibrated struct {
	Noise      float64  `json:"noise_multiplier"`
	Opacus     *float64 `json:"opacus_noise_multiplier"` // null if Opacus finds none
	Target     float64  `json:"target_epsilon"`
	Delta      float64  `json:"delta"`
	Accountant string   `json:"accountant"`
	noOpacus   error
}

// calibrate finds the noise for s.target. With rdp and gdp it is Opacus' search.
func (s *accountSettings) calibrate(cmd *cobra.Command) error {
	for _, name := range []string{"noise-multiplier", "phase", "svg"} {
		if cmd.Flags().Changed(name) {
			return usageError("", "--%s does not go with --target-epsilon, which is of one phase whose noise is sought", name)
		}
	}
	if s.relation != "add-remove" {
		return usageError("", "--relation is %q, expected add-remove with --target-epsilon", s.relation)
	}
	c, err := patiently(cmd, "account", s.noiseFor)
	if err != nil {
		return err
	}
	if s.json {
		return printJSON(cmd.OutOrStdout(), c)
	}
	return c.table(cmd.OutOrStdout(), s)
}

// noiseFor is the noise for s.target.
func (s *accountSettings) noiseFor() (*calibrated, error) {
	n := accounting.Noise{SampleRate: s.sampleRate, Steps: s.steps, Delta: s.delta}
	c := &calibrated{Target: s.target, Delta: s.delta, Accountant: s.accountant}
	needless := s.needsNoNoise()
	if s.accountant == "prv" || needless {
		var err error
		if c.Noise, err = n.Calibrate(s.target); err != nil {
			return nil, s.notReached(err)
		}
	}
	if needless { // Opacus' search would have no end
		c.noOpacus = errors.New("no noise is needed: a record is seen at all with a probability of at most δ")
		return c, nil
	}
	opacus, err := n.CalibrateOpacus(s.target, accounting.OpacusKind(s.accountant))
	switch {
	case err == nil:
		c.Opacus = &opacus
	case s.accountant != "prv":
		return nil, s.notReached(err)
	}
	c.noOpacus = err
	if s.accountant != "prv" {
		c.Noise = opacus
	}
	return c, nil
}

// needsNoNoise reports whether a record stays out of all steps so surely that δ
// covers the rest.
func (s *accountSettings) needsNoNoise() bool {
	return s.steps == 0 || -math.Expm1(float64(s.steps)*math.Log1p(-s.sampleRate)) <= s.delta
}

// notReached says of an error in a search what was sought.
func (s *accountSettings) notReached(err error) error {
	text := strings.TrimPrefix(err.Error(), "accounting: ")
	if strings.Contains(text, "grid") || strings.Contains(text, "too little noise") {
		text = fmt.Sprintf("--target-epsilon %v: the search for its noise ended at %s", s.target, text)
	}
	return inputError(errors.New(text))
}

func (c *calibrated) table(w io.Writer, s *accountSettings) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, v, what string) { fmt.Fprintf(t, "%s\t%s\t%s\n", name, v, what) }
	first := func() {
		row("noise multiplier", formatFloat(c.Noise), "the least for which ε is at most "+formatFloat(c.Target))
	}
	if s.accountant == "prv" && !s.opacus {
		first()
	}
	if c.Opacus != nil {
		row("opacus", formatFloat(*c.Opacus), "what Opacus' get_noise_multiplier finds with "+c.Accountant)
	} else {
		row("opacus", "-", strings.TrimPrefix(c.noOpacus.Error(), "accounting: "))
	}
	if s.opacus {
		first()
	}
	return t.Flush()
}
