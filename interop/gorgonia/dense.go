package gorgonia

import (
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor"
	gt "gorgonia.org/tensor"
)

// FromDense copies d to a new tensor on dev, whose owner frees it. d holds
// float32 or float64 in row-major order; a transposed, sliced or masked d is an
// error, since its numbers lie elsewhere than its shape says.
func FromDense(dev kernels.Device, d *gt.Dense) (*tensor.Tensor, error) {
	if err := checkDense(d); err != nil {
		return nil, err
	}
	shape := []int(d.Shape())
	t, err := tensor.Alloc(dev, shape...)
	if err != nil {
		return nil, err
	}
	switch data := d.Data().(type) {
	case []float64:
		dev.UploadF64(t.Mem(), data)
	case []float32:
		dev.UploadF32(t.Mem(), data)
	case float64: // how a scalar shows itself
		dev.UploadF64(t.Mem(), []float64{data})
	case float32:
		dev.UploadF32(t.Mem(), []float32{data})
	}
	return t, nil
}

// ToDense copies t from dev to a new Dense of the same shape and of dtype
// gt.Float32 or gt.Float64. It waits for all that is queued on dev.
func ToDense(dev kernels.Device, t *tensor.Tensor, dtype gt.Dtype) (*gt.Dense, error) {
	if t.Len() == 0 {
		return nil, fmt.Errorf("gorgonia: a Dense of shape %v would be empty, which Gorgonia does not have", t.Shape())
	}
	var backing any
	switch dtype {
	case gt.Float64:
		numbers, err := t.Floats(dev)
		if err != nil {
			return nil, err
		}
		backing = numbers
	case gt.Float32:
		numbers := make([]float32, t.Len())
		if err := dev.DownloadF32(numbers, t.Mem()); err != nil {
			return nil, err
		}
		backing = numbers
	default:
		return nil, fmt.Errorf("gorgonia: dtype %v, expected float32 or float64", dtype)
	}
	return gt.New(gt.WithShape(t.Shape()...), gt.WithBacking(backing)), nil
}

func checkDense(d *gt.Dense) error {
	switch {
	case d == nil:
		return fmt.Errorf("gorgonia: no Dense")
	case d.Dtype() != gt.Float32 && d.Dtype() != gt.Float64:
		return fmt.Errorf("gorgonia: Dense of dtype %v, expected float32 or float64", d.Dtype())
	case !d.IsNativelyAccessible():
		return fmt.Errorf("gorgonia: Dense of shape %v is not in this process's memory", d.Shape())
	case d.IsMasked():
		return fmt.Errorf("gorgonia: Dense of shape %v is masked, expected one without a mask", d.Shape())
	case !rowMajor(d):
		return fmt.Errorf("gorgonia: Dense of shape %v with strides %v is not row-major and contiguous; "+
			"Materialize or clone it first", d.Shape(), d.Strides())
	}
	return nil
}

// rowMajor compares strides rather than asking for flags: a column of a matrix
// is a vector whose flags say contiguous.
func rowMajor(d *gt.Dense) bool {
	if d.IsScalar() {
		return true
	}
	if d.DataSize() != d.Shape().TotalSize() || d.DataOrder().IsColMajor() && d.Dims() > 1 {
		return false
	}
	return slices.Equal(d.Strides(), d.Shape().CalcStrides())
}
