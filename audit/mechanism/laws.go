package mechanism

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Law is the exact mean and standard deviation of an audit's figure over the
// randomness of the mechanism, for given numbers of members and non-members.
type Law struct{ Mean, SD float64 }

// AUC is the law of the area under the ROC curve with n1 members and n0
// non-members. Its mean is Φ(Mu/√2); its variance is Hoeffding's, of the
// Mann-Whitney statistic, with
//
//	Q = ∫ φ(x) Φ(Mu-x)² dx,
//
// the probability that two members beat one non-member, which by symmetry is
// also that of one member beating two.
func (g Gaussian) AUC(n1, n0 int) Law {
	auc := normalCDF(g.Mu / math.Sqrt2)
	q := integrate(func(x float64) float64 {
		p := normalCDF(g.Mu - x)
		return normalPDF(x) * p * p
	})
	return mannWhitney(auc, auc, q, q, n1, n0)
}

// TPRAtFPR is the law of the true positive rate at a false positive rate of at
// most num/den. With k = ⌊n0·num/den⌋ false positives allowed, the threshold is
// just above the k+1-th largest non-member t, and given t each member passes
// with probability Φ(Mu-t). The density of t is that of an order statistic,
//
//	n0!/(k!(n0-k-1)!) Φ(-t)^k Φ(t)^{n0-k-1} φ(t).
//
// Without signal the mean is (k+1)/(n0+1).
func (g Gaussian) TPRAtFPR(n1, n0, num, den int) Law {
	k := n0 * num / den
	if k >= n0 {
		return Law{1, 0}
	}
	lgamma := func(n int) float64 { v, _ := math.Lgamma(float64(n)); return v }
	scale := lgamma(n0+1) - lgamma(k+1) - lgamma(n0-k)
	moment := func(power float64) float64 {
		return integrate(func(t float64) float64 {
			density := math.Exp(scale+float64(k)*math.Log(normalCDF(-t))+float64(n0-k-1)*math.Log(normalCDF(t))) * normalPDF(t)
			return density * math.Pow(normalCDF(g.Mu-t), power)
		})
	}
	p, pp := moment(1), moment(2)
	// variance of the binomial's mean given t, and of its mean over t
	return Law{p, math.Sqrt((p-pp)/float64(n1) + pp - p*p)}
}

// AUC is the law of the area under the ROC curve. A member's release is 1 with
// probability p = 1/(1+exp(-Eps)) and a non-member's with 1-p, so the mean is
// p² + ½·2p(1-p) = p.
func (m RandomizedResponse) AUC(n1, n0 int) Law {
	p := m.truth()
	above := p * p         // a member is above a non-member
	tie := 2 * p * (1 - p) // both released the same bit
	// E[(P(win) + ½ P(tie))²] over the one non-member, and over the one member:
	// the two are equal by symmetry.
	q := p*(1+p)*(1+p)/4 + (1-p)*p*p/4
	return mannWhitney(p, above+tie/4, q, q, n1, n0)
}

// TPRAtFPR is the law of the true positive rate at a false positive rate of at
// most num/den: the rate of ones among members if the ones among non-members
// are few enough, else 0, since all ones enter together.
func (m RandomizedResponse) TPRAtFPR(n1, n0, num, den int) Law {
	k := n0 * num / den
	if k >= n0 {
		return Law{1, 0}
	}
	p := m.truth()
	few := distuv.Binomial{N: float64(n0), P: 1 - p}.CDF(float64(k))
	mean := few * p
	return Law{mean, math.Sqrt(few*(p*p+p*(1-p)/float64(n1)) - mean*mean)}
}

// mannWhitney is Hoeffding's variance of a two-sample U-statistic with kernel
// h in [0,1]: square = E[h²], q1 = E[E[h | non-member]²], q0 = E[E[h | member]²].
func mannWhitney(mean, square, q1, q0 float64, n1, n0 int) Law {
	a, b := float64(n1), float64(n0)
	m2 := mean * mean
	return Law{mean, math.Sqrt((square - m2 + (a-1)*(q1-m2) + (b-1)*(q0-m2)) / (a * b))}
}

// integrate is ∫ f over the line for f that a normal density bounds, by the
// trapezoidal rule. For smooth functions its error falls like
// exp(-2π²(width/step)²): the narrowest here, the density of an order statistic
// among n0 <= 10⁵ normals, has a standard deviation of more than two steps.
func integrate(f func(float64) float64) float64 {
	const limit, steps = 12.0, 1 << 13
	const step = 2 * limit / steps
	sum := 0.0
	for i := 1; i < steps; i++ {
		sum += f(-limit + float64(i)*step)
	}
	return sum * step
}

func normalCDF(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

func normalPDF(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
