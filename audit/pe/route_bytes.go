package pe

import "math"

// byteRows are vectors x, moved and turned, and rounded to α·i with i bytes.
type byteRows struct {
	words []int32   // [rows, words]: four bytes each, the last of a row padded with zeros
	scale []float32 // [rows], α: a vector's largest number is 127 of them
	size  []float64 // [rows], |x|
	off   []float64 // [rows], |x - α·i|
}

func newByteRows(rows, dim int) *byteRows {
	return &byteRows{make([]int32, rows*byteWords(dim)), make([]float32, rows), make([]float64, rows), make([]float64, rows)}
}

func byteWords(dim int) int { return (dim + 3) / 4 }

// set rounds x, turned by r, to row i, and says whether it is finite. scratch has
// room for one vector.
func (b *byteRows) set(i int, x []float32, r rotation, scratch []float64) bool {
	y := scratch[:len(x)]
	r.apply(y, x)
	longest, squares := 0.0, 0.0
	for _, d := range y {
		longest = max(longest, math.Abs(d))
		squares += d * d
	}
	alpha := float32(longest / 127)
	if alpha < 0x1p-126 { // which a device may flush to 0
		alpha = 0
	}
	step, inverse := float64(alpha), 0.0
	if alpha > 0 {
		inverse = 1 / step
	}
	n := byteWords(len(x))
	words := b.words[i*n : (i+1)*n]
	rest := 0.0
	for w := range words {
		var word int32
		for j := 4 * w; j < min(4*w+4, len(y)); j++ {
			d := y[j]
			// Rounding α may have made the largest 128 of them. The comparison with
			// the number as it was rounded bounds the error whatever i is.
			k := math.RoundToEven(d * inverse)
			if !(math.Abs(k) <= 127) {
				k = math.Copysign(127, k)
			}
			e := d - step*k
			rest += e * e
			word |= int32(uint8(int8(k))) << (8 * (j & 3))
		}
		words[w] = word
	}
	b.scale[i], b.size[i], b.off[i] = alpha, math.Sqrt(squares), math.Sqrt(rest)
	return !math.IsNaN(squares) && !math.IsInf(squares, 0)
}
