package npz

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRows(t *testing.T) {
	for _, name := range []string{"c_float16.npy", "c_float32.npy", "c_float64.npy"} {
		r, err := OpenRows(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		x := make([]float32, 3)
		if err := r.Read(1, x); err != nil || !slices.Equal(x, []float32{3, 4, 5}) || r.Len() != 2 || r.Dim() != 3 {
			t.Errorf("%s: %v, %v", name, x, err)
		}
		for _, from := range []int{-1, 2} {
			if err := r.Read(from, x); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s, row %d: %v", name, from, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, want := range map[string]string{
		"fortran_2d.npy": "dtype is uint8", "vector.npy": "shape [5]", "scalar.npy": "shape []", "bad_text.npy": "is text", "none.npy": "no such file",
	} {
		if _, err := OpenRows(filepath.Join("testdata", name)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	whole, err := os.ReadFile("testdata/c_float32.npy")
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.npy")
	if err := os.WriteFile(cut, whole[:len(whole)-1], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRows(cut); err == nil || !strings.Contains(err.Error(), "truncated: 23 bytes") {
		t.Errorf("%v", err)
	}
	fortran := strings.Replace(string(whole), "'fortran_order': False", "'fortran_order': True ", 1)
	if err := os.WriteFile(cut, []byte(fortran), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRows(cut); !errors.Is(err, ErrColumns) {
		t.Errorf("%v", err)
	}
}

// TestHalf: all 65536 numbers, by their definition.
func TestHalf(t *testing.T) {
	for b := range 1 << 16 {
		sign := 1.0
		if b>>15 == 1 {
			sign = -1
		}
		e, f := b>>10&31, float64(b&1023)/1024
		var want float64
		switch {
		case e == 31 && f != 0:
			want = math.NaN()
		case e == 31:
			want = math.Inf(int(sign))
		case e == 0:
			want = sign * math.Pow(2, -14) * f
		default:
			want = sign * math.Pow(2, float64(e-15)) * (1 + f)
		}
		got := float64(half(uint16(b)))
		if got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Fatalf("%04x: %v, expected %v", b, got, want)
		}
	}
}
