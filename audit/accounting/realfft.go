package accounting

import (
	"math"
	"sync"
)

// realFFT transforms one real sequence of power-of-two length, at half the cost
// of a complex transform. With x's quarters a, b, c, d, frequencies 4k+1 are the
// complex transform, of length n/4, of ((a-c) - i(b-d)) e^(-2πij/n); those of
// 4k+3 are their conjugates; and the even ones are the transform of the real
// (a+c, b+d), of half the length, for which the same is done again.
//
// A spectrum is a list of what is needed of it: complex frequencies, each of
// which stands for its conjugate too, and the two that are real.
type realFFT struct {
	n int
	// complex transforms of lengths n/4, n/16, … and n/8, n/32, …
	even, odd *fft
}

func newRealFFT(n int) *realFFT {
	f := newFFT(n)
	half := &fft{n: n / 2}
	for size := n / 2; size >= 8; size /= 4 {
		w, all := make([]complex128, size/4), f.twiddle[0]
		for j := range w {
			w[j] = all[j*(n/size)]
		}
		half.twiddle = append(half.twiddle, w)
	}
	return &realFFT{n, f, half}
}

// at is the complex transform and the roots e^(-2πij/n), j < n/4, for real
// sequences of n/2^depth.
func (f *realFFT) at(depth int) (*fft, int) {
	if depth%2 == 0 {
		return f.even, depth / 2
	}
	return f.odd, depth / 2
}

// spectrum has the complex frequencies of each halving, longest first, and the
// sum and the alternating sum of all.
type spectrum struct {
	parts [][]complex128
	ends  [2]float64
}

// forward transforms x, which it overwrites.
func (f *realFFT) forward(x []float64) spectrum {
	var s spectrum
	var wait sync.WaitGroup
	depth := 0
	for ; len(x) > 2; depth++ {
		n, q := len(x), len(x)/4
		c, level := f.at(depth)
		y := make([]complex128, q)
		if n >= 8 {
			w := c.twiddle[level][:q]
			x0, x1, x2, x3 := x[:q], x[q : 2*q][:q], x[2*q : 3*q][:q], x[3*q:][:q]
			for j := range y {
				y[j] = complex(x0[j]-x2[j], x3[j]-x1[j]) * w[j]
				x0[j], x1[j] = x0[j]+x2[j], x1[j]+x3[j]
			}
		} else {
			y[0] = complex(x[0]-x[2], x[3]-x[1])
			x[0], x[1] = x[0]+x[2], x[1]+x[3]
		}
		wait.Go(func() { c.split(y, level+1) })
		s.parts = append(s.parts, y)
		x = x[:n/2]
	}
	s.ends = [2]float64{x[0] + x[1], x[0] - x[1]}
	wait.Wait()
	return s
}

// inverse writes n times the sequence of s, which it overwrites, to x.
func (f *realFFT) inverse(s spectrum, x []float64) {
	var wait sync.WaitGroup
	for depth, y := range s.parts {
		c, level := f.at(depth)
		wait.Go(func() { c.join(y, level+1) })
	}
	wait.Wait()
	x[0], x[1] = s.ends[0]+s.ends[1], s.ends[0]-s.ends[1]
	for depth := len(s.parts) - 1; depth >= 0; depth-- {
		y := s.parts[depth]
		q := len(y)
		x0, x1, x2, x3 := x[:q], x[q : 2*q][:q], x[2*q : 3*q][:q], x[3*q : 4*q][:q]
		c, level := f.at(depth)
		for j, v := range y {
			w := complex(1, 0)
			if q > 1 {
				w = c.twiddle[level][j]
			}
			re, im := real(v)*real(w)+imag(v)*imag(w), imag(v)*real(w)-real(v)*imag(w)
			sum0, sum1 := x0[j], x1[j]
			x0[j], x1[j] = sum0+2*re, sum1-2*im
			x2[j], x3[j] = sum0-2*re, sum1+2*im
		}
	}
}

// power raises every frequency to the n-th power.
func (s *spectrum) power(n int) {
	for _, part := range s.parts {
		inChunks(len(part), func(from, to int) {
			for i := from; i < to; i++ {
				part[i] = power(part[i], n)
			}
		})
	}
	for i, v := range s.ends {
		s.ends[i] = math.Pow(v, float64(n))
	}
}

// multiply is the spectrum of a convolution.
func (s *spectrum) multiply(with spectrum) {
	for i, part := range s.parts {
		for j := range part {
			part[j] *= with.parts[i][j]
		}
	}
	for i := range s.ends {
		s.ends[i] *= with.ends[i]
	}
}
