package ref_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/aviary-audit/aviary/kernels/ref"
)

func closeTo(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Errorf("%s is %v, expected %v", what, got, want)
	}
}

// GELU is x Φ(x), and GELU(x) - GELU(-x) is x.
func TestGELU(t *testing.T) {
	x := []float64{1, -1, 2.5, -2.5, 0}
	y := make([]float64, len(x))
	ref.GELU(y, x)
	closeTo(t, "GELU(1)", y[0], 0.8413447460685429, 1e-15)
	closeTo(t, "GELU(1)-GELU(-1)", y[0]-y[1], 1, 1e-15)
	closeTo(t, "GELU(2.5)-GELU(-2.5)", y[2]-y[3], 2.5, 1e-15)
	closeTo(t, "GELU(0)", y[4], 0, 0)
}

// By hand: the mean of 1, 2, 3, 6 is 3, the variance 3.5; and the residual counts.
func TestLayerNorm(t *testing.T) {
	dst := make([]float64, 4)
	ref.LayerNorm(dst, []float64{1, 1, 1, 1}, []float64{0, 1, 2, 5}, []float64{1, 2, 1, 1}, []float64{0, 0, 0, 10}, 1, 4, .5)
	for i, want := range []float64{-1, -1, 0, 11.5} {
		closeTo(t, "a normalised element", dst[i], want, 1e-15)
	}
}

// A token of its own sees itself; without bias, the order of the others does not
// matter; one long sequence is not two.
func TestAttention(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	a := ref.Heads{Tokens: 4, Sequences: 2, Heads: 2, Dim: 3, Longest: 3, Scale: .5}
	qkv, dst := normals(rng, 3*4*2*3), make([]float64, 4*2*3)
	if err := ref.Attention(dst, qkv, []int32{0, 1, 4}, nil, a); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		closeTo(t, "the only value", dst[i], qkv[12+i], 0)
	}
	swapped := append([]float64(nil), qkv...)
	copy(swapped[2*18+6:3*18], qkv[3*18+6:]) // keys and values of tokens 2 and 3
	copy(swapped[3*18+6:], qkv[2*18+6:3*18])
	other := make([]float64, len(dst))
	if err := ref.Attention(other, swapped, []int32{0, 1, 4}, nil, a); err != nil {
		t.Fatal(err)
	}
	for i := range dst {
		closeTo(t, "after swapping two", other[i], dst[i], 1e-14)
	}
	for _, bad := range [][]int32{{0, 1, 3}, {1, 2, 4}, {0, 3, 2}, {0, 0, 4}, {0, -1, 4}, {0, 5, 4}} {
		if err := ref.Attention(dst, qkv, bad, nil, a); err == nil {
			t.Errorf("offsets %v: no error", bad)
		}
	}
}
