package bench

import "testing"

// TestAccountingWorks runs each once.
func TestAccountingWorks(t *testing.T) {
	for name, w := range accountingWorks() {
		if err := w.Run(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w.Free()
	}
}

func BenchmarkAccounting(b *testing.B) {
	for name, w := range accountingWorks() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := w.Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func accountingWorks() map[string]*Work {
	return map[string]*Work{"opacus-mesh": OpacusMesh(), "tight": Tight(), "calibration": Calibration(),
		"calibration-opacus": CalibrationOpacus(), "clopper-pearson": ClopperPearson()}
}
