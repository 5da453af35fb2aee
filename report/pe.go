package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"path/filepath"
	"strconv"

	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// AttacksFile is the table of a Private Evolution audit, one canary a line.
const AttacksFile = "attacks.csv"

// PESchema is the schema of report.json of such audits.
const PESchema = "aviary/pe-report/1"

// PE is the report of an audit of Private Evolution.
type PE struct {
	Schema   string      `json:"schema"`
	Version  string      `json:"version"`
	Seed     uint64      `json:"seed"`
	Users    string      `json:"users"`
	Bank     string      `json:"bank"`
	Encoder  string      `json:"encoder"`
	Rewriter string      `json:"paraphrases,omitempty"`
	Device   string      `json:"device"`
	Setting  PESetting   `json:"setting"`
	Theory   PETheory    `json:"theory"`
	Ceiling  PEExpected  `json:"ceiling"` // of a perfect canary with this number of trials
	Attacks  []PEAttack  `json:"attacks"`
	ByTrials []PEByTrial `json:"by_trials"`
	Notes    []string    `json:"notes,omitempty"`
	Findings []PEFinding `json:"findings,omitempty"`
}

// PESetting is what was audited, and how.
type PESetting struct {
	Slots       int     `json:"slots"`
	K           int     `json:"k"`
	Cap         int     `json:"record_cap"`
	Clip        float64 `json:"clip"`
	Noise       float64 `json:"noise_multiplier"`
	Rate        float64 `json:"sample_rate"`
	Eligible    int     `json:"eligible_users"`
	Auxiliary   int     `json:"auxiliary_users"`
	Calibration int     `json:"calibration_users"`
	Test        int     `json:"test_users"`
	Probes      int     `json:"probes"`
	Pool        int     `json:"pool"`
	Trials      int     `json:"trials"`
	Canaries    int     `json:"canaries"`
	Alpha       float64 `json:"alpha"`
	Delta       float64 `json:"delta"`
	Bounds      int     `json:"bounds"`
	Rule        string  `json:"threshold_rule"`
}

// PETheory is the ε of the mechanism.
type PETheory struct {
	Lower    float64  `json:"lower"`
	Estimate float64  `json:"estimate"`
	Upper    float64  `json:"upper"`
	Opacus   float64  `json:"opacus"`
	Reverse  *float64 `json:"reverse_limit,omitempty"`
}

// PEExpected is what audits print on average: one canary, the best of all, and what
// 95 % of the best are below.
type PEExpected struct {
	Mean float64 `json:"mean"`
	Best float64 `json:"best"`
	High float64 `json:"high"`
}

// PEAttack is one attack, and the largest of its canaries' figures.
type PEAttack struct {
	Name      string     `json:"attack"`
	EpsLower  float64    `json:"eps_lower"`
	Tight     float64    `json:"eps_lower_tight"`
	Joint     float64    `json:"eps_lower_joint"`
	Corrected float64    `json:"eps_lower_all"`
	Pooled    float64    `json:"eps_lower_pooled"`
	Exact     float64    `json:"eps_exact"`
	Canaries  []PECanary `json:"canaries"`
}

// PECanary is one attack on one canary.
type PECanary struct {
	Canary     int        `json:"canary"`
	User       string     `json:"user,omitempty"`
	MuNoise    float64    `json:"mu_eff_noise"`
	Norm       float64    `json:"norm"`
	Twins      int        `json:"twins,omitempty"`
	Threshold  float64    `json:"threshold"`
	FP         int        `json:"fp"`
	TP         int        `json:"tp"`
	EpsLower   float64    `json:"eps_lower"`
	Tight      float64    `json:"eps_lower_tight"`
	Joint      float64    `json:"eps_lower_joint"`
	Corrected  float64    `json:"eps_lower_all"`
	Exact      float64    `json:"eps_exact"`
	ExactLower float64    `json:"eps_exact_lower"`
	ExactUpper float64    `json:"eps_exact_upper"`
	Expected   PEExpected `json:"expected"`
	GapCov     float64    `json:"moments_gap_covariance"`
	GapMean    float64    `json:"moments_gap_mean"`
	Votes      []float64  `json:"votes"` // of the canary at the observed slots, over C
	Curve      []PERates  `json:"trade_off"`
}

