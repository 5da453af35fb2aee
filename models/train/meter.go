package train

import (
	"fmt"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models"
	"github.com/aviary-audit/aviary/tensor"
)

// meter averages losses. They are kept on the device and read when they fill
// their buffer, or are asked for; the sum runs in float64 and in the order of
// the examples, so it depends on neither.
type meter struct {
	dev    kernels.Device
	buffer *tensor.Tensor
	used   int
	host   []float64
	sum    float64
	count  int
}

// newMeter has room for the losses of one epoch of n examples.
func newMeter(dev kernels.Device, n int) (*meter, error) {
	buffer, err := tensor.Alloc(dev, n)
	if err != nil {
		return nil, fmt.Errorf("train: losses of an epoch: %w", err)
	}
	return &meter{dev: dev, buffer: buffer}, nil
}

// add takes the losses [b] of a pass, b <= n.
func (m *meter) add(losses models.Value) error {
	x, _ := tensor.Parts(losses)
	if m.used+x.Len() > m.buffer.Len() {
		if err := m.flush(); err != nil {
			return err
		}
	}
	if !x.Mem().None() { // the pass was left out for want of memory; its Err says so
		m.dev.Copy(m.buffer.Mem().Slice(m.used, x.Len()), x.Mem())
	}
	m.used += x.Len()
	return nil
}

func (m *meter) flush() error {
	if m.used == 0 {
		return nil
	}
	if m.host == nil {
		m.host = make([]float64, m.buffer.Len())
	}
	part := m.host[:m.used]
	if err := m.dev.DownloadF64(part, m.buffer.Mem().Slice(0, m.used)); err != nil {
		return fmt.Errorf("train: losses: %w", err)
	}
	for _, v := range part {
		m.sum += v
	}
	m.count += m.used
	m.used = 0
	return nil
}

// take is the mean since the last take, 0 if nothing was added.
func (m *meter) take() (float64, error) {
	if err := m.flush(); err != nil {
		return 0, err
	}
	mean := 0.0
	if m.count > 0 {
		mean = m.sum / float64(m.count)
	}
	m.sum, m.count = 0, 0
	return mean, nil
}

func (m *meter) free() {
	if m != nil {
		m.buffer.Free(m.dev)
	}
}
