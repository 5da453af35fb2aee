package tensor

import (
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/kernels"
)

// Tensor is a dense row-major array on a device. Images are [B,H,W,C], linear
// weights [in, out]. Shapes live on the host and never change; numbers live
// on the device.
type Tensor struct {
	shape []int
	mem   kernels.Mem
	rows  *rankOne // set instead of mem: see RankOne
}

// Of is mem under a shape. It panics unless they agree in size.
func Of(mem kernels.Mem, shape ...int) *Tensor {
	if n := size(shape); mem.N != n {
		panic(fmt.Sprintf("tensor: Of: %d elements do not fill shape %v", mem.N, shape))
	}
	return &Tensor{shape: slices.Clone(shape), mem: mem}
}

// Alloc is a new tensor of the device's element type with undefined contents.
// Its owner calls Free.
func Alloc(dev kernels.Device, shape ...int) (*Tensor, error) {
	return alloc(dev, kernels.Elem, shape)
}

// AllocInts is a new Int32 tensor with undefined contents.
func AllocInts(dev kernels.Device, shape ...int) (*Tensor, error) {
	return alloc(dev, kernels.Int32, shape)
}

func alloc(dev kernels.Device, kind kernels.Kind, shape []int) (*Tensor, error) {
	mem, err := dev.Alloc(kind, size(shape))
	if err != nil {
		return nil, fmt.Errorf("tensor: %s %v: %w", kind, shape, err)
	}
	return &Tensor{shape: slices.Clone(shape), mem: mem}, nil
}

// FromFloats allocates a tensor and uploads its numbers.
func FromFloats(dev kernels.Device, numbers []float64, shape ...int) (*Tensor, error) {
	t, err := Alloc(dev, shape...)
	if err != nil {
		return nil, err
	}
	dev.UploadF64(t.mem, numbers)
	return t, nil
}

// FromInts allocates an Int32 tensor and uploads its numbers.
func FromInts(dev kernels.Device, numbers []int32, shape ...int) (*Tensor, error) {
	t, err := AllocInts(dev, shape...)
	if err != nil {
		return nil, err
	}
	dev.UploadInts(t.mem, numbers)
	return t, nil
}

// Floats downloads t's numbers. It waits for all that is queued.
func (t *Tensor) Floats(dev kernels.Device) ([]float64, error) {
	numbers := make([]float64, t.Len())
	err := dev.DownloadF64(numbers, t.Mem())
	return numbers, err
}

// Free gives the memory of a tensor made by Alloc back. t may be nil.
func (t *Tensor) Free(dev kernels.Device) {
	if t != nil && !t.mem.None() {
		dev.Free(t.mem)
		t.mem = kernels.Mem{}
	}
}

// Shape is t's shape; callers do not change it.
func (t *Tensor) Shape() []int { return t.shape }

// Dim is the length of axis i.
func (t *Tensor) Dim(i int) int { return t.shape[i] }

// Len is the number of elements.
func (t *Tensor) Len() int { return size(t.shape) }

// Mem is t's memory. It panics for a direction of rank one, which has none.
func (t *Tensor) Mem() kernels.Mem {
	if t.rows != nil {
		panic(fmt.Sprintf("tensor: a direction of rank one, %v, is an operand for products only", t.shape))
	}
	return t.mem
}

// View is the same numbers under another shape.
func (t *Tensor) View(shape ...int) *Tensor {
	if size(shape) != t.Len() {
		panic(fmt.Sprintf("tensor: View: %v does not fit shape %v", t.shape, shape))
	}
	return &Tensor{shape: slices.Clone(shape), mem: t.Mem()}
}

// Slice is the entries [from, to) along the first axis, sharing memory.
func (t *Tensor) Slice(from, to int) *Tensor {
	if len(t.shape) == 0 || from < 0 || to < from || to > t.shape[0] {
		panic(fmt.Sprintf("tensor: Slice [%d:%d] of shape %v", from, to, t.shape))
	}
	shape := slices.Clone(t.shape)
	shape[0] = to - from
	each := size(t.shape[1:])
	return &Tensor{shape: shape, mem: t.Mem().Slice(from*each, (to-from)*each)}
}

// Segment is the size(shape) elements of t from off on, under that shape,
// whatever t's own shape is: how a flat vector holds parameters.
func (t *Tensor) Segment(off int, shape ...int) *Tensor {
	return &Tensor{shape: shape, mem: t.Mem().Slice(off, size(shape))}
}

func size(shape []int) int {
	n := 1
	for _, d := range shape {
		if d < 0 {
			panic(fmt.Sprintf("tensor: negative length in shape %v", shape))
		}
		n *= d
	}
	return n
}

// rankOne stands for one matrix per row z: a[z] v + b[z] left[z] right[z]ᵀ.
type rankOne struct{ a, b, v, left, right *Tensor }

// RankOne is a direction for a weight matrix [in, out] that differs between
// examples z: a[z] v + b[z] left[z] right[z]ᵀ, where a and b are [B], v is
// [in, out] or nil for zero, left [B, in] and right [B, out]. Only MatMul and
// Affine take it, as the derivative of their right operand.
func RankOne(a, b, v, left, right *Tensor) *Tensor {
	batch, in, out := left.shape[0], left.shape[1], right.shape[1]
	if right.shape[0] != batch || a.Len() != batch || b.Len() != batch ||
		v != nil && !slices.Equal(v.shape, []int{in, out}) {
		panic(fmt.Sprintf("tensor: RankOne: left %v, right %v, a %v, b %v do not fit",
			left.shape, right.shape, a.shape, b.shape))
	}
	return &Tensor{shape: []int{in, out}, rows: &rankOne{a, b, v, left, right}}
}
