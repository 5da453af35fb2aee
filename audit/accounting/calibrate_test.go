package accounting

import (
	"math"
	"strings"
	"testing"
)

// calibrated is a row of the table of noise multipliers.
type calibrated struct {
	Q      float64 `json:"q"`
	T      int     `json:"T"`
	Eps    float64 `json:"eps"`
	Opacus float64 `json:"opacus"`
	EpsAt  float64 `json:"eps_at"`
	Tight  float64 `json:"tight"` // where Opacus' ε is the target
	RDP    float64 `json:"rdp"`
}

func TestCalibrateOpacus(t *testing.T) {
	for _, r := range load[calibrated](t, "calib.json") {
		n := Noise{r.Q, r.T, 1e-5}
		got, err := n.CalibrateOpacus(r.Eps, OpacusRDP)
		if err != nil {
			t.Fatal(err)
		}
		if got != r.RDP {
			t.Errorf("%+v: RDP %v", r, got)
		}
		if got, err = n.CalibrateOpacus(r.Eps, OpacusPRV); err != nil {
			t.Fatal(err)
		}
		if got != r.Opacus {
			t.Errorf("%+v: %v", r, got)
		}
		v, err := Opacus(DPSGD(r.Q, r.Tight, r.T), 1e-5)
		if err != nil {
			t.Fatal(err)
		}
		if err := differ(v.Upper, r.Eps, 5e-6); err != nil {
			t.Errorf("%+v: at tight %v", r, err)
		}
	}
	// Opacus' own tests.
	for _, c := range []struct {
		kind  OpacusKind
		steps int
		want  float64
	}{{OpacusPRV, 2250, 1.34765625}, {OpacusPRV, 2000, 1.29150390625}, {OpacusRDP, 2250, 1.416015625},
		{OpacusRDP, 2000, 1.356201171875}, {OpacusGDP, 2250, 1.3232421875}} {
		got, err := Noise{.04, c.steps, 1e-5}.CalibrateOpacus(8, c.kind)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.want {
			t.Errorf("%s, %d steps: %v, want %v", c.kind, c.steps, got, c.want)
		}
	}
}

// TestCalibrate: the noise is enough, and a little less is not.
func TestCalibrate(t *testing.T) {
	for _, c := range []struct {
		n      Noise
		target float64
	}{
		{Noise{.04, 250, 1e-5}, 1}, {Noise{.04096, 2441, 1e-5}, 10}, {Noise{.1, 1, 1e-5}, 1.7},
		{Noise{1, 10, 1e-6}, 3}, {Noise{.001, 5, 1e-6}, .05}, {Noise{.05, 100, 1e-3}, .01},
	} {
		s, err := c.n.Calibrate(c.target)
		if err != nil {
			t.Fatal(err)
		}
		for noise, want := range map[float64]bool{s: true, s * (1 - 5e-4): false} {
			v, err := tight(DPSGD(c.n.SampleRate, noise, c.n.Steps), c.n.Delta)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.Upper <= c.target; got != want {
				t.Errorf("%+v, target %g: noise %v of %v costs %+v", c.n, c.target, noise, s, v)
			}
		}
	}
	for _, n := range []Noise{{0, 10, 1e-5}, {.1, 0, 1e-5}, {1e-7, 10, 1e-5}} {
		if s, err := n.Calibrate(1); s != 0 || err != nil {
			t.Errorf("%+v: %v, %v; no noise is needed", n, s, err)
		}
		for _, kind := range []OpacusKind{OpacusPRV, OpacusRDP, OpacusGDP} {
			if kind != OpacusPRV && n.SampleRate > 0 && n.Steps > 0 {
				continue // there ε of any rate grows without end as noise falls
			}
			if s, err := n.CalibrateOpacus(1, kind); s != 0 || err != nil {
				t.Errorf("%+v by %s: %v, %v; no noise is needed", n, kind, s, err)
			}
		}
	}
	if s, err := (Noise{1e-14, 1, 1e-5}).CalibrateOpacus(1, OpacusRDP); s != 0 || err != nil {
		t.Errorf("sampled next to never: %v, %v", s, err)
	}
	for _, kind := range []OpacusKind{OpacusRDP, OpacusGDP} {
		if s, err := (Noise{1e-7, 10, 1e-5}).CalibrateOpacus(1, kind); err != nil || !(s > 0 && s < 1) {
			t.Errorf("by %s: %v, %v", kind, s, err)
		}
	}
}

func TestCalibrateRefuses(t *testing.T) {
	for want, f := range map[string]func() (float64, error){
		"target epsilon: NaN":  func() (float64, error) { return Noise{.1, 1, 1e-5}.Calibrate(math.NaN()) },
		"target epsilon: 0":    func() (float64, error) { return Noise{.1, 1, 1e-5}.Calibrate(0) },
		"target epsilon: +Inf": func() (float64, error) { return Noise{.1, 1, 1e-5}.CalibrateOpacus(math.Inf(1), OpacusPRV) },
		"sample rate: 2":       func() (float64, error) { return Noise{2, 1, 1e-5}.Calibrate(1) },
		"steps: -1":            func() (float64, error) { return Noise{.1, -1, 1e-5}.Calibrate(1) },
		"delta: 1":             func() (float64, error) { return Noise{.1, 1, 1}.Calibrate(1) },
		`accountant: "pld"`:    func() (float64, error) { return Noise{.1, 1, 1e-5}.CalibrateOpacus(1, "pld") },
		"target epsilon: 0.01": func() (float64, error) { return Noise{.1, 100, 1e-5}.CalibrateOpacus(.01, OpacusRDP) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}
