package ref

import "fmt"

// Gather: dst[r,c] = src[index[r],c] for r < rows and c < cols. An index
// outside the rows of src is an error.
func Gather(dst, src []float64, index []int32, rows, cols int) error {
	for r := range rows {
		from := int(index[r])
		if from < 0 || (from+1)*cols > len(src) {
			return fmt.Errorf("index %d of row %d is outside an array of %d elements in rows of %d", from, r, len(src), cols)
		}
		copy(row(dst, r, cols), row(src, from, cols))
	}
	return nil
}

// Image is the shape [B,H,W,C] of a batch of images; its fields are those of
// kernels.Image.
type Image struct{ B, H, W, C int }

// CropFlip moves image b by move[b] = (dy, dx, flip):
//
//	dst[b,h,w,c] = src[b, h+dy, w'+dx, c] with w' = flip ? W-1-w : w
//
// and 0 where that lies outside the image.
func CropFlip(dst, src []float64, move []int32, im Image) {
	eachPixel(im, move, func(here, there int) {
		for c := range im.C {
			if there < 0 {
				dst[here+c] = 0
			} else {
				dst[here+c] = src[there+c]
			}
		}
	})
}

// CropFlipAdjoint is the transpose of CropFlip:
//
//	dst[b, h+dy, w'+dx, c] = src[b,h,w,c]
//
// where that lies inside the image, and 0 where nothing lands.
func CropFlipAdjoint(dst, src []float64, move []int32, im Image) {
	clear(dst[:im.B*im.H*im.W*im.C])
	eachPixel(im, move, func(here, there int) {
		if there >= 0 {
			copy(dst[there:there+im.C], src[here:here+im.C])
		}
	})
}

// eachPixel calls f with the index of every pixel (b,h,w) and of the pixel
// (b, h+dy, w'+dx), which is -1 outside the image.
func eachPixel(im Image, move []int32, f func(here, there int)) {
	for b := range im.B {
		dy, dx, flip := int(move[3*b]), int(move[3*b+1]), move[3*b+2] != 0
		for h := range im.H {
			for w := range im.W {
				y, x := h+dy, w+dx
				if flip {
					x = im.W - 1 - w + dx
				}
				there := -1
				if 0 <= y && y < im.H && 0 <= x && x < im.W {
					there = ((b*im.H+y)*im.W + x) * im.C
				}
				f(((b*im.H+h)*im.W+w)*im.C, there)
			}
		}
	}
}
