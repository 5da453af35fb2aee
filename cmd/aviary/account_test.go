package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/audit/accounting"
)

func TestAccount(t *testing.T) {
	var got struct {
		Epsilon struct{ Lower, Estimate, Upper *float64 }
		Opacus  *float64
	}
	read := func(args string) {
		t.Helper()
		got.Epsilon.Lower, got.Epsilon.Estimate, got.Epsilon.Upper, got.Opacus = nil, nil, nil, nil
		if err := json.Unmarshal([]byte(mustCall(t, t.TempDir(), strings.Fields("account "+args+" --json")...)), &got); err != nil {
			t.Fatal(err)
		}
	}
	read("--sample-rate .1 --noise-multiplier 1 --steps 1 --delta 1e-5")
	if e := got.Epsilon; !(*e.Lower <= 1.6845438143 && *e.Upper >= 1.6845438143 && *e.Upper-*e.Lower <= 2e-4) || !(math.Abs(*got.Opacus-1.6947684472) < 1e-6) {
		t.Errorf("one release: %v to %v, Opacus %v", *e.Lower, *e.Upper, *got.Opacus)
	}
	read("--phase .1,1,3 --phase .05,2,10 --delta 1e-5")
	if !(math.Abs(*got.Opacus-2.1166332434) < 1e-6) {
		t.Errorf("phases: Opacus %v", *got.Opacus)
	}
	read("--sample-rate .1 --noise-multiplier 1 --phase .1,1,2 --phase .05,2,10 --delta 1e-5")
	if !(math.Abs(*got.Opacus-2.1166332434) < 1e-6) {
		t.Errorf("flags and phases: Opacus %v", *got.Opacus)
	}
	read("--noise-multiplier 1 --relation replace --delta 1e-5")
	if !(math.Abs(*got.Epsilon.Upper-9.9972561464) < 1e-9) || got.Opacus != nil {
		t.Errorf("replace: %v, Opacus %v", *got.Epsilon.Upper, got.Opacus)
	}
	read("--sample-rate .01 --noise-multiplier 1 --steps 10000 --accountant rdp")
	if !(math.Abs(*got.Epsilon.Upper-6.712738) < 1e-6) || got.Epsilon.Lower != nil {
		t.Errorf("rdp: %v", *got.Epsilon.Upper)
	}
	read("--sample-rate .01 --noise-multiplier 1 --steps 10000 --accountant gdp")
	if !(math.Abs(*got.Epsilon.Estimate-6.0071) < 1e-4) || got.Epsilon.Upper != nil {
		t.Errorf("gdp: %v", *got.Epsilon.Estimate)
	}
	read("--sample-rate .1 --noise-multiplier 0")
	if got.Epsilon.Upper != nil {
		t.Errorf("no noise: %v", *got.Epsilon.Upper)
	}
}

func TestAccountTargets(t *testing.T) {
	var got struct {
		Noise  float64 `json:"noise_multiplier"`
		Opacus float64 `json:"opacus_noise_multiplier"`
	}
	text := mustCall(t, t.TempDir(), strings.Fields("account --target-epsilon 4 --sample-rate 0.04 --steps 1250 --delta 1e-5 --json")...)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.Opacus != 1.71875 || !(got.Noise > 1.715 && got.Noise < 1.716) {
		t.Errorf("%s", text)
	}
}

