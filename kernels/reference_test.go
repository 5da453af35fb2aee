package kernels_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
)

func references(t *testing.T, f func(t *testing.T, dev kernels.Device)) {
	t.Helper()
	for _, open := range []func() kernels.Device{kernels.Reference, kernels.ReferenceAsync} {
		dev := open()
		t.Run(dev.Name(), func(t *testing.T) { f(t, dev) })
		dev.Close()
	}
}

func alloc(t *testing.T, dev kernels.Device, kind kernels.Kind, n int) kernels.Mem {
	t.Helper()
	m, err := dev.Alloc(kind, n)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Host memory may be reused as soon as an upload returns.
func TestReferenceUploadsAtOnce(t *testing.T) {
	references(t, func(t *testing.T, dev kernels.Device) {
		x := alloc(t, dev, kernels.Elem, 3)
		narrow, wide := []float32{1, 2, 3}, []float64{4, 5, 6}
		y := alloc(t, dev, kernels.Elem, 3)
		dev.UploadF32(x, narrow)
		dev.UploadF64(y, wide)
		clear(narrow)
		clear(wide)
		dev.Add(y, x, y, 10, 1)
		got := make([]float64, 3)
		if err := dev.DownloadF64(got, y); err != nil {
			t.Fatal(err)
		}
		if want := []float64{14, 25, 36}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// The first failure stays, and what follows does nothing.
func TestReferenceFailureIsSticky(t *testing.T) {
	references(t, func(t *testing.T, dev kernels.Device) {
		x, out := alloc(t, dev, kernels.Elem, 6), alloc(t, dev, kernels.Elem, 3)
		index := alloc(t, dev, kernels.Int32, 1)
		dev.UploadF64(x, make([]float64, 6))
		dev.UploadInts(index, []int32{2})
		dev.Gather(out, x, index, 1, 3)
		dev.Fill(x, 1)
		for _, err := range []error{dev.Sync(), dev.DownloadF64(make([]float64, 6), x), dev.Close()} {
			if err == nil || !strings.Contains(err.Error(), "Gather: index 2 of row 0") {
				t.Errorf("error %v does not name the operation, the index and the row", err)
			}
		}
	})
}

func TestReferenceCounts(t *testing.T) {
	references(t, func(t *testing.T, dev kernels.Device) {
		x := alloc(t, dev, kernels.Elem, 4)
		y := alloc(t, dev, kernels.Int32, 2)
		dev.Free(x)
		z := alloc(t, dev, kernels.Float64, 1)
		dev.Free(y)
		w := alloc(t, dev, kernels.Elem, 1)
		dev.Fill(w, 1)
		dev.Fill(w, 2)
		if err := dev.Sync(); err != nil {
			t.Fatal(err)
		}
		want := kernels.Stats{Allocs: 4, LiveBytes: 16, PeakBytes: 40, Launches: 2}
		if got := dev.Stats(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		dev.Free(z)
	})
}

// Wrong sizes and freed buffers are the caller's bug.
func TestReferencePanics(t *testing.T) {
	references(t, func(t *testing.T, dev kernels.Device) {
		x, freed := alloc(t, dev, kernels.Elem, 4), alloc(t, dev, kernels.Elem, 4)
		dev.Free(freed)
		for name, f := range map[string]func(){
			"size":  func() { dev.Copy(x, x.Slice(0, 3)) },
			"kind":  func() { dev.Copy(x, alloc(t, dev, kernels.Int32, 4)) },
			"freed": func() { dev.Copy(x, freed) },
			"twice": func() { dev.Free(freed) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: no panic", name)
					}
				}()
				f()
			}()
		}
	})
}
