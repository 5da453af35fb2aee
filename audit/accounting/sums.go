package accounting

import (
	"fmt"
	"math"
	"math/bits"
)

// PairSums gives the laws of the sums of the first 1, 2, … of independent whole
// numbers, in two worlds at once: a[t][i] and b[t][i] are the probabilities of the
// number i of term t, from 0 to below n, which is a power of two. Sums are found
// modulo n by fast Fourier transforms, so that what is at n or above comes back at
// the wrong place: the caller knows how much that can be.
//
// No sum of entries of a law is off by more than rounding. A stage of the transform
// is right to 16u = 2^-49 in the Euclidean norm, which its two radix-2 steps and
// the products of roots stay below, so that one over all levels is right to
// 8u log2 n (Higham, "Accuracy and Stability of Numerical Algorithms", 2002,
// section 24.1). Spectra of probabilities are at most 1, and products keep errors
// no larger; and a sum of n errors is at most √n times their norm.
func PairSums(a, b [][]float64, n int) (sumA, sumB [][]float64, rounding float64, err error) {
	if len(a) != len(b) || n < 1 || n&(n-1) != 0 {
		return nil, nil, 0, fmt.Errorf("accounting: sums of %d and %d terms modulo %d, expected as many of both and a power of two", len(a), len(b), n)
	}
	norm := 0.0
	for t := range a {
		square := 0.0
		for _, p := range [][]float64{a[t], b[t]} {
			total := 0.0
			for i, v := range p {
				if !(v >= 0) || i >= n {
					return nil, nil, 0, fmt.Errorf("accounting: term %d has probability %v of %d, expected one of at least 0, and numbers below %d", t, v, i, n)
				}
				square += v * v
				total += v
			}
			if !(total <= 1+1e-9) {
				return nil, nil, 0, fmt.Errorf("accounting: term %d has probabilities with a sum of %v, expected at most 1", t, total)
			}
		}
		norm = math.Max(norm, math.Sqrt(square))
	}
	f := newFFT(n)
	product, z := make([]complex128, n), make([]complex128, n)
	for i := range product {
		product[i] = complex(1, 1)
	}
	for t := range a {
		clear(z)
		for i, v := range a[t] {
			z[i] = complex(v, 0)
		}
		for i, v := range b[t] {
			z[i] += complex(0, v)
		}
		f.forward(z)
		multiplyPowers(product, z, 1)
		copy(z, product)
		f.inverse(z)
		pa, pb := make([]float64, n), make([]float64, n)
		for i, v := range z {
			pa[i], pb[i] = real(v)/float64(n), imag(v)/float64(n)
		}
		sumA, sumB = append(sumA, pa), append(sumB, pb)
	}
	terms, levels := float64(len(a)), float64(bits.Len(uint(n)))
	rounding = math.Sqrt(2*float64(n)) * 0x1p-53 * (8*levels*(terms+1) + 3*terms) * norm
	return sumA, sumB, rounding, nil
}