// TestAccountOpacusAlways: the field is there whenever prv is, null where Opacus
// has no number; its search for noise that is not needed would not end.
func TestAccountOpacusAlways(t *testing.T) {
	for args, want := range map[string]string{
		"--noise-multiplier 1 --relation replace":                                    `"opacus": null`,
		"--noise-multiplier 0":                                                       `"opacus": null`,
		"--target-epsilon 500 --sample-rate 1":                                       `"opacus_noise_multiplier": null`,
		"--target-epsilon 1 --sample-rate 0 --steps 100":                             `"noise_multiplier": 0,` + "\n" + `  "opacus_noise_multiplier": null`,
		"--target-epsilon 1 --sample-rate .1 --steps 0":                              `"noise_multiplier": 0,` + "\n" + `  "opacus_noise_multiplier": null`,
		"--target-epsilon 1 --sample-rate 1e-300 --steps 100":                        `"noise_multiplier": 0,` + "\n" + `  "opacus_noise_multiplier": null`,
		"--target-epsilon 1 --sample-rate 1e-300 --steps 100 --accountant rdp":       `"noise_multiplier": 0,` + "\n" + `  "opacus_noise_multiplier": null`,
		"--target-epsilon 1 --sample-rate .1 --steps 0 --accountant gdp":             `"noise_multiplier": 0,` + "\n" + `  "opacus_noise_multiplier": null`,
		"--target-epsilon 4 --sample-rate .04 --steps 1250 --accountant rdp":         `"noise_multiplier": 1.8`,
		"--sample-rate .01 --noise-multiplier 1 --accountant gdp --relation replace": "",
	} {
		code, stdout, stderr := call(t, t.TempDir(), strings.Fields("account --json "+args)...)
		if want == "" {
			if code != exitUsage {
				t.Errorf("account %s: exit %d", args, code)
			}
			continue
		}
		if code != exitDone || !strings.Contains(stdout, want) {
			t.Errorf("account %s: exit %d, no %s in %s%s", args, code, want, stdout, stderr)
		}
		if strings.Contains(args, "-noise-multiplier") != strings.Contains(stdout, `"opacus":`) {
			t.Errorf("account %s: %s", args, stdout)
		}
	}
	for args, want := range map[string]string{
		"--target-epsilon 1 --sample-rate 0":   "opacus            -  no noise is needed",
		"--target-epsilon 500 --sample-rate 1": "too little noise",
	} {
		if stdout := mustCall(t, t.TempDir(), strings.Fields("account "+args)...); !strings.Contains(stdout, want) {
			t.Errorf("account %s: no %q in\n%s", args, want, stdout)
		}
	}
}

func TestAccountTable(t *testing.T) {
	dir := t.TempDir()
	text := mustCall(t, dir, strings.Fields("account --sample-rate .1 --noise-multiplier 1 --opacus --svg $DIR/eps.svg")...)
	opacus, tight := strings.Index(text, "opacus   1.694768  "), strings.Index(text, "epsilon  1.684544  ")
	if !(opacus >= 0 && tight > opacus) {
		t.Errorf("%s", text)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "eps.svg"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(svg), "<svg") || !strings.Contains(string(svg), "rdp") {
		t.Errorf("no plot: %.200s", svg)
	}
	// Of replaced records the plot is another one, and rdp has no rule for it.
	mustCall(t, dir, strings.Fields("account --sample-rate .1 --noise-multiplier 5 --steps 3 --relation replace --svg $DIR/replace.svg")...)
	if text := readFile(t, dir, "replace.svg"); !strings.Contains(text, "replace") || strings.Contains(text, "rdp") {
		t.Errorf("%.2000s", text)
	}
}

func TestAccountRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                                               "--noise-multiplier is missing",
		"--phase 0.1,1,1 --steps 3":                      "--noise-multiplier is missing",
		"--noise-multiplier nan":                         "noise multiplier: NaN is not a number from 0 up",
		"--noise-multiplier 1 --sample-rate 2":           "sample rate: 2 is not a probability",
		"--noise-multiplier 1 --steps -1":                "steps: -1 is not a number of steps",
		"--noise-multiplier 1 --delta 1":                 "delta: 1 is not from",
		"--noise-multiplier 1 --delta 0":                 "delta: 0 is not from",
		"--phase 1,2":                                    `--phase is "1,2", expected Q,S,T`,
		"--phase 1,2,x":                                  `--phase "1,2,x": "x" is not a whole number of steps`,
		"--noise-multiplier 1 --accountant pld":          `--accountant is "pld", expected prv, rdp or gdp`,
		"--noise-multiplier 1 --relation swap":           `--relation is "swap"`,
		"--noise-multiplier 1 --accountant rdp --opacus": "--opacus goes with --accountant prv",
		"--noise-multiplier 1 --sample-rate .1 --relation replace --accountant rdp":        "relation replace: RDP has no rule",
		"--target-epsilon 3 --noise-multiplier 1":                                          "--noise-multiplier does not go with --target-epsilon",
		"--target-epsilon -1 --sample-rate .1":                                             "target epsilon: -1 is not a finite number above 0",
		"--target-epsilon 1 --sample-rate .1 --relation replace":                           `--relation is "replace", expected add-remove`,
		"--noise-multiplier 0.001 --sample-rate .1":                                        "too little noise to account",
		"--noise-multiplier 1 --phase 1,2,3 --svg $DIR/x.svg":                              "--svg draws one phase",
		"--phase 1,1,1 --phase 2,1,1":                                                      `--phase "2,1,1": the sample rate is 2, expected a probability`,
		"--phase nan,1,1":                                                                  `--phase "nan,1,1": the sample rate is NaN`,
		"--phase 1,-1,1":                                                                   `--phase "1,-1,1": the noise multiplier is -1`,
		"--phase 1,1,-1":                                                                   `--phase "1,1,-1": the number of steps is -1`,
		"--noise-multiplier 1 --svg $DIR/none/x.svg":                                       "but there is no folder $DIR/none",
		"--noise-multiplier 1 --svg $DIR":                                                  "expected a file or nothing there, not a folder",
		"--noise-multiplier 1 --svg=":                                                      "--svg is empty",
		"--target-epsilon 1e300 --sample-rate .01 --steps 100":                             "--target-epsilon 1e+300: the search for its noise ended at Poisson-sampled Gaussian",
		"--target-epsilon -1 --sample-rate .1 --steps 0":                                   "target epsilon: -1 is not a finite number above 0",
		"--noise-multiplier 0 --svg $DIR/x.svg":                                            "--svg: epsilon is infinite without noise",
		"--noise-multiplier 1 --sample-rate .1 --relation replace --accountant gdp --json": "relation replace: GDP has no rule",
	} {
		dir := t.TempDir()
		code, _, stderr := call(t, dir, strings.Fields("account "+args)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("account %s: exit %d, %q does not say %q", args, code, stderr, want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("account %s leaves %v, %v", args, left, err)
		}
	}
}

// TestAuditTargetEpsilon: the noise is found, and the report says what it costs.
func TestAuditTargetEpsilon(t *testing.T) {
	dir := t.TempDir()
	mustCall(t, dir, with(tiny, "--clip", "1", "--target-epsilon", "3", "--delta", "1e-4", "--out", "$DIR/a")...)
	var r audit.Report
	if err := json.Unmarshal([]byte(readFile(t, dir, "a", "report.json")), &r); err != nil {
		t.Fatal(err)
	}
	// 200 examples, 20 canaries of which half are in: 190 and 9 either way; 5
	// steps of 50 for up to 250 examples, 4 for up to 200.
	n := accounting.Noise{SampleRate: 50. / 181, Steps: 4, Delta: 1e-4}
	sigma, err := n.Calibrate(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"noise multiplier " + formatFloat(roundUp(sigma)), "(ε, δ) = (", "by PRV", "rate 0.2762, 4 steps", "noise found for ε = 3"} {
		if !strings.Contains(r.Recipe, want) {
			t.Errorf("recipe %q does not say %q", r.Recipe, want)
		}
	}
	if len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "training sets of 181 to 199 examples") {
		t.Errorf("notes: %q", r.Notes)
	}
	mustCall(t, dir, "audit", "--resume", "--out", "$DIR/a", "--quiet")
	mustCall(t, dir, "verify", "$DIR/a")

	mustCall(t, dir, with(tiny, "--clip", "1", "--out", "$DIR/b")...)
	if err := json.Unmarshal([]byte(readFile(t, dir, "b", "report.json")), &r); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(r.Notes, " "), "no finite ε") {
		t.Errorf("notes without noise: %q", r.Notes)
	}
}

func TestRoundUp(t *testing.T) {
	for v, want := range map[float64]float64{0: 0, 1: 1, 1.23451: 1.2346, 1.2345: 1.2345, 12.34549: 12.346, 99999.1: 1e5, 0.0123456: 0.012346} {
		if got := roundUp(v); got != want {
			t.Errorf("%v: %v, want %v", v, got, want)
		}
	}
}
