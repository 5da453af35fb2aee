package stats

import "testing"

// BenchmarkClopperPearson times one bound at n = 1e6, over counts from few to
// half of the trials.
func BenchmarkClopperPearson(b *testing.B) {
	const n = 1_000_000
	for _, c := range []struct {
		name string
		x    int
	}{{"x=1", 1}, {"x=10", 10}, {"x=136", 136}, {"x=10000", 10_000}, {"x=500000", 500_000}} {
		b.Run(c.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if i&1 == 0 {
					clopperPearsonLower(c.x, n, .0025)
				} else {
					clopperPearsonUpper(c.x, n, .0025)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "bounds/s")
		})
	}
}
