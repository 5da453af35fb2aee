package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit/accounting"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// accountSettings are the flags of account.
type accountSettings struct {
	sampleRate, noise, delta float64
	steps                    int
	phases                   []string
	target                   float64
	relation, accountant     string
	opacus, json             bool
	svg                      string
}

func accountCommand() *cobra.Command {
	s := &accountSettings{}
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Say which ε a mechanism has, or how much noise an ε needs",
		Long: `Say which (ε, δ) DP-SGD has, or how much noise a target ε needs.

Every step draws its batch anew, each example with probability Q, and adds noise
of standard deviation S times the clip norm. More phases are more such runs on
the same data. Q = 1 is the plain Gaussian mechanism.

The answer of prv is tight: the exact ε lies between a lower and an upper bound
at most 0.0002 apart, for a record removed and a record added. Opacus prints
about 0.01 more. rdp is an upper bound, gdp an approximation that may be below
the truth.`,
		Example: `  aviary account --sample-rate 0.01 --noise-multiplier 1 --steps 10000 --delta 1e-5
  aviary account --phase 0.01,1,1000 --phase 0.02,2,500 --delta 1e-6 --json
  aviary account --target-epsilon 8 --sample-rate 0.04 --steps 1250 --delta 1e-5`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runAccount(cmd, s) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64Var(&s.sampleRate, "sample-rate", 1, "probability (`Q`) with which an example joins a step")
	f.Float64Var(&s.noise, "noise-multiplier", 0, "standard deviation of the noise in units of the clip norm (`S`)")
	f.IntVar(&s.steps, "steps", 1, "number of steps (`T`)")
	f.Float64Var(&s.delta, "delta", defaultDelta, "the δ (`D`) of (ε, δ)")
	f.StringArrayVar(&s.phases, "phase", nil, "another phase, `Q,S,T`; may be given often")
	f.Float64Var(&s.target, "target-epsilon", 0, "find the noise multiplier for this ε (`E`)")
	f.StringVar(&s.relation, "relation", "add-remove", "`WHICH` data sets are neighbours: add-remove or replace")
	f.StringVar(&s.accountant, "accountant", "prv", "`HOW` to account: prv, rdp or gdp")
	f.BoolVar(&s.opacus, "opacus", false, "put the number that Opacus prints first")
	f.StringVar(&s.svg, "svg", "", "also draw ε against the steps into `FILE`")
	f.BoolVar(&s.json, "json", false, "print JSON; an infinite ε is null")
	return cmd
}

// defaultDelta is the δ at which ε is told if no other is asked for.
const defaultDelta = 1e-5

func runAccount(cmd *cobra.Command, s *accountSettings) error {
	out, flags := cmd.OutOrStdout(), cmd.Flags()
	if s.accountant != "prv" && s.accountant != "rdp" && s.accountant != "gdp" {
		return usageError(didYouMean(s.accountant, []string{"prv", "rdp", "gdp"}, ""),
			"--accountant is %q, expected prv, rdp or gdp", s.accountant)
	}
	if s.opacus && s.accountant != "prv" {
		return usageError("", "--opacus goes with --accountant prv, not %s", s.accountant)
	}
	if flags.Changed("target-epsilon") {
		return s.calibrate(cmd)
	}
	relation, err := s.neighbours()
	if err != nil {
		return err
	}
	event, err := s.event(flags, relation)
	if err != nil {
		return err
	}
	if flags.Changed("svg") {
		if err := s.checkDraw(); err != nil {
			return err
		}
	}
	var plot []byte
	a, err := patiently(cmd, "account", func() (*account, error) {
		a, err := s.account(event)
		if err == nil && s.svg != "" {
			plot, err = s.draw(relation)
		}
		return a, accountingError(err)
	})
	if err != nil {
		return err
	}
	if s.svg != "" {
		if err := atomicfile.WriteBytes(s.svg, 0o644, plot); err != nil {
			return err
		}
	}
	if s.json {
		return printJSON(out, a)
	}
	return a.table(out, s, event)
}

