package train

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/tensor"
)

// batches brings the examples of a step to where the model sees them, a
// microbatch at a time, in buffers that are used again and again.
type batches struct {
	dev     kernels.Device
	data    *Data
	seed    uint64
	augment Augment
	sampler *sampler
	size    int // of a microbatch

	x, moved            *tensor.Tensor // [size, shape...]
	index, labels, move *tensor.Tensor // [size], [size], [size, 3]
	hostIndex, hostY    []int32
	hostMove            []int32

	todo  []int // examples of the step that are still to come
	moves *rand.Rand
}

func newBatches(dev kernels.Device, d *Data, cfg Config) (*batches, error) {
	augment, err := ParseAugment(cfg.Augment)
	if err != nil {
		return nil, err
	}
	if !augment.None() && len(d.Shape()) != 3 {
		return nil, fmt.Errorf("train: augment is %q, but examples have shape %v, expected height, width and channels", cfg.Augment, d.Shape())
	}
	b := &batches{
		dev: dev, data: d, seed: cfg.Seed, augment: augment,
		sampler: newSampler(cfg, d.Len()), size: microbatch(cfg, d.Len()),
	}
	b.hostIndex, b.hostY, b.hostMove = make([]int32, b.size), make([]int32, b.size), make([]int32, 3*b.size)
	full := append([]int{b.size}, d.Shape()...)
	if b.x, err = tensor.Alloc(dev, full...); err != nil {
		return b, err
	}
	if b.index, err = tensor.AllocInts(dev, b.size); err != nil {
		return b, err
	}
	if b.labels, err = tensor.AllocInts(dev, b.size); err != nil || augment.None() {
		return b, err
	}
	if b.moved, err = tensor.Alloc(dev, full...); err != nil {
		return b, err
	}
	b.move, err = tensor.AllocInts(dev, b.size, 3)
	return b, err
}

// microbatch is how many examples are held at once. A batch of DP-SGD has no
// bound; one of more than six standard deviations above its mean comes in two
// microbatches, which changes no bit.
func microbatch(cfg Config, n int) int {
	size := cfg.Batch
	if cfg.Private() {
		size += int(6 * math.Sqrt(float64(cfg.Batch)))
	}
	if cfg.Microbatch > 0 {
		size = min(size, cfg.Microbatch)
	}
	return min(size, n)
}

// start begins a step and returns the number of its examples.
func (b *batches) start(step int) int {
	b.todo = b.sampler.batch(step)
	if !b.augment.None() {
		b.moves = rng.New(b.seed, rng.Augment, uint64(step))
	}
	return len(b.todo)
}

// more says whether there is another microbatch.
func (b *batches) more() bool { return len(b.todo) > 0 }

// next queues the bringing of the next microbatch.
func (b *batches) next() (x, labels *tensor.Tensor) {
	n := min(b.size, len(b.todo))
	for i, example := range b.todo[:n] {
		b.hostIndex[i], b.hostY[i] = int32(example), b.data.Y[example]
	}
	b.todo = b.todo[n:]
	index := b.index.Slice(0, n).Mem()
	x, labels = b.x.Slice(0, n), b.labels.Slice(0, n)
	b.dev.UploadInts(index, b.hostIndex[:n])
	b.dev.UploadInts(labels.Mem(), b.hostY[:n])
	b.dev.Gather(x.Mem(), b.data.X.Mem(), index, n, x.Len()/n)
	if b.augment.None() {
		return x, labels
	}
	for i := range n {
		b.augment.Draw(b.moves, b.hostMove[3*i:3*i+3])
	}
	move, moved := b.move.Slice(0, n).Mem(), b.moved.Slice(0, n)
	b.dev.UploadInts(move, b.hostMove[:3*n])
	shape := x.Shape()
	b.dev.CropFlip(moved.Mem(), x.Mem(), move, kernels.Image{B: n, H: shape[1], W: shape[2], C: shape[3]})
	return moved, labels
}

func (b *batches) free() {
	if b == nil {
		return
	}
	for _, t := range []*tensor.Tensor{b.x, b.moved, b.index, b.labels, b.move} {
		t.Free(b.dev)
	}
}

// noiseSeed is the key of the run's noise; the step is its counter.
func noiseSeed(seed uint64) uint64 { return rng.Seed(seed, rng.Noise) }

// memOf is t's memory, or none.
func memOf(t *tensor.Tensor) kernels.Mem {
	if t == nil {
		return kernels.Mem{}
	}
	return t.Mem()
}
