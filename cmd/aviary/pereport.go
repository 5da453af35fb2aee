package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"text/tabwriter"

	"github.com/aviary-audit/aviary/audit/pe"
	"github.com/aviary-audit/aviary/report"
)

// report is the result in the words of reports.
func (s *peSettings) report(in *peInputs, l *pe.Lock, r *pe.Result, curves []pe.ByTrials) *report.PE {
	h, p := l.Mechanism, l.Protocol
	out := &report.PE{
		Schema: report.PESchema, Version: l.Version, Seed: l.Seed, Users: filepath.Base(s.users), Bank: filepath.Base(s.bank + s.bankVectorsIfAlone()),
		Encoder: in.encoder, Rewriter: in.rewriter, Device: in.deviceIs, Notes: in.notes,
		Setting: report.PESetting{Slots: h.Slots, K: h.K, Cap: h.Cap, Clip: h.Clip, Noise: h.Noise, Rate: h.Rate, Eligible: l.Eligible,
			Auxiliary: len(l.Split.Auxiliary), Calibration: len(l.Split.Calibration), Test: len(l.Split.Test), Probes: s.probes, Pool: s.pool,
			Trials: p.Trials, Canaries: p.Canaries, Alpha: p.Alpha, Delta: p.Delta, Bounds: p.Bounds, Rule: l.Rule},
		Theory:  report.PETheory(r.Theory),
		Ceiling: report.PEExpected(r.Ceiling),
	}
	number := 0
	for _, a := range r.Attacks {
		at := report.PEAttack{Name: a.Attack, EpsLower: a.EpsLower, Tight: a.EpsTight, Joint: a.EpsJoint, Corrected: a.Corrected, Pooled: a.Pooled, Exact: a.Exact}
		for _, c := range a.Canaries {
			row := report.PECanary{Canary: c.Canary, User: c.User, MuNoise: c.MuNoise, Norm: c.Norm, Twins: c.Twins,
				EpsLower: c.EpsLower, Tight: c.EpsTight, Joint: c.EpsJoint, Corrected: c.Corrected,
				Exact: c.Exact.Estimate, ExactLower: c.Exact.Lower, ExactUpper: c.Exact.Upper, Expected: report.PEExpected(c.Expected),
				GapCov: c.Gap.Cov, GapMean: c.Gap.Mean}
			for _, t := range c.Tallies {
				if t.For == pe.ForEach && !l.Attacks[number].Blind {
					row.Threshold, row.FP, row.TP = t.Tau, t.FP, t.TP
				}
			}
			for _, v := range l.Attacks[number].V {
				row.Votes = append(row.Votes, v/h.Clip)
			}
			for _, x := range c.Curve {
				row.Curve = append(row.Curve, report.PERates(x))
			}
			number++
			at.Canaries = append(at.Canaries, row)
		}
		out.Attacks = append(out.Attacks, at)
	}
	for _, t := range curves {
		out.ByTrials = append(out.ByTrials, report.PEByTrial(t))
	}
	return out
}

// bankVectorsIfAlone names the bank where there are embeddings only.
func (s *peSettings) bankVectorsIfAlone() string {
	if s.bank == "" {
		return s.bankVectors
	}
	return ""
}

// showPE prints the table, and checks the gate.
func (s *peSettings) showPE(w io.Writer, r *report.PE) error {
	if s.json {
		if err := printJSON(w, r); err != nil {
			return err
		}
	} else if err := peTable(w, r, s.out); err != nil {
		return err
	}
	worst := 0.0
	for _, a := range r.Attacks {
		worst = math.Max(worst, a.EpsLower)
	}
	if worst > s.gate {
		return &failure{exitGate, fmt.Errorf("the bound %.4f is above the gate of %g", worst, s.gate), ""}
	}
	return nil
}

func peTable(w io.Writer, r *report.PE, dir string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "attack\tε_lower\tceiling\texact ε\tε_theory\tby 2 bounds\tjoint\tμ_eff·σ\t‖v‖/C")
	for _, a := range r.Attacks {
		best := a.Canaries[0]
		for _, c := range a.Canaries {
			if c.Exact > best.Exact {
				best = c
			}
		}
		fmt.Fprintf(t, "%s\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.3f\t%.4f\t%.4f\n", a.Name, a.EpsLower, r.Ceiling.Best, a.Exact, r.Theory.Upper, a.Tight, a.Joint, best.MuNoise, best.Norm)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nbest of %d canaries, confidence %g %%, δ = %g, %d trials in each world; ceiling: a perfect canary, on average\nreport: %s\n",
		r.Setting.Canaries, 100*(1-r.Setting.Alpha), r.Setting.Delta, r.Setting.Trials, filepath.Join(dir, report.HTMLFile))
	return err
}
