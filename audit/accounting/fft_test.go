package accounting

import (
	"fmt"
	"math"
	"math/bits"
	"math/cmplx"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"
)

func TestFFT(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 1<<17; n *= 2 {
		x := make([]complex128, n)
		for i := range x {
			x[i] = complex(r.NormFloat64(), r.NormFloat64())
		}
		want := fourier.NewCmplxFFT(n).Coefficients(nil, x)
		f, y := newFFT(n), append([]complex128(nil), x...)
		f.forward(y)
		shift := 64 - bits.Len(uint(n-1))
		// A transform of n standard normals has entries near sqrt(n), each off by
		// some ulps for each of log2 n stages.
		tol := 1e-15 * math.Sqrt(float64(n)) * float64(8+4*bits.Len(uint(n)))
		for i := range y {
			k := 0
			if n > 1 {
				k = int(bits.Reverse64(uint64(i)) >> shift)
			}
			if !(cmplx.Abs(y[i]-want[k]) <= tol) {
				t.Fatalf("n = %d: frequency %d is %v, want %v", n, k, y[i], want[k])
			}
			if m := mirror(i); n > 1 && (k+int(bits.Reverse64(uint64(m))>>shift))%n != 0 {
				t.Fatalf("n = %d: place %d mirrors to %d", n, i, m)
			}
		}
		f.inverse(y)
		for i := range y {
			if !(cmplx.Abs(y[i]/complex(float64(n), 0)-x[i]) <= 1e-15*float64(8+4*bits.Len(uint(n)))) {
				t.Fatalf("n = %d: back at %d: %v, want %v", n, i, y[i], x[i])
			}
		}
	}
}

// TestRealFFT convolves real sequences and compares with the sums themselves;
// the lengths have both kinds of halving.
func TestRealFFT(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n := 4; n <= 512; n *= 2 {
		a, b := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i], b[i] = r.NormFloat64(), r.NormFloat64()
		}
		want := make([]float64, n)
		for i, v := range a {
			for j, w := range b {
				for k, u := range a {
					if n <= 32 {
						want[(i+j+k)%n] += v * w * u
					}
				}
				if n > 32 {
					want[(i+j)%n] += v * w
				}
			}
		}
		f := newRealFFT(n)
		s := f.forward(append([]float64(nil), a...))
		if n <= 32 {
			s.power(2)
		}
		s.multiply(f.forward(append([]float64(nil), b...)))
		got := make([]float64, n)
		f.inverse(s, got)
		for i := range got {
			// Sums of n or n² products of normals; some ulps for each of the stages.
			if !(math.Abs(got[i]/float64(n)-want[i]) <= 1e-14*float64(n)) {
				t.Fatalf("n = %d: %d is %v, want %v", n, i, got[i]/float64(n), want[i])
			}
		}
	}
}

func BenchmarkFFT(b *testing.B) {
	for _, n := range []int{1 << 17, 1 << 18, 1 << 20} {
		x := make([]complex128, n)
		b.Run(fmt.Sprintf("ours/%d", n), func(b *testing.B) {
			f := newFFT(n)
			for b.Loop() {
				clear(x)
				x[3] = 1
				f.forward(x)
			}
		})
		b.Run(fmt.Sprintf("gonum/%d", n), func(b *testing.B) {
			f, y := fourier.NewCmplxFFT(n), make([]complex128, n)
			clear(x)
			x[3] = 1
			for b.Loop() {
				f.Coefficients(y, x)
			}
		})
	}
}

func BenchmarkAccounting(b *testing.B) {
	e := DPSGD(.01, 1, 10000)
	b.Run("tight", func(b *testing.B) {
		for b.Loop() {
			if _, err := NewCurve(e, 1e-5); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("opacus", func(b *testing.B) {
		for b.Loop() {
			if _, err := Opacus(e, 1e-5); err != nil {
				b.Fatal(err)
			}
		}
	})
	n := Noise{.04096, 2441, 1e-5}
	b.Run("calibrate", func(b *testing.B) {
		for b.Loop() {
			if _, err := n.Calibrate(10); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("calibrate-opacus", func(b *testing.B) {
		for b.Loop() {
			if _, err := n.CalibrateOpacus(10, OpacusPRV); err != nil {
				b.Fatal(err)
			}
		}
	})
}
