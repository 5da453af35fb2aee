package models

import (
	"fmt"
	"sync/atomic"

	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor"
)

// Model is a net bound to a device. All its parameters are views of Theta, one
// after another in the order of Params, without gaps.
type Model struct {
	Net    Layer
	Params []*Param // each once, in the order of first use
	Theta  *Tensor  // [Len]

	dev        kernels.Device
	generation atomic.Uint64
}

// New binds a net to a device, once. Its parameters are undefined until Init
// or a load. The owner of the model calls Free.
func New(dev kernels.Device, net Layer) (*Model, error) {
	m := &Model{Net: net, dev: dev}
	named, n := map[string]*Param{}, 0
	for _, q := range net.Params() {
		switch other := named[q.Name]; {
		case other == q: // tied
			continue
		case other != nil:
			return nil, fmt.Errorf("models: two parameters are called %q", q.Name)
		case q.x != nil:
			return nil, fmt.Errorf("models: parameter %q belongs to another model", q.Name)
		}
		named[q.Name] = q
		q.off = n
		n += q.Len()
		m.Params = append(m.Params, q)
	}
	if n == 0 {
		return nil, fmt.Errorf("models: the net has no parameters")
	}
	theta, err := tensor.Alloc(dev, n)
	if err != nil {
		return nil, fmt.Errorf("models: %d parameters: %w", n, err)
	}
	m.Theta = theta
	for _, q := range m.Params {
		q.x = theta.Segment(q.off, q.Shape...)
	}
	return m, nil
}

// Device is where the model lives.
func (m *Model) Device() kernels.Device { return m.dev }

// Len is the number of parameters, all elements counted.
func (m *Model) Len() int { return m.Theta.Len() }

// Split is a flat vector of Len elements by parameter: a direction, say.
func (m *Model) Split(flat *Tensor) map[*Param]*Tensor {
	if flat.Len() != m.Len() {
		panic(fmt.Sprintf("models: Split: %v for %d parameters", flat.Shape(), m.Len()))
	}
	parts := make(map[*Param]*Tensor, len(m.Params))
	for _, q := range m.Params {
		parts[q] = flat.Segment(q.off, q.Shape...)
	}
	return parts
}

// Init sets all parameters to their start. It depends on the seed, the scheme
// and the shapes alone, not on the device.
func (m *Model) Init(seed uint64, s Scheme) error {
	if err := s.Check(); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	values := make([]float64, m.Len())
	for i, q := range m.Params {
		q.Init.draw(s, seed, uint64(i), values[q.off:q.off+q.Len()])
	}
	m.dev.UploadF64(m.Theta.Mem(), values)
	m.Moved()
	return nil
}

// Moved is for whoever changes Theta to call afterwards: recorded passes are
// then no longer valid, and refuse to be replayed.
func (m *Model) Moved() { m.generation.Add(1) }

// Generation counts the changes of Theta.
func (m *Model) Generation() uint64 { return m.generation.Load() }

// Free gives the parameters' memory back. The model, and the net, cannot be
// used afterwards.
func (m *Model) Free() { m.Theta.Free(m.dev) }
