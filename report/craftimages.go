package report

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"html/template"
	"image"
	"image/color"
	"image/png"
	"math"
	"slices"
)

// pixel is the colour of place (y, x) of an image [H, W, 1 or 3] whose numbers
// are from 0 to 1; what is beyond is shown as the nearer of both.
func pixel(shape []int, x []float32, row, col int) color.NRGBA {
	channels := shape[2]
	at := (row*shape[1] + col) * channels
	level := func(c int) uint8 { return uint8(math.Round(255 * math.Max(0, math.Min(1, float64(x[at+c]))))) }
	if channels == 1 {
		return color.NRGBA{level(0), level(0), level(0), 255}
	}
	return color.NRGBA{level(0), level(1), level(2), 255}
}

// imageURL is an image for a page.
func imageURL(shape []int, x []float32) (template.URL, error) {
	im := image.NewNRGBA(image.Rect(0, 0, shape[1], shape[0]))
	for row := range shape[0] {
		for col := range shape[1] {
			im.SetNRGBA(col, row, pixel(shape, x, row, col))
		}
	}
	return pngURL(im)
}

func pngURL(im image.Image) (template.URL, error) {
	text, err := encodePNG(im)
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(text)), err
}

func encodePNG(im image.Image) ([]byte, error) {
	var b bytes.Buffer
	if err := png.Encode(&b, im); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// contactSheet shows the first canaries of a set: in each pair the training
// example above the canary, ten pairs in a row, every pixel three dots wide.
func contactSheet(shape []int, s CraftSet) ([]byte, error) {
	const columns, zoom, gap = 10, 3, 6
	h, w := shape[0]*zoom, shape[1]*zoom
	n := min(galleryMax, len(s.Index))
	rows := (n + columns - 1) / columns
	across := min(columns, n)
	im := image.NewNRGBA(image.Rect(0, 0, gap+across*(w+gap), gap+rows*(2*h+2*gap)))
	for i := range im.Pix {
		im.Pix[i] = 255
	}
	size := len(s.After) / len(s.Index)
	for i := range n {
		left, top := gap+i%columns*(w+gap), gap+i/columns*(2*h+2*gap)
		for half, x := range [][]float32{s.Before[i*size : (i+1)*size], s.After[i*size : (i+1)*size]} {
			for y := range h {
				for col := range w {
					im.SetNRGBA(left+col, top+half*(h+1)+y, pixel(shape, x, y/zoom, col/zoom))
				}
			}
		}
	}
	return encodePNG(im)
}

// byLabel is the canaries in the order of their labels, otherwise as they are.
func byLabel(labels []int32) []int {
	order := make([]int, len(labels))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(labels[i], labels[j]) })
	return order
}

// heatMap is a matrix as an image: blue below zero, white at it, red above.
type heatMap struct {
	Image    template.URL
	Scale    string  // the number at which colours are full
	OffMean  string  // mean of the absolute values off the diagonal
	OffRatio float64 // and as a share of the diagonal's mean
}

// heatMax is as many rows as a map shows; above, they are means of blocks.
const heatMax = 250

// heatScale is a number that most off-diagonal elements of the matrices stay
// below: the 99th percentile of their absolute values.
func heatScale(matrices ...[]float64) float64 {
	var all []float64
	for _, v := range matrices {
		m := int(math.Round(math.Sqrt(float64(len(v)))))
		for i, x := range v {
			if i/m != i%m {
				all = append(all, math.Abs(x))
			}
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	if scale := all[len(all)*99/100]; scale > 0 {
		return scale
	}
	return 1
}

// newHeatMap draws matrix v with rows and columns in the given order; nil for
// none.
func newHeatMap(v []float64, order []int, scale float64) (*heatMap, error) {
	m := len(order)
	if v == nil {
		return nil, nil
	}
	n := min(m, heatMax)
	im := image.NewNRGBA(image.Rect(0, 0, n, n))
	for row := range n {
		for col := range n {
			sum, count := 0.0, 0
			for i := row * m / n; i < (row+1)*m/n; i++ {
				for j := col * m / n; j < (col+1)*m/n; j++ {
					sum += v[order[i]*m+order[j]]
					count++
				}
			}
			im.SetNRGBA(col, row, heatColour(sum/float64(count)/scale))
		}
	}
	url, err := pngURL(im)
	if err != nil {
		return nil, err
	}
	off, diagonal := 0.0, 0.0
	for i, x := range v {
		if i/m == i%m {
			diagonal += math.Abs(x) / float64(m)
		} else {
			off += math.Abs(x) / float64(m*(m-1))
		}
	}
	h := &heatMap{Image: url, Scale: significant(scale), OffMean: significant(off)}
	if diagonal > 0 {
		h.OffRatio = off / diagonal
	}
	return h, nil
}

// heatColour goes from blue at -1 over white at 0 to red at 1.
func heatColour(x float64) color.NRGBA {
	x = math.Max(-1, math.Min(1, x))
	fade := func(full uint8) uint8 { return uint8(math.Round(255 + math.Abs(x)*(float64(full)-255))) }
	if x < 0 {
		return color.NRGBA{fade(0x00), fade(0x72), fade(0xb2), 255}
	}
	return color.NRGBA{fade(0xb3), fade(0x2d), fade(0x00), 255}
}
