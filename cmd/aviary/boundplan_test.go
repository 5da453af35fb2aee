package main

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

func readPlan(t *testing.T, args string, to any) {
	t.Helper()
	text := mustCall(t, t.TempDir(), strings.Fields("bound plan "+args+" --json")...)
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// The expected counts and bounds for normal scores at μ = 1 are known for some
// numbers of guesses.
func TestBoundPlanGuesses(t *testing.T) {
	var p guessPlan
	readPlan(t, "--canaries 1000 --mu 1", &p)
	if p.Estimator != "mahloujifar-gdp" || p.Mu != 1 {
		t.Errorf("%+v", p)
	}
	found := 0
	for _, pair := range p.Plan {
		want, ok := map[int]struct {
			correct int
			eps     float64
		}{10: {19, 1.6174}, 50: {90, 2.4564}, 100: {174, 2.4807}, 250: {397, 2.0164}, 500: {691, 1.2967}}[pair.Plus]
		if !ok || pair.Minus != pair.Plus {
			continue
		}
		found++
		if pair.Correct != want.correct || !(math.Abs(float64(pair.Epsilon)-want.eps) <= 1e-4) {
			t.Errorf("%+v, want %+v", pair, want)
		}
		if p.Best.Epsilon < pair.Epsilon {
			t.Errorf("best %+v is not", p.Best)
		}
	}
	if n := p.Best.Plus + p.Best.Minus; found != 5 || n < 100 || n > 200 {
		t.Errorf("%d known pairs, best %+v", found, p.Best)
	}
	// AUC = Φ(1/√2) and TPR = Φ(1 - 1.6449) are the same signal.
	for _, signal := range []string{"--auc 0.7602499389", "--tpr 0.2595110"} {
		var q guessPlan
		readPlan(t, "--canaries 1000 "+signal, &q)
		if !(math.Abs(q.Mu-1) <= 1e-6) || q.Best.Plus != p.Best.Plus || q.Best.Minus != p.Best.Minus {
			t.Errorf("%s: %v, %+v", signal, q.Mu, q.Best)
		}
	}
	text := mustCall(t, t.TempDir(), strings.Fields("bound plan --canaries 200 --auc .7 --estimator steinke")...)
	for _, word := range []string{"AUC 0.7000", "k+", "best", "steinke", "aviary bound --scores FILE --plus "} {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in\n%s", word, text)
		}
	}
}

func TestBoundPlanTrials(t *testing.T) {
	var p trialPlan
	readPlan(t, "--sample-rate .1 --noise-multiplier 1 --trials 1000000 --alpha .01 --estimator cp-4", &p)
	// The best threshold is 3.64, with a bound of .9904; it is flat around there.
	if !(math.Abs(p.Exact-1.684544) <= 2e-4) || !(math.Abs(p.Ceiling-.9904) <= 2e-3) || !(math.Abs(p.Threshold-3.64) <= .05) || !(math.Abs(p.Share-p.Ceiling/p.Exact) <= 1e-12) {
		t.Errorf("%+v", p)
	}
	var q, less trialPlan
	readPlan(t, "--sample-rate .1 --noise-multiplier 1 --share .6 --alpha .01 --estimator cp-4", &q)
	if !(q.Share >= .6) || q.Trials > 2_000_000 {
		t.Errorf("%+v", q)
	}
	readPlan(t, fmt.Sprintf("--sample-rate .1 --noise-multiplier 1 --trials %d --alpha .01 --estimator cp-4", q.Trials*9/10), &less)
	if !(less.Share < .6) || !(less.Ceiling > 0) {
		t.Errorf("fewer trials do as well: %+v", less)
	}
	text := mustCall(t, t.TempDir(), strings.Fields("bound plan --sample-rate .1 --noise-multiplier 1")...)
	for _, word := range []string{"1000000", "cp-2", "threshold", "ceiling", "1.6845"} {
		if !strings.Contains(text, word) {
			t.Errorf("no %q in\n%s", word, text)
		}
	}
}

func TestBoundPlanRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                                                            "nothing to plan: expected --canaries",
		"--canaries 100":                                              "the signal is missing: expected --auc, --tpr or --mu",
		"--canaries 1 --mu 1":                                         "--canaries is 1, expected 2 or more",
		"--canaries 100000000 --mu 1":                                 "--canaries is 100000000, expected 1000000 or less",
		"--canaries 100 --mu 1 --auc .6":                              "--mu does not go with --auc",
		"--canaries 100 --auc .5":                                     "--auc is 0.5, expected a number above 0.5",
		"--canaries 100 --auc nan":                                    "--auc is NaN",
		"--canaries 100 --tpr .05":                                    "--tpr is 0.05, expected a number above 0.05",
		"--canaries 100 --mu 0":                                       "--mu is 0, expected a finite number above 0",
		"--canaries 100 --mu inf":                                     "--mu is +Inf",
		"--canaries 100 --mu 1 --delta 0":                             "--delta is 0, expected",
		"--canaries 100 --mu 1 --alpha 1":                             "--alpha is 1, expected",
		"--canaries 100 --mu 1 --trials 9":                            "--trials does not go with --canaries",
		"--canaries 100 --mu 1 --sample-rate .1":                      "--canaries, of one run, does not go with",
		"--canaries 100 --mu 1 --estimator joint":                     `--estimator is "joint", expected mahloujifar-gdp, `,
		"--sample-rate .1":                                            "--noise-multiplier is missing",
		"--noise-multiplier 1":                                        "--sample-rate is missing",
		"--noise-multiplier 1 --sample-rate 0":                        "--sample-rate is 0, expected a probability above 0",
		"--noise-multiplier 0 --sample-rate .1":                       "--noise-multiplier is 0, expected a finite number above 0",
		"--noise-multiplier 1 --sample-rate .1 --mu 1":                "--mu does not go with --sample-rate",
		"--noise-multiplier 1 --sample-rate .1 --share 1":             "--share is 1, expected a number above 0 and below 1",
		"--noise-multiplier 1 --sample-rate .1 --share nan":           "--share is NaN",
		"--noise-multiplier 1 --sample-rate .1 --share .999999":       "--share 0.999999 takes more than 1000000000000 trials",
		"--noise-multiplier 1 --sample-rate .1 --trials 0":            "--trials is 0, expected 1 or more",
		"--noise-multiplier 1 --sample-rate .1 --share .5 --trials 9": "--share does not go with --trials",
		"--noise-multiplier 1 --sample-rate .1 --estimator jont":      `did you mean "joint"?`,
	} {
		code, stdout, stderr := call(t, t.TempDir(), strings.Fields("bound plan "+args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("bound plan %s: exit %d, %q does not say %q", args, code, stderr, want)
		}
	}
}
