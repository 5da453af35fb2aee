package kerneltest

import (
	"github.com/aviary-audit/aviary/kernels"
	"github.com/aviary-audit/aviary/kernels/ref"
)

func gatherCase(f *fixture) {
	for _, rows := range []int{0, 1, 2, 5, 33, 129} {
		for _, cols := range []int{1, 3, 10, 15, 16, 17, 31, 32, 33, 785} {
			for _, height := range []int{1, 7, 90} { // of the source
				f.gather(rows, cols, height)
			}
		}
	}
	f.gather(3, 0, 0)
	f.gather(0, 5, 0)
	f.gather(17001, 3, 50)
}

func (f *fixture) gather(rows, cols, height int) {
	c := f.call("%d rows of %d from %d", rows, cols, height)
	at := make([]int32, rows)
	if height > 0 {
		at = f.below(rows, height)
		for i := range at { // both ends for sure
			if i < 2 {
				at[i] = int32(i * (height - 1))
			}
		}
	}
	src, index, dst := c.in("src", f.normals(height*cols)), c.ints("index", at), c.dst(rows*cols, false, nil)
	if err := ref.Gather(dst.want, src.before, at, rows, cols); err != nil {
		f.fail("%s: %v", c.label, err)
	}
	c.run(func(dev kernels.Device) { dev.Gather(dst.Mem, src.Mem, index.Mem, rows, cols) })
}

// images are shapes whose sides all differ, single rows, columns and channels,
// real ones, and none.
var images = []kernels.Image{{B: 2, H: 3, W: 5, C: 2}, {B: 4, H: 1, W: 7, C: 3}, {B: 3, H: 6, W: 1, C: 1}, {B: 3, H: 4, W: 4, C: 17},
	{B: 5, H: 28, W: 28, C: 1}, {B: 3, H: 32, W: 32, C: 3}, {B: 40, H: 9, W: 8, C: 16},
	{}, {B: 2, H: 0, W: 3, C: 1}, {B: 0, H: 3, W: 3, C: 1}}

func cropFlipCase(f *fixture) {
	f.moves(func(c *call, dst, src, move *array, steps []int32, im kernels.Image) {
		ref.CropFlip(dst.want, src.before, steps, ref.Image(im))
		c.run(func(dev kernels.Device) { dev.CropFlip(dst.Mem, src.Mem, move.Mem, im) })
	})
}

func cropFlipAdjointCase(f *fixture) {
	f.moves(func(c *call, dst, src, move *array, steps []int32, im kernels.Image) {
		ref.CropFlipAdjoint(dst.want, src.before, steps, ref.Image(im))
		c.run(func(dev kernels.Device) { dev.CropFlipAdjoint(dst.Mem, src.Mem, move.Mem, im) })
	})
}

// moves calls do with images and moves: none, shifts of up to a few pixels,
// shifts by about a side and more, each with and without flip.
func (f *fixture) moves(do func(c *call, dst, src, move *array, steps []int32, im kernels.Image)) {
	for _, im := range images {
		for _, reach := range []int{0, 1, 4, max(im.H, im.W) + 1, 1 << 30} {
			for repeat := range 4 {
				steps := make([]int32, 3*im.B)
				for b := range im.B {
					steps[3*b] = int32(f.rng.IntN(2*reach+1) - reach)
					steps[3*b+1] = int32(f.rng.IntN(2*reach+1) - reach)
					steps[3*b+2] = int32(b+repeat) % 2
				}
				c := f.call("%+v moves %v", im, steps)
				move, src := c.ints("move", steps), c.in("src", f.normals(im.Len()))
				do(c, c.dst(im.Len(), false, nil), src, move, steps, im)
			}
		}
	}
}
