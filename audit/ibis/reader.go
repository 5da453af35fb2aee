package ibis

import (
	"context"
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// blockLen is how many examples are on their way at once. Rows do not see each
// other, and sums over rows go in one order, so it changes no bit.
const blockLen = 2048

// reader brings examples of a data set to a pass, block by block.
type reader struct {
	dev   kernels.Device
	data  *train.Data
	index []int // nil: all of data, in its order

	y       []int32
	labels  *tensor.Tensor // [blockLen]
	x, rows *tensor.Tensor // gathered examples and where they are; nil if index is
}

func newReader(dev kernels.Device, d *train.Data, index []int) (*reader, error) {
	r := &reader{dev: dev, data: d, index: index}
	n := min(blockLen, r.len())
	if n == 0 {
		return nil, fmt.Errorf("ibis: no examples")
	}
	var err error
	if r.labels, err = tensor.AllocInts(dev, n); err != nil {
		return nil, err
	}
	if index == nil {
		return r, nil
	}
	for _, i := range index {
		if i < 0 || i >= d.Len() {
			r.free()
			return nil, fmt.Errorf("ibis: example %d, expected one from 0 to %d", i, d.Len()-1)
		}
	}
	if r.rows, err = tensor.AllocInts(dev, n); err == nil {
		r.x, err = tensor.Alloc(dev, append([]int{n}, d.Shape()...)...)
	}
	if err != nil {
		r.free()
		return nil, err
	}
	return r, nil
}

func (r *reader) len() int {
	if r.index == nil {
		return r.data.Len()
	}
	return len(r.index)
}

// each calls f with the examples [from, to) and their labels, block by block.
// They are gone when f returns.
func (r *reader) each(ctx context.Context, f func(x tensor.Value, labels *tensor.Tensor, from, to int) error) error {
	for from := 0; from < r.len(); from += blockLen {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("ibis: %w", err)
		}
		to := min(from+blockLen, r.len())
		x, labels := r.block(from, to)
		if err := f(tensor.Const(x), labels, from, to); err != nil {
			return err
		}
	}
	return nil
}

// block brings the examples [from, to), at most blockLen.
func (r *reader) block(from, to int) (x, labels *tensor.Tensor) {
	n := to - from
	labels = r.labels.Slice(0, n)
	if r.index == nil {
		r.dev.UploadInts(labels.Mem(), r.data.Y[from:to])
		return r.data.X.Slice(from, to), labels
	}
	rows := make([]int32, n)
	r.y = r.y[:0]
	for i, e := range r.index[from:to] {
		rows[i] = int32(e)
		r.y = append(r.y, r.data.Y[e])
	}
	r.dev.UploadInts(labels.Mem(), r.y)
	r.dev.UploadInts(r.rows.Slice(0, n).Mem(), rows)
	x = r.x.Slice(0, n)
	r.dev.Gather(x.Mem(), r.data.X.Mem(), r.rows.Slice(0, n).Mem(), n, x.Len()/n)
	return x, labels
}

func (r *reader) free() {
	for _, t := range []*tensor.Tensor{r.labels, r.x, r.rows} {
		t.Free(r.dev)
	}
}
