package train

import (
	"fmt"
	"slices"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor"
)

// Source is labelled examples in host memory. An audit.Dataset is one.
type Source interface {
	Len() int
	// Shape of one example, e.g. [28 28 1].
	Shape() []int
	// Classes is the number of labels; labels are 0 to Classes-1.
	Classes() int
	// Example copies example i into x and returns its label.
	Example(i int, x []float32) (label int)
}

// Data is labelled examples on a device. Runs only read it.
type Data struct {
	X       *tensor.Tensor // [N, shape...]
	Y       []int32        // [N]
	Classes int

	dev   kernels.Device
	store *tensor.Tensor // what X is part of
}

// uploadBlock is how many numbers of a Source are in flight: 4 MB.
const uploadBlock = 1 << 20

// Upload copies a data set to a device, block by block. It refuses labels out
// of range and numbers that are not finite. The owner of the Data calls Free.
func Upload(dev kernels.Device, src Source) (*Data, error) {
	d := &Data{dev: dev}
	if err := d.Load(src); err != nil {
		d.Free()
		return nil, err
	}
	return d, nil
}

// Reserve makes room for n examples of a shape, for Load to fill: data sets of
// different lengths then share one piece of memory. The owner calls Free.
func Reserve(dev kernels.Device, n int, shape []int) (*Data, error) {
	each := 1
	for _, k := range shape {
		each *= max(k, 0)
	}
	store, err := tensor.Alloc(dev, n*each)
	if err != nil {
		return nil, fmt.Errorf("train: %d examples of shape %v: %w", n, shape, err)
	}
	return &Data{dev: dev, store: store}, nil
}

// Load replaces d's examples by those of src, in the same memory if they fit.
// After an error d must not be used until another Load succeeds.
func (d *Data) Load(src Source) error {
	n, shape, each := src.Len(), src.Shape(), 1
	for _, k := range shape {
		each *= max(k, 0)
	}
	switch {
	case n < 1:
		return fmt.Errorf("train: the data set has %d examples, expected at least 1", n)
	case len(shape) == 0 || each == 0:
		return fmt.Errorf("train: examples have shape %v, expected positive lengths", shape)
	case src.Classes() < 2:
		return fmt.Errorf("train: the data set has %d classes, expected at least 2", src.Classes())
	}
	if d.store == nil || d.store.Len() < n*each {
		d.store.Free(d.dev)
		store, err := tensor.Alloc(d.dev, n*each)
		if err != nil {
			d.store = nil
			return fmt.Errorf("train: %d examples of shape %v: %w", n, shape, err)
		}
		d.store = store
	}
	d.X = d.store.Segment(0, append([]int{n}, shape...)...)
	d.Y = slices.Grow(d.Y[:0], n)[:n]
	d.Classes = src.Classes()

	rows := min(max(1, uploadBlock/each), n)
	block := make([]float32, rows*each)
	for from := 0; from < n; from += rows {
		part := block[:min(rows, n-from)*each]
		for i := 0; i < len(part)/each; i++ {
			x := part[i*each : (i+1)*each]
			label := src.Example(from+i, x)
			if label < 0 || label >= d.Classes {
				return fmt.Errorf("train: example %d has label %d, expected 0 to %d", from+i, label, d.Classes-1)
			}
			d.Y[from+i] = int32(label)
			for j, v := range x {
				if v-v != 0 { // NaN or infinite
					return fmt.Errorf("train: number %d of example %d is %v, expected a finite number", j, from+i, v)
				}
			}
		}
		d.dev.UploadF32(d.X.Mem().Slice(from*each, len(part)), part)
	}
	return nil
}

// Len is the number of examples.
func (d *Data) Len() int { return len(d.Y) }

// Shape is that of one example.
func (d *Data) Shape() []int { return d.X.Shape()[1:] }

// Free gives the memory back.
func (d *Data) Free() {
	d.store.Free(d.dev)
	d.store, d.X, d.Y = nil, nil, nil
}
