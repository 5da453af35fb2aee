package main

import (
	"encoding/json"
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
		return s.calibrate(flags, out)
	}
	event, err := s.event(flags)
	if err != nil {
		return err
	}
	a, err := s.account(event)
	if err != nil {
		return accountingError(err)
	}
	if s.svg != "" {
		if err := s.draw(); err != nil {
			return err
		}
	}
	if s.json {
		return printJSON(out, a)
	}
	return a.table(out, s, event)
}

// accountingError names flags, not Go packages, in an error of accounting.
func accountingError(err error) error {
	return inputError(fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "accounting: ")))
}

// event is what the flags describe: the phase of --sample-rate and its
// companions, if given, and those of --phase.
func (s *accountSettings) event(flags *pflag.FlagSet) (accounting.Event, error) {
	var relation accounting.Relation
	switch s.relation {
	case "add-remove":
	case "replace":
		relation = accounting.Replace
	default:
		return nil, usageError(didYouMean(s.relation, []string{"add-remove", "replace"}, ""),
			"--relation is %q, expected add-remove or replace", s.relation)
	}
	phase := func(q, sigma float64, steps int) accounting.Event {
		return accounting.SelfComposed{
			Event: accounting.PoissonSampledGaussian{SampleRate: q, NoiseMultiplier: sigma, Relation: relation},
			Count: steps,
		}
	}
	var all accounting.Composed
	main := flags.Changed("noise-multiplier")
	if main {
		all = append(all, phase(s.sampleRate, s.noise, s.steps))
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
		all = append(all, phase(q, sigma, steps))
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
	return q, sigma, steps, nil
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
	Epsilon    interval `json:"epsilon"`
	Opacus     *number  `json:"opacus,omitempty"`
	Delta      float64  `json:"delta"`
	Accountant string   `json:"accountant"`
	Method     string   `json:"method"`
	Order      float64  `json:"order,omitempty"` // of RDP
	Mu         *number  `json:"mu,omitempty"`    // of GDP
	noOpacus   error
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
	if a.Opacus != nil {
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

// calibrated is the answer to --target-epsilon.
type calibrated struct {
	Noise      float64  `json:"noise_multiplier"`
	Opacus     *float64 `json:"opacus_noise_multiplier,omitempty"`
	Target     float64  `json:"target_epsilon"`
	Delta      float64  `json:"delta"`
	Accountant string   `json:"accountant"`
}

// calibrate finds the noise for s.target. With rdp and gdp it is Opacus' search.
func (s *accountSettings) calibrate(flags *pflag.FlagSet, out io.Writer) error {
	for _, name := range []string{"noise-multiplier", "phase", "svg"} {
		if flags.Changed(name) {
			return usageError("", "--%s does not go with --target-epsilon, which is of one phase whose noise is sought", name)
		}
	}
	if s.relation != "add-remove" {
		return usageError("", "--relation is %q, expected add-remove with --target-epsilon", s.relation)
	}
	n := accounting.Noise{SampleRate: s.sampleRate, Steps: s.steps, Delta: s.delta}
	c := calibrated{Target: s.target, Delta: s.delta, Accountant: s.accountant}
	opacus, err := n.CalibrateOpacus(s.target, accounting.OpacusKind(s.accountant))
	switch {
	case err == nil:
		c.Noise, c.Opacus = opacus, &opacus
	case s.accountant != "prv":
		return accountingError(err)
	}
	if s.accountant == "prv" {
		if c.Noise, err = n.Calibrate(s.target); err != nil {
			return accountingError(err)
		}
	}
	if s.json {
		return printJSON(out, c)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, v float64, what string) { fmt.Fprintf(t, "%s\t%s\t%s\n", name, formatFloat(v), what) }
	first := func() { row("noise multiplier", c.Noise, "the least for which ε is at most "+formatFloat(s.target)) }
	if s.accountant == "prv" && !s.opacus {
		first()
	}
	if c.Opacus != nil {
		row("opacus", *c.Opacus, "what Opacus' get_noise_multiplier finds with "+s.accountant)
	}
	if s.opacus {
		first()
	}
	return t.Flush()
}

// draw plots ε against the number of steps.
func (s *accountSettings) draw() error {
	if len(s.phases) > 0 {
		return usageError("", "--svg draws one phase, not --phase")
	}
	if s.steps < 1 {
		return usageError("", "--svg with --steps %d, expected 1 or more", s.steps)
	}
	var steps, tight, rdp []float64
	const points = 24
	last := 0
	for i := range points {
		n := int(math.Round(math.Pow(float64(s.steps), float64(i+1)/points)))
		if n == last {
			continue
		}
		last = n
		e := accounting.DPSGD(s.sampleRate, s.noise, n)
		curve, err := accounting.NewCurve(e, s.delta)
		if err != nil {
			return accountingError(err)
		}
		v, err := curve.Epsilon(s.delta)
		if err != nil {
			return accountingError(err)
		}
		r, _, err := accounting.RDPEpsilon(e, s.delta)
		if err != nil {
			return accountingError(err)
		}
		if math.IsInf(v.Upper, 1) {
			return usageError("", "--svg: epsilon is infinite without noise")
		}
		steps, tight, rdp = append(steps, float64(n)), append(tight, v.Upper), append(rdp, r)
	}
	text, err := epsilonSVG(fmt.Sprintf("ε at δ = %g, rate %g, noise %g", s.delta, s.sampleRate, s.noise), steps, tight, rdp)
	if err != nil {
		return err
	}
	return atomicfile.WriteBytes(s.svg, 0o644, text)
}
