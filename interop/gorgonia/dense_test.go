package gorgonia

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor"
	gt "gorgonia.org/tensor"
)

// TestDenseRoundTrip carries numbers there and back. On the reference device,
// which is float64, both element types come back to the last bit.
func TestDenseRoundTrip(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	f64 := []float64{1, -2, math.Pi, math.Inf(1), 0x1p-1074, 6}
	f32 := []float32{1, -2, math.MaxFloat32, float32(math.Inf(-1)), 0x1p-149, 6}
	for _, shape := range [][]int{{6}, {2, 3}, {3, 2}, {1, 6}, {6, 1}, {1, 2, 3}, {2, 1, 3, 1}} {
		for _, backing := range []any{slices.Clone(f64), slices.Clone(f32)} {
			d := gt.New(gt.WithShape(shape...), gt.WithBacking(backing))
			x, err := FromDense(dev, d)
			if err != nil {
				t.Fatalf("shape %v, %v: %v", shape, d.Dtype(), err)
			}
			if !slices.Equal(x.Shape(), shape) {
				t.Errorf("shape %v became %v", shape, x.Shape())
			}
			back, err := ToDense(dev, x, d.Dtype())
			if err != nil {
				t.Fatal(err)
			}
			if !back.Shape().Eq(d.Shape()) || !same(back.Data(), backing) {
				t.Errorf("shape %v: %v came back as %v %v", shape, backing, back.Shape(), back.Data())
			}
			x.Free(dev)
		}
	}
}

// same compares to the last bit; it has a test of its own below.
func same(a, b any) bool {
	switch a := a.(type) {
	case []float64:
		b, ok := b.([]float64)
		return ok && len(a) > 0 && slices.Equal(a, b)
	case []float32:
		b, ok := b.([]float32)
		return ok && len(a) > 0 && slices.Equal(a, b)
	}
	return false
}

func TestSameCanFail(t *testing.T) {
	for _, b := range []any{[]float64{1, math.Nextafter(2, 3)}, []float32{1, 2}, []float64{1}, []float64{}, nil} {
		if same([]float64{1, 2}, b) {
			t.Errorf("%v passed for [1 2]", b)
		}
	}
	if same([]float64{}, []float64{}) {
		t.Error("nothing compared, and passed")
	}
}

// Copies, so that neither side sees the other's later changes.
func TestConversionsCopy(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	backing := []float64{1, 2}
	x, err := FromDense(dev, gt.New(gt.WithBacking(backing)))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Free(dev)
	backing[0] = 9
	d, err := ToDense(dev, x, gt.Float64)
	if err != nil {
		t.Fatal(err)
	}
	if !same(d.Data(), []float64{1, 2}) {
		t.Errorf("the tensor holds %v after its source changed, expected [1 2]", d.Data())
	}
	d.Data().([]float64)[1] = 9
	if got, err := x.Floats(dev); err != nil || !same(got, []float64{1, 2}) {
		t.Errorf("the tensor holds %v after its copy changed (error %v), expected [1 2]", got, err)
	}
}

func TestScalar(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	x, err := FromDense(dev, gt.New(gt.FromScalar(2.5)))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Free(dev)
	if got, err := x.Floats(dev); err != nil || !same(got, []float64{2.5}) || len(x.Shape()) != 0 {
		t.Errorf("a scalar 2.5 became %v of shape %v (error %v)", got, x.Shape(), err)
	}
}

// Each of these holds its numbers elsewhere than its shape says, or numbers of
// another kind. Copied blindly they would be silently wrong.
func TestFromDenseRefuses(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	matrix := func() *gt.Dense {
		return gt.New(gt.WithShape(2, 3), gt.WithBacking([]float64{1, 2, 3, 4, 5, 6}))
	}
	transposed := matrix()
	if err := transposed.T(); err != nil {
		t.Fatal(err)
	}
	column, err := matrix().Slice(nil, gt.S(1))
	if err != nil {
		t.Fatal(err)
	}
	columns, err := matrix().Slice(nil, gt.S(1, 3))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		d    *gt.Dense
		want string
	}{
		"transposed":   {transposed, "not row-major"},
		"a column":     {column.(*gt.Dense), "not row-major"},
		"columns":      {columns.(*gt.Dense), "not row-major"},
		"column-major": {gt.New(gt.WithShape(2, 3), gt.AsFortran([]float64{1, 2, 3, 4, 5, 6})), "not row-major"},
		"masked":       {gt.New(gt.WithShape(2), gt.WithBacking([]float64{1, 2}, []bool{true, false})), "masked"},
		"ints":         {gt.New(gt.WithBacking([]int{1, 2})), "dtype int"},
		"nil":          {nil, "no Dense"},
	} {
		if x, err := FromDense(dev, c.d); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: tensor %v, error %v, expected one with %q", name, x, err, c.want)
		}
	}
	if live := dev.Stats().LiveBytes; live != 0 {
		t.Errorf("%d bytes are still allocated after refusals", live)
	}

	// A row of a matrix is contiguous, and fine.
	row, err := matrix().Slice(gt.S(1))
	if err != nil {
		t.Fatal(err)
	}
	x, err := FromDense(dev, row.(*gt.Dense))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := x.Floats(dev); err != nil || !same(got, []float64{4, 5, 6}) {
		t.Errorf("the second row became %v (error %v), expected [4 5 6]", got, err)
	}
}

func TestToDenseRefuses(t *testing.T) {
	dev := kernels.Reference()
	defer dev.Close()
	x, err := tensor.FromFloats(dev, []float64{1, 2}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := ToDense(dev, x, gt.Int); err == nil || !strings.Contains(err.Error(), "dtype int") {
		t.Errorf("dtype int: %v, error %v", d, err)
	}
	empty, err := tensor.FromFloats(dev, nil, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := ToDense(dev, empty, gt.Float64); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Errorf("empty: %v, error %v", d, err)
	}
}
