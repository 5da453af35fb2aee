package stats

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/aviary-audit/aviary/audit"
)

// coinGame is a game of m fair coins with scores that know their own coin.
func coinGame(r *rand.Rand, m int, score func(member bool) float64) audit.Scores {
	s := audit.Scores{Value: make([]float64, m), Member: make([]bool, m)}
	for i := range m {
		s.Member[i] = r.IntN(2) == 1
		s.Value[i] = score(s.Member[i])
	}
	return s
}

// gaussianGame has scores N(mu, 1) for members and N(0, 1) for others.
func gaussianGame(r *rand.Rand, m int, mu float64) audit.Scores {
	return coinGame(r, m, func(member bool) float64 {
		if member {
			return mu + r.NormFloat64()
		}
		return r.NormFloat64()
	})
}

// dpsgdGame gives each canary a DP-SGD of its own: its score is the log-likelihood
// ratio of what steps Poisson-sampled Gaussians of rate q and noise sigma release.
func dpsgdGame(r *rand.Rand, m int, q, sigma float64, steps int) audit.Scores {
	return coinGame(r, m, func(member bool) float64 {
		ratio := 1.0
		for range steps {
			x := sigma * r.NormFloat64()
			if member && r.Float64() < q {
				x++
			}
			ratio *= 1 - q + q*math.Exp((x-.5)/(sigma*sigma))
		}
		return math.Log(ratio)
	})
}

// lossGame tells each coin by randomised response of ε = loss; how sure a score
// looks says nothing.
func lossGame(r *rand.Rand, m int, loss float64) audit.Scores {
	right := 1 / (1 + math.Exp(-loss))
	return coinGame(r, m, func(member bool) float64 {
		size := math.Abs(r.NormFloat64())
		if (r.Float64() < right) != member {
			return -size
		}
		return size
	})
}

// sharedGaussianGame draws |y| of a Gaussian channel once for all canaries, and
// tells each coin by randomised response with ε = mu |y|. Given the other coins,
// each canary's view is exactly mu-GDP; the curve leaves nothing unused.
func sharedGaussianGame(r *rand.Rand, m int, mu float64) audit.Scores {
	return lossGame(r, m, mu*math.Abs(r.NormFloat64()+mu/2))
}

// lossLaw is how large the privacy loss of a mechanism with the curve f is: the
// sizes, and their distribution function. Between the crossings a of
// neighbouring lines 1-δ-e^ε a the curve has the slope -e^ε, which is a loss of ε
// with probability w = Δa in one world and e^ε w in the other; and since f is
// symmetric, as likely -ε the other way round.
func (f tradeOff) lossLaw() (size, cdf []float64) {
	n := len(f.up)
	crossing := func(i int) float64 { // of lines i and i+1
		return math.Max(0, f.delta[i]-f.delta[i+1]) / (f.up[i+1] - f.up[i])
	}
	right, sum := crossing(0), 0.0
	add := func(i int, p float64) {
		sum += p
		size, cdf = append(size, math.Log(f.up[i])), append(cdf, sum)
	}
	add(0, 1-f.delta[0]-2*right)
	for i := 1; i < n; i++ {
		left := 0.0
		if i < n-1 {
			left = math.Min(right, crossing(i))
		}
		add(i, (1+f.up[i])*(right-left))
		right = left
	}
	return size, cdf
}

// sharedCurveGame is sharedGaussianGame for any symmetric curve.
func sharedCurveGame(f tradeOff) coinsPlay {
	size, cdf := f.lossLaw()
	return func(r *rand.Rand, m int) audit.Scores {
		i := sort.SearchFloat64s(cdf, r.Float64())
		return lossGame(r, m, size[min(i, len(size)-1)])
	}
}

// rounded has few distinct scores, and tells no more than its game.
func rounded(play coinsPlay, per float64) coinsPlay {
	return func(r *rand.Rand, m int) audit.Scores {
		s := play(r, m)
		for i, v := range s.Value {
			s.Value[i] = math.Round(v*per) / per
		}
		return s
	}
}

// TestLossLaw: the law has all of the mass, and leads back to δ at any ε, the
// expectation of max(0, 1 - e^(ε-L)) over the losses L of the likelier world.
func TestLossLaw(t *testing.T) {
	f, err := MahloujifarDPSGD{.1, 10, 1e-5}.curve(1)
	if err != nil {
		t.Fatal(err)
	}
	size, cdf := f.lossLaw()
	if total := cdf[len(cdf)-1]; !(math.Abs(total-1) <= 1e-9) {
		t.Errorf("mass %v", total)
	}
	for _, at := range []int{0, 50, 100, 200} {
		sum, last := 0.0, 0.0
		for i, up := range f.up {
			// e^L/(1+e^L) of a size has the loss L, and the rest -L.
			sum += (cdf[i] - last) * up / (1 + up) * math.Max(0, 1-f.up[at]/up)
			last = cdf[i]
		}
		if !(math.Abs(sum-f.delta[at]) <= 1e-9) {
			t.Errorf("δ at %v: %v, want %v", size[at], sum, f.delta[at])
		}
	}
}

// exactRelease is the exact ε of one Poisson-sampled Gaussian release.
func exactRelease(t *testing.T, q, sigma, delta float64) float64 {
	t.Helper()
	eps, err := sampledEps(q, sigma, delta)
	if err != nil {
		t.Fatal(err)
	}
	return eps
}

func gaussianEpsOf(t *testing.T, mu, delta float64) float64 {
	t.Helper()
	eps, err := gaussianEps(mu, delta)
	if err != nil {
		t.Fatal(err)
	}
	return eps
}

// TestOneRunPower: 200 guesses of 1,000 canaries with independent Gaussian
// channels of mu = 1 are worth 2.3 on average, where ε is 4.377.
func TestOneRunPower(t *testing.T) {
	const games, m, half = 400, 1000, 100
	r := rand.New(rand.NewPCG(7, 8))
	sum := 0.0
	for range games {
		s := gaussianGame(r, m, 1)
		g, err := Count(s, half, half)
		if err != nil {
			t.Fatal(err)
		}
		sum += lowerOf(t, MahloujifarGDP{1e-5}, g, .05)
	}
	if mean := sum / games; !(mean >= 2.3) {
		t.Errorf("mean %v", mean)
	}
}

func coinsGaussian(mu float64) coinsPlay {
	return func(r *rand.Rand, m int) audit.Scores { return gaussianGame(r, m, mu) }
}
