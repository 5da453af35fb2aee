package accounting

import (
	"fmt"
	"math"
	"math/bits"
	"sync"
)

// fft is a complex Fourier transform of one power-of-two length. Forward gives
// its output in bit-reversed order and inverse takes it so: composition only
// multiplies spectra, so nothing is ever put back in order. gonum's transform
// gives the same numbers ten times slower at the lengths used here (2^17 up);
// see BenchmarkFFT.
type fft struct {
	n       int
	twiddle [][]complex128 // [level][j] = exp(-2πij/len), len = n/4^level, j < len/4
}

func newFFT(n int) *fft {
	if n < 1 || n&(n-1) != 0 {
		panic(fmt.Sprintf("accounting: transform of length %d", n))
	}
	f := &fft{n: n}
	for size := n; size >= 8; size /= 4 {
		w := make([]complex128, size/4)
		if len(f.twiddle) == 0 {
			// A root and its mirror image in the diagonal, at once.
			for j := range size/8 + 1 {
				sin, cos := math.Sincos(2 * math.Pi * float64(j) / float64(size))
				w[j] = complex(cos, -sin)
				if j > 0 {
					w[size/4-j] = complex(sin, -cos)
				}
			}
		} else {
			above := f.twiddle[len(f.twiddle)-1]
			for j := range w {
				w[j] = above[4*j]
			}
		}
		f.twiddle = append(f.twiddle, w)
	}
	return f
}

// forward transforms x in place into bit-reversed order.
func (f *fft) forward(x []complex128) { f.split(x, 0) }

// inverse undoes forward, but for a factor n.
func (f *fft) inverse(x []complex128) { f.join(x, 0) }

// parallelFrom is the length from which the quarters of a transform are worth
// a goroutine each.
const parallelFrom = 1 << 16

// split is decimation in frequency, two radix-2 stages at a time.
func (f *fft) split(x []complex128, level int) {
	n := len(x)
	switch n {
	case 1:
		return
	case 2:
		x[0], x[1] = x[0]+x[1], x[0]-x[1]
		return
	case 4:
		s, t, u, v := x[0]+x[2], x[1]+x[3], x[0]-x[2], mulI(x[1]-x[3])
		x[0], x[1], x[2], x[3] = s+t, s-t, u-v, u+v
		return
	}
	q := n / 4
	w := f.twiddle[level][:q]
	x0, x1, x2, x3 := x[:q], x[q : 2*q][:q], x[2*q : 3*q][:q], x[3*q:][:q]
	for j, w1 := range w {
		a, b, c, d := x0[j], x1[j], x2[j], x3[j]
		w2 := w1 * w1
		s, t, u, v := a+c, b+d, a-c, mulI(b-d)
		x0[j] = s + t
		x1[j] = (s - t) * w2
		x2[j] = (u - v) * w1
		x3[j] = (u + v) * (w2 * w1)
	}
	quarters(x, func(part []complex128) { f.split(part, level+1) })
}

// join is split backwards.
func (f *fft) join(x []complex128, level int) {
	n := len(x)
	switch n {
	case 1:
		return
	case 2:
		x[0], x[1] = x[0]+x[1], x[0]-x[1]
		return
	case 4:
		s, t, u, v := x[0]+x[1], x[0]-x[1], x[2]+x[3], mulI(x[2]-x[3])
		x[0], x[1], x[2], x[3] = s+u, t+v, s-u, t-v
		return
	}
	quarters(x, func(part []complex128) { f.join(part, level+1) })
	q := n / 4
	w := f.twiddle[level][:q]
	x0, x1, x2, x3 := x[:q], x[q : 2*q][:q], x[2*q : 3*q][:q], x[3*q:][:q]
	for j, w1 := range w {
		w1 = complex(real(w1), -imag(w1))
		w2 := w1 * w1
		a, b, c, d := x0[j], x1[j]*w2, x2[j]*w1, x3[j]*(w2*w1)
		s, t, u, v := a+b, a-b, c+d, mulI(c-d)
		x0[j] = s + u
		x1[j] = t + v
		x2[j] = s - u
		x3[j] = t - v
	}
}

// mulI is i z.
func mulI(z complex128) complex128 { return complex(-imag(z), real(z)) }

// quarters calls do on each quarter of x, at once if x is long.
func quarters(x []complex128, do func([]complex128)) {
	q := len(x) / 4
	if len(x) < parallelFrom {
		for i := range 4 {
			do(x[i*q : (i+1)*q])
		}
		return
	}
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() { do(x[i*q : (i+1)*q]) })
	}
	wait.Wait()
}

// mirror is the place of frequency -k, if bit-reversed place i holds k: the
// numbers from 2^s to 2^(s+1)-1 mirror among themselves.
func mirror(i int) int {
	if i < 2 {
		return i
	}
	top := 1 << (bits.Len(uint(i)) - 1)
	return 3*top - 1 - i
}
