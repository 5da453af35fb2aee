package records

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/internal/npz"
)

func TestOpenVectors(t *testing.T) {
	dir := t.TempDir()
	matrix := npz.Array{Shape: []int{2, 2}, Data: []float32{3, 4, 0, 1}}
	write := func(name string, fill func(b *bytes.Buffer) error) string {
		var b bytes.Buffer
		if err := fill(&b); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	npy := write("a.npy", func(b *bytes.Buffer) error { return npz.WriteNpy(b, matrix) })
	doubles := write("d.npz", func(b *bytes.Buffer) error {
		return npz.Write(b, npz.Named{Name: "x", Array: npz.Array{Shape: []int{2, 2}, Data: []float64{3, 4, 0, 1}}})
	})
	named := write("e.npz", func(b *bytes.Buffer) error {
		return npz.Write(b, npz.Named{Name: "other", Array: npz.Array{Shape: []int{1}, Data: []int32{1}}}, npz.Named{Name: "embeddings", Array: matrix})
	})
	whole, err := os.ReadFile(npy)
	if err != nil {
		t.Fatal(err)
	}
	fortran := filepath.Join(dir, "f.npy")
	if err := os.WriteFile(fortran, []byte(strings.Replace(string(whole), "'fortran_order': False", "'fortran_order': True ", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]float32{npy: {3, 4, 0, 1}, doubles: {3, 4, 0, 1}, named: {3, 4, 0, 1}, fortran: {3, 0, 4, 1}} {
		v, err := OpenVectors(path)
		if err != nil {
			t.Error(err)
			continue
		}
		m, err := ReadAll(v)
		if err != nil || !slices.Equal(m.X, want) {
			t.Errorf("%s: %v, %v", path, m, err)
		}
		if low, high, err := Norms(v); path != fortran && (err != nil || low != 1 || high != 5) {
			t.Errorf("%s: norms %v to %v, %v", path, low, high, err)
		}
		v.Close()
	}
	if _, _, err := Norms(&Matrix{1, []float32{1, float32(math.NaN())}}); err == nil || !strings.Contains(err.Error(), "row 1, column 0") {
		t.Errorf("%v", err)
	}
	ints := write("i.npz", func(b *bytes.Buffer) error {
		return npz.Write(b, npz.Named{Name: "x", Array: npz.Array{Shape: []int{1, 1}, Data: []int32{1}}})
	})
	for path, want := range map[string]string{ints: "dtype is int32", "x.txt": "expected a name", filepath.Join(dir, "no.npy"): "no such file"} {
		if _, err := OpenVectors(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
