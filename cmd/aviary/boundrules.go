package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/stats"
)

// paperRule takes the largest bound of many, as papers print it.
const paperRule = "paper"

var ruleNames = []string{"fixed", "half-split", "grid", paperRule}

// checkRules refuses rules that are none, and flags of rules not asked for.
func (s *boundSettings) checkRules(flags *pflag.FlagSet) error {
	if len(s.rules) == 0 {
		return usageError("", "--rule is empty, expected %s", strings.Join(ruleNames, ", "))
	}
	for i, name := range s.rules {
		if !slices.Contains(ruleNames, name) {
			return usageError(didYouMean(name, ruleNames, ""), "--rule is %q, expected %s", name, strings.Join(ruleNames, ", "))
		}
		if slices.Contains(s.rules[:i], name) {
			return usageError("", "--rule has %s twice, expected it once", name)
		}
	}
	for flag, rule := range map[string]string{"plus": "fixed", "minus": "fixed", "guesses": "fixed", "grid": "grid", "rule-seed": "half-split"} {
		if flags.Changed(flag) && !slices.Contains(s.rules, rule) {
			return usageError("", "--%s goes with --rule %s, not %s", flag, rule, strings.Join(s.rules, ","))
		}
	}
	if slices.Contains(s.rules, "grid") {
		if err := missing(flags, "grid"); err != nil {
			return usageError("as in --grid 50+50,100+100", "--grid is missing")
		}
		if _, err := parseGrid(s.grid); err != nil {
			return err
		}
	}
	if flags.Changed("guesses") {
		if flags.Changed("plus") || flags.Changed("minus") {
			return usageError("", "--guesses does not go with --plus and --minus, which say the same")
		}
		if s.guesses < 2 || s.guesses%2 != 0 {
			return usageError("or give --plus and --minus", "--guesses is %d, expected an even number above 0: half of them for the highest scores", s.guesses)
		}
	}
	if err := checkInts([]intSetting{{"plus", s.plus, 0, math.MaxInt32}, {"minus", s.minus, 0, math.MaxInt32}}); err != nil {
		return err
	}
	if (flags.Changed("plus") || flags.Changed("minus")) && s.plus+s.minus == 0 {
		return usageError("", "--plus and --minus are 0, expected a guess")
	}
	return nil
}

// parseGrid reads a list such as 50+50,100+0.
func parseGrid(text string) ([]stats.FixedGuesses, error) {
	var grid []stats.FixedGuesses
	for _, item := range strings.Split(text, ",") {
		plus, minus, ok := strings.Cut(strings.TrimSpace(item), "+")
		p, errP := strconv.ParseUint(plus, 10, 31)
		m, errM := strconv.ParseUint(minus, 10, 31)
		if !ok || errP != nil || errM != nil || p+m == 0 {
			return nil, usageError("as in --grid 50+50,100+100,100+0", "--grid has %q, expected numbers of highest and lowest scores, HIGHEST+LOWEST", item)
		}
		grid = append(grid, stats.FixedGuesses{Plus: int(p), Minus: int(m)})
	}
	return grid, nil
}

// oneRunMethods are the rows of a game of one run: each estimator by each rule.
func (s *boundSettings) oneRunMethods(flags *pflag.FlagSet) ([]boundMethod, error) {
	estimators := s.oneRunEstimators()
	for i, e := range estimators {
		estimators[i] = stats.Remember(e)
	}
	var methods []boundMethod
	for _, name := range s.rules {
		rule, err := s.guessRule(flags, name)
		if err != nil {
			return nil, err
		}
		for _, e := range estimators {
			methods = append(methods, func(scores audit.Scores, alpha float64) (boundRow, error) {
				b, g, err := rule(len(scores.Value)).Bound(scores, e, alpha)
				if err != nil {
					return boundRow{}, err
				}
				return newRow(b).ofGuesses(g).ofRule(name), nil
			})
		}
	}
	return methods, nil
}

// guessRule is a rule for a game of m canaries.
func (s *boundSettings) guessRule(flags *pflag.FlagSet, name string) (func(m int) stats.GuessRule, error) {
	always := func(r stats.GuessRule) func(int) stats.GuessRule { return func(int) stats.GuessRule { return r } }
	switch name {
	case "half-split":
		return always(stats.HalfSplit{Seed: s.ruleSeed}), nil
	case "grid":
		grid, err := parseGrid(s.grid)
		return always(stats.GuessGrid{Rules: grid}), err
	case paperRule:
		return always(stats.PaperMaximum{}), nil
	}
	switch {
	case flags.Changed("guesses"):
		return always(stats.FixedGuesses{Plus: s.guesses / 2, Minus: s.guesses / 2}), nil
	case flags.Changed("plus") || flags.Changed("minus"):
		return always(stats.FixedGuesses{Plus: s.plus, Minus: s.minus}), nil
	}
	return func(m int) stats.GuessRule { return stats.DefaultGuesses(m) }, nil
}

// checkThresholds refuses thresholds that no score could be compared with.
func (s *boundSettings) checkThresholds(flags *pflag.FlagSet) error {
	if flags.Changed("threshold") && flags.Changed("thresholds") {
		return usageError("", "--threshold does not go with --thresholds")
	}
	if flags.Changed("rule-seed") && (flags.Changed("threshold") || flags.Changed("thresholds")) {
		return usageError("", "--rule-seed is of the split that chooses a threshold, and does not go with --threshold or --thresholds")
	}
	if flags.Changed("threshold") && (math.IsNaN(s.threshold) || math.IsInf(s.threshold, 0)) {
		return usageError("", "--threshold is %v, expected a finite number", s.threshold)
	}
	if flags.Changed("thresholds") && len(s.thresholds) == 0 {
		return usageError("", "--thresholds is empty, expected numbers")
	}
	for _, t := range s.thresholds {
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return usageError("", "--thresholds has %v, expected finite numbers", t)
		}
	}
	return nil
}

// twoWorldMethods are the rows of a game of two worlds, one per estimator.
func (s *boundSettings) twoWorldMethods(flags *pflag.FlagSet) []boundMethod {
	var rule stats.ThresholdRule = stats.SplitThreshold{Seed: s.ruleSeed}
	switch {
	case flags.Changed("threshold"):
		rule = stats.Locked{Threshold: s.threshold}
	case flags.Changed("thresholds"):
		rule = stats.Thresholds{Values: s.thresholds}
	}
	var methods []boundMethod
	for _, e := range s.twoWorldEstimators() {
		e = stats.Remember(e)
		methods = append(methods, func(scores audit.Scores, alpha float64) (boundRow, error) {
			b, c, err := rule.Bound(scores, e, alpha)
			if err != nil {
				return boundRow{}, err
			}
			row := newRow(b).ofCounts(c).ofRule(rule.Name())
			if s.pool {
				row.Multiplicity = fmt.Sprintf("canaries pooled; %s", row.Multiplicity)
			}
			return row, nil
		})
	}
	return methods
}
