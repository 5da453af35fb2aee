package ibis

import (
	"github.com/aviary-audit/aviary/internal/rng"
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/models/train"
	"github.com/aviary-audit/aviary/tensor"
)

// gathered is a piece of memory for a batch of examples, used again and again.
type gathered struct {
	dev           kernels.Device
	x             *tensor.Tensor // [size, shape...]
	index, labels *tensor.Tensor // [size]
	hostIndex     []int32
	hostLabels    []int32
}

func newGathered(dev kernels.Device, size int, shape []int) (*gathered, error) {
	g := &gathered{dev: dev, hostIndex: make([]int32, size), hostLabels: make([]int32, size)}
	var err error
	if g.x, err = tensor.Alloc(dev, append([]int{size}, shape...)...); err != nil {
		return g, err
	}
	if g.index, err = tensor.AllocInts(dev, size); err != nil {
		return g, err
	}
	g.labels, err = tensor.AllocInts(dev, size)
	return g, err
}

// take queues the copying of examples of d to the rows from `at` on.
func (g *gathered) take(d *train.Data, examples []int, at int) {
	if len(examples) == 0 {
		return
	}
	to := at + len(examples)
	for i, e := range examples {
		g.hostIndex[at+i], g.hostLabels[at+i] = int32(e), d.Y[e]
	}
	index, x := g.index.Slice(at, to).Mem(), g.x.Slice(at, to)
	g.dev.UploadInts(index, g.hostIndex[at:to])
	g.dev.UploadInts(g.labels.Slice(at, to).Mem(), g.hostLabels[at:to])
	g.dev.Gather(x.Mem(), d.X.Mem(), index, len(examples), x.Len()/len(examples))
}

func (g *gathered) free() {
	if g == nil {
		return
	}
	for _, t := range []*tensor.Tensor{g.x, g.index, g.labels} {
		t.Free(g.dev)
	}
}

// shuffle tells which examples of D ∪ C a step sees: the rest first, then the
// canaries, each in the order of the epoch's shuffle.
type shuffle struct {
	seed           uint64
	rest, n, batch int
	epoch          int
	order          []int
	split          [2][]int
}

func newShuffle(seed uint64, rest, n, batch int) *shuffle {
	return &shuffle{seed: seed, rest: rest, n: n, batch: batch, epoch: -1}
}

// at is the batch of a step, as rows of the two sets. It is valid until the next
// call.
func (s *shuffle) at(step int) (rest, canaries []int) {
	perEpoch := (s.n + s.batch - 1) / s.batch
	if e := step / perEpoch; e != s.epoch {
		s.epoch = e
		s.order = rng.New(s.seed, rng.Shuffle, uint64(e)).Perm(s.n)
	}
	from := step % perEpoch * s.batch
	rest, canaries = s.split[0][:0], s.split[1][:0]
	for _, i := range s.order[from:min(from+s.batch, s.n)] {
		if i < s.rest {
			rest = append(rest, i)
		} else {
			canaries = append(canaries, i-s.rest)
		}
	}
	s.split = [2][]int{rest, canaries}
	return rest, canaries
}

// Which draw of a step a random transform belongs to.
const (
	movesOfBatch = iota
	movesOfCanaries
)

// mover moves and mirrors images at random, as the audited training does, and
// takes gradients back through it.
type mover struct {
	dev     kernels.Device
	augment train.Augment
	seed    uint64
	moves   *tensor.Tensor // [size, 3]
	host    []int32
	moved   *tensor.Tensor // [size, shape...]
}

// newMover is nil where nothing moves.
func newMover(dev kernels.Device, augment train.Augment, seed uint64, size int, shape []int) (*mover, error) {
	if augment.None() {
		return nil, nil
	}
	a := &mover{dev: dev, augment: augment, seed: seed, host: make([]int32, 3*size)}
	var err error
	if a.moves, err = tensor.AllocInts(dev, size, 3); err != nil {
		return a, err
	}
	a.moved, err = tensor.Alloc(dev, append([]int{size}, shape...)...)
	return a, err
}

// draw takes the transforms of b images from the stream of a step's draw.
func (a *mover) draw(step, which, b int) {
	if a == nil {
		return
	}
	r := rng.New(a.seed, rng.Augment, uint64(step), uint64(which))
	for i := range b {
		a.augment.Draw(r, a.host[3*i:3*i+3])
	}
	a.dev.UploadInts(a.moves.Slice(0, b).Mem(), a.host[:3*b])
}

// apply is x [b, H, W, C] moved, valid until the next call; x itself where
// nothing moves.
func (a *mover) apply(x *tensor.Tensor) *tensor.Tensor {
	if a == nil {
		return x
	}
	b := x.Dim(0)
	y := a.moved.Slice(0, b)
	a.dev.CropFlip(y.Mem(), x.Mem(), a.moves.Slice(0, b).Mem(), imageOf(x))
	return y
}

// back is the gradient by x, given that by apply's result. It overwrites what
// apply returned.
func (a *mover) back(dy *tensor.Tensor) *tensor.Tensor {
	if a == nil {
		return dy
	}
	b := dy.Dim(0)
	dx := a.moved.Slice(0, b)
	a.dev.CropFlipAdjoint(dx.Mem(), dy.Mem(), a.moves.Slice(0, b).Mem(), imageOf(dy))
	return dx
}

func imageOf(x *tensor.Tensor) kernels.Image {
	s := x.Shape()
	return kernels.Image{B: s[0], H: s[1], W: s[2], C: s[3]}
}

func (a *mover) free() {
	if a == nil {
		return
	}
	a.moves.Free(a.dev)
	a.moved.Free(a.dev)
}