// patiently does work that may take long, and tells so.
func patiently[T any](cmd *cobra.Command, label string, work func() (T, error)) (T, error) {
	step, end := slowly(cmd.ErrOrStderr(), label, 1)
	defer end()
	value, err := interruptible(cmd.Context(), work)
	if err == nil {
		step()
	}
	return value, err
}

// accountingError names no Go package in an error of accounting.
func accountingError(err error) error {
	var f *failure
	if err == nil || errors.As(err, &f) {
		return err
	}
	return inputError(fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "accounting: ")))
}

// neighbours is what --relation says.
func (s *accountSettings) neighbours() (accounting.Relation, error) {
	switch s.relation {
	case "add-remove":
		return accounting.AddRemove, nil
	case "replace":
		return accounting.Replace, nil
	}
	return 0, usageError(didYouMean(s.relation, []string{"add-remove", "replace"}, ""),
		"--relation is %q, expected add-remove or replace", s.relation)
}

func phaseOf(q, sigma float64, steps int, relation accounting.Relation) accounting.Event {
	return accounting.SelfComposed{
		Event: accounting.PoissonSampledGaussian{SampleRate: q, NoiseMultiplier: sigma, Relation: relation},
		Count: steps,
	}
}

// event is what the flags describe: the phase of --sample-rate and its
// companions, if given, and those of --phase.
func (s *accountSettings) event(flags *pflag.FlagSet, relation accounting.Relation) (accounting.Event, error) {
	var all accounting.Composed
	main := flags.Changed("noise-multiplier")
	if main {
		all = append(all, phaseOf(s.sampleRate, s.noise, s.steps, relation))
	}
	for _, name := range []string{"sample-rate", "steps"} {
		if !main && (flags.Changed(name) || len(s.phases) == 0) {
			return nil, usageError("give --noise-multiplier S, or --target-epsilon E to find it", "--noise-multiplier is missing")
		}
	}
	for _, text := range s.phases {
		q, sigma, steps, err := parsePhase(text)
		if err != nil {
			return nil, err
		}
		all = append(all, phaseOf(q, sigma, steps, relation))
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

func parsePhase(text string) (q, sigma float64, steps int, err error) {
	fields := strings.Split(text, ",")
	if len(fields) != 3 {
		return 0, 0, 0, usageError("as in --phase 0.01,1,1000", "--phase is %q, expected Q,S,T", text)
	}
	var errs [3]error
	q, errs[0] = strconv.ParseFloat(strings.TrimSpace(fields[0]), 64)
	sigma, errs[1] = strconv.ParseFloat(strings.TrimSpace(fields[1]), 64)
	steps, errs[2] = strconv.Atoi(strings.TrimSpace(fields[2]))
	for i, want := range []string{"a sample rate", "a noise multiplier", "a whole number of steps"} {
		if errs[i] != nil {
			return 0, 0, 0, usageError("as in --phase 0.01,1,1000", "--phase %q: %q is not %s", text, fields[i], want)
		}
	}
	switch { // here, where it is known which phase it is
	case !(q >= 0 && q <= 1):
		err = usageError("", "--phase %q: the sample rate is %v, expected a probability, from 0 to 1", text, q)
	case !(sigma >= 0):
		err = usageError("", "--phase %q: the noise multiplier is %v, expected a number from 0 up", text, sigma)
	case steps < 0:
		err = usageError("", "--phase %q: the number of steps is %d, expected 0 or more", text, steps)
	}
	return q, sigma, steps, err
}

// number is a float that JSON can hold: null if infinite.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(n), 0) || math.IsNaN(float64(n)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// interval is the JSON form of bounds around an ε; what an accountant does not
// say is left out.
type interval struct {
	Lower    *number `json:"lower,omitempty"`
	Estimate *number `json:"estimate,omitempty"`
	Upper    *number `json:"upper,omitempty"`
}

// account is the answer of the command.
type account struct {
	Epsilon interval `json:"epsilon"`
	*opacusSays
	Delta      float64 `json:"delta"`
	Accountant string  `json:"accountant"`
	Method     string  `json:"method"`
	Order      float64 `json:"order,omitempty"` // of RDP
	Mu         *number `json:"mu,omitempty"`    // of GDP
	noOpacus   error
}

// opacusSays is the number that Opacus prints, a field that is there for prv
// alone, and null where Opacus has none or it is infinite.
type opacusSays struct {
	Opacus *number `json:"opacus"`
}

func (s *accountSettings) account(e accounting.Event) (*account, error) {
	a := &account{Delta: s.delta, Accountant: s.accountant}
	some := func(v float64) *number { n := number(v); return &n }
	switch s.accountant {
	case "rdp":
		eps, order, err := accounting.RDPEpsilon(e, s.delta)
		if err != nil {
			return nil, err
		}
		a.Epsilon.Upper, a.Order, a.Method = some(eps), order, "RDP, an upper bound"
	case "gdp":
		g, err := accounting.GDPEpsilon(e, s.delta)
		if err != nil {
			return nil, err
		}
		a.Mu = some(g.Mu)
		if a.Epsilon.Estimate = some(g.Epsilon); g.Approximate {
			a.Method = "GDP, an approximation that may be below the truth"
		} else {
			a.Method = "GDP, exact"
			a.Epsilon.Lower, a.Epsilon.Upper = a.Epsilon.Estimate, a.Epsilon.Estimate
		}
	default:
		curve, err := accounting.NewCurve(e, s.delta)
		if err != nil {
			return nil, err
		}
		v, err := curve.Epsilon(s.delta)
		if err != nil {
			return nil, err
		}
		a.Epsilon, a.Method = interval{some(v.Lower), some(v.Estimate), some(v.Upper)}, curve.Method()
		a.opacusSays = &opacusSays{}
		if o, err := accounting.Opacus(e, s.delta); err == nil {
			a.Opacus = some(o.Upper)
		} else {
			a.noOpacus = err
		}
	}
	return a, nil
}

// table prints a for people, bounds rounded outwards.
func (a *account) table(w io.Writer, s *accountSettings, e accounting.Event) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "mechanism\t%s\n", mechanism(e))
	fmt.Fprintf(t, "neighbours\t%s\n", s.relation)
	fmt.Fprintf(t, "delta\t%g\n\n", a.Delta)
	var rows []string
	v := a.Epsilon
	switch {
	case v.Upper != nil && v.Lower != nil:
		rows = append(rows, fmt.Sprintf("epsilon\t%s\tbetween %s and %s, by %s\n",
			decimals(float64(*v.Upper), math.Ceil), decimals(float64(*v.Lower), math.Floor), decimals(float64(*v.Upper), math.Ceil), a.Method))
	case v.Upper != nil:
		rows = append(rows, fmt.Sprintf("epsilon\t%s\tby %s, order %g\n", decimals(float64(*v.Upper), math.Ceil), a.Method, a.Order))
	default:
		rows = append(rows, fmt.Sprintf("epsilon\t%s\tby %s, mu %.6g\n", decimals(float64(*v.Estimate), math.Round), a.Method, float64(*a.Mu)))
	}
	if a.opacusSays != nil && a.Opacus != nil {
		rows = append(rows, fmt.Sprintf("opacus\t%s\tas Opacus prints it: add/remove, with 0.01 for its grid\n", decimals(float64(*a.Opacus), math.Round)))
	} else if a.noOpacus != nil {
		rows = append(rows, fmt.Sprintf("opacus\t-\t%s\n", strings.TrimPrefix(a.noOpacus.Error(), "accounting: ")))
	}
	if s.opacus && len(rows) == 2 {
		rows[0], rows[1] = rows[1], rows[0]
	}
	for _, row := range rows {
		fmt.Fprint(t, row)
	}
	return t.Flush()
}

// mechanism names an event, its phases one by one.
func mechanism(e accounting.Event) string {
	phases, ok := e.(accounting.Composed)
	if !ok {
		return e.Name()
	}
	var names []string
	for _, p := range phases {
		names = append(names, p.Name())
	}
	return strings.Join(names, "; ")
}

// decimals writes v with six decimals, rounded by round.
func decimals(v float64, round func(float64) float64) string {
	if math.IsInf(v, 1) {
		return "∞"
	}
	return strconv.FormatFloat(round(v*1e6)/1e6, 'f', 6, 64)
}

func printJSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", text)
	return err
}