// PERates are one point of an exact trade-off curve.
type PERates struct {
	FPR float64 `json:"fpr"`
	TPR float64 `json:"tpr"`
}

// PEByTrial is what an attack's best canary would prove with so many trials.
type PEByTrial struct {
	Attack string    `json:"attack"` // "" for a perfect canary
	Trials []float64 `json:"trials"`
	Best   []float64 `json:"eps_lower"`
}

// PEFinding is something about the set-up that people should know.
type PEFinding struct {
	Severity string `json:"severity"` // "error", "warning" or "note"
	What     string `json:"what"`
	Why      string `json:"why"`
}

// WritePE makes report.json, attacks.csv and report.html in dir.
func WritePE(dir string, r *PE) error {
	if err := r.check(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	table, err := r.csv()
	if err != nil {
		return err
	}
	page, err := pePage(r)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{JSONFile, append(text, '\n')}, {AttacksFile, table}, {HTMLFile, page}} {
		if err := atomicfile.WriteBytes(filepath.Join(dir, f.name), 0o644, f.text); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what cannot be shown: figures that are no numbers, counts that are
// none of so many trials.
func (r *PE) check() error {
	if len(r.Attacks) == 0 {
		return fmt.Errorf("report: no attacks, expected at least one")
	}
	for _, a := range r.Attacks {
		if len(a.Canaries) == 0 {
			return fmt.Errorf("report: %s has no canary", a.Name)
		}
		for _, c := range a.Canaries {
			for _, v := range []float64{c.EpsLower, c.Tight, c.Joint, c.Corrected, c.Exact, c.MuNoise, c.Norm, c.Threshold, c.Expected.Mean} {
				if !finite(v) {
					return fmt.Errorf("report: %s, canary %d: %v, expected a number", a.Name, c.Canary, v)
				}
			}
			if c.FP < 0 || c.FP > r.Setting.Trials || c.TP < 0 || c.TP > r.Setting.Trials {
				return fmt.Errorf("report: %s, canary %d: %d and %d of %d trials", a.Name, c.Canary, c.FP, c.TP, r.Setting.Trials)
			}
		}
	}
	return nil
}

func (r *PE) csv() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write([]string{"attack", "canary", "user", "mu_eff_noise", "norm", "threshold", "trials", "fp", "tp",
		"eps_lower", "eps_lower_tight", "eps_lower_joint", "eps_lower_all", "eps_expected", "eps_exact", "eps_theory"})
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 8, 64) }
	for _, a := range r.Attacks {
		for _, c := range a.Canaries {
			w.Write([]string{a.Name, strconv.Itoa(c.Canary), c.User, number(c.MuNoise), number(c.Norm), number(c.Threshold),
				strconv.Itoa(r.Setting.Trials), strconv.Itoa(c.FP), strconv.Itoa(c.TP), number(c.EpsLower), number(c.Tight),
				number(c.Joint), number(c.Corrected), number(c.Expected.Mean), number(c.Exact), number(r.Theory.Upper)})
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// peView is what the template shows.
type peView struct {
	*PE
	CSS    template.CSS
	Best   *PEAttack // of the largest bound
	Charts []template.HTML
	Votes  []peVotes
}

// peVotes is a row of the heat map of votes.
type peVotes struct {
	Attack string
	Cells  []peCell
}

// peCell is a slot, darker the more of the canary's votes it has.
type peCell struct {
	Shade float64
	Vote  string
}

func pePage(r *PE) ([]byte, error) {
	v := peView{PE: r, CSS: variables() + template.CSS(chartCSS+pageCSS), Best: &r.Attacks[0]}
	for i := range r.Attacks {
		a := &r.Attacks[i]
		if a.EpsLower > v.Best.EpsLower {
			v.Best = a
		}
		c := a.best()
		row := peVotes{Attack: a.Name}
		for _, w := range c.Votes[:min(len(c.Votes), 128)] {
			row.Cells = append(row.Cells, peCell{math.Min(1, math.Sqrt(w*2)), fixed(w)})
		}
		v.Votes = append(v.Votes, row)
	}
	for i, c := range []*chart{r.tradeOffChart(), r.trialsChart()} {
		svg, err := inlineSVG(c, fmt.Sprintf("pe%d", i))
		if err != nil {
			return nil, err
		}
		v.Charts = append(v.Charts, svg)
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "pe", v); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// best is the canary whose attack has the largest exact ε.
func (a *PEAttack) best() *PECanary {
	best := &a.Canaries[0]
	for i := range a.Canaries {
		if a.Canaries[i].Exact > best.Exact {
			best = &a.Canaries[i]
		}
	}
	return best
}

// tradeOffChart draws the exact rates of each attack's best canary, and what (ε, δ)
// allows.
func (r *PE) tradeOffChart() *chart {
	const lo = 1e-6
	rates := axis{Log: true, Min: lo, Max: 1, Ticks: logTicks(lo, 1)}
	c := &chart{Title: "Trade-off curves", Width: 536, Height: 510, X: rates, Y: rates, LegendRight: true, LegendLow: true}
	c.X.Label = "false positive rate: releases without the user called with"
	c.Y.Label = "true positive rate"
	c.Desc = "Exact true positive rate against false positive rate of each attack's best canary, and the most that the mechanism allows. "
	c.Marks = append(c.Marks, mark{Ink: inkMuted, Weight: thin, Dashed: true, Points: []point{{lo, lo}, {1, 1}}})
	var most []point
	e := math.Exp(r.Theory.Upper)
	for _, x := range logGrid(lo, 1, 240) {
		most = append(most, point{x, math.Min(1, math.Min(e*x+r.Setting.Delta, 1-(1-r.Setting.Delta-x)/e))})
	}
	c.Marks = append(c.Marks, mark{Ink: inkText, Weight: bold, Dashed: true, Points: most})
	c.Legend = append(c.Legend, key{Ink: inkText, Dashed: true, Text: "most that (ε, δ) allows"})
	for i, a := range r.Attacks {
		var line []point
		for _, p := range a.best().Curve {
			if p.FPR >= lo && p.TPR >= lo {
				line = append(line, point{p.FPR, p.TPR})
			}
		}
		c.Marks = append(c.Marks, mark{Ink: ink(i), Weight: bold, Dashed: i >= len(palette), Points: line})
		c.Legend = append(c.Legend, key{Ink: ink(i), Dashed: i >= len(palette), Text: a.Name})
	}
	c.Legend = append(c.Legend, key{Ink: inkMuted, Dashed: true, Text: "chance"})
	return c
}

// trialsChart draws what can be proven against the number of trials.
func (r *PE) trialsChart() *chart {
	top := math.Max(.1, 1.9*r.Theory.Upper) // with room for the legend
	c := &chart{Title: "Bound against number of trials", Width: 536, Height: 510}
	c.Desc = "What the best of the canaries proves on average, against the number of trials, up to the ε of the mechanism."
	lo, hi := 1e4, 1e9
	c.X = axis{Log: true, Min: lo, Max: hi, Label: "trials in each world"}
	for x := lo; x <= hi*1.001; x *= 10 {
		c.X.Ticks = append(c.X.Ticks, tick{At: x, Label: fmt.Sprintf("1e%d", int(math.Round(math.Log10(x))))})
	}
	c.Y = axis{Min: 0, Max: top, Label: "lower bound on ε", Ticks: niceTicks(0, top, 6, plainNumber)}
	c.Marks = append(c.Marks, mark{Ink: inkText, Weight: bold, Dashed: true, Points: []point{{lo, r.Theory.Upper}, {hi, r.Theory.Upper}}})
	c.Legend = append(c.Legend, key{Ink: inkText, Dashed: true, Text: "ε of the mechanism"})
	for i, t := range r.ByTrials {
		m := mark{Ink: ink(i - 1), Weight: bold, Dashed: i > len(palette)}
		text := t.Attack
		if t.Attack == "" {
			m.Ink, m.Weight, text = inkMuted, thin, "perfect canary"
		}
		for k, n := range t.Trials {
			m.Points = append(m.Points, point{n, t.Best[k]})
		}
		c.Marks = append(c.Marks, m)
		c.Legend = append(c.Legend, key{Ink: m.Ink, Dashed: m.Dashed, Text: text})
	}
	n := float64(r.Setting.Trials)
	c.Marks = append(c.Marks, mark{Ink: inkMuted, Weight: thin, Dashed: true, Points: []point{{n, 0}, {n, r.Theory.Upper}}})
	return c
}
