package ref

import (
	"fmt"
	"math"
)

// Softmax: prob[r,c] = exp(z[r,c] - m) / Σ_c' exp(z[r,c'] - m), where m is the
// largest logit of the row.
func Softmax(prob, z []float64, rows, cols int) {
	for r := range rows {
		z, prob := row(z, r, cols), row(prob, r, cols)
		m := largest(z)
		var sum float64
		for c := range z {
			prob[c] = math.Exp(z[c] - m)
			sum += prob[c]
		}
		for c := range prob {
			prob[c] /= sum
		}
	}
}

// SoftmaxTangent: dst[r,c] = p[r,c] (dz[r,c] - Σ_c' p[r,c'] dz[r,c']), the
// derivative of Softmax along dz.
func SoftmaxTangent(dst, p, dz []float64, rows, cols int) {
	for r := range rows {
		dst, p, dz := row(dst, r, cols), row(p, r, cols), row(dz, r, cols)
		var mean float64
		for c := range p {
			mean += p[c] * dz[c]
		}
		for c := range p {
			dst[c] = p[c] * (dz[c] - mean)
		}
	}
}

// CrossEntropy: loss[r] = m + log Σ_c exp(z[r,c] - m) - z[r,y[r]], where m is
// the largest logit of the row and labels holds y. A label outside [0, cols) is
// an error.
func CrossEntropy(loss, z []float64, labels []int32, rows, cols int) error {
	if err := checkLabels(labels, rows, cols); err != nil {
		return err
	}
	for r := range rows {
		z := row(z, r, cols)
		m := largest(z)
		var sum float64
		for _, x := range z {
			sum += math.Exp(x - m)
		}
		loss[r] = math.Log(sum) + (m - z[labels[r]])
	}
	return nil
}

// CrossEntropyTangent: dst[r] = Σ_c (p[r,c] - [c = y[r]]) dz[r,c], the
// derivative of CrossEntropy along dz; p are the probabilities.
func CrossEntropyTangent(dst, p, dz []float64, labels []int32, rows, cols int) error {
	if err := checkLabels(labels, rows, cols); err != nil {
		return err
	}
	for r := range rows {
		p, dz := row(p, r, cols), row(dz, r, cols)
		var s float64
		for c := range p {
			s += (p[c] - oneIf(c == int(labels[r]))) * dz[c]
		}
		dst[r] = s
	}
	return nil
}

// SubOneHot: dst[r,c] = p[r,c] - [c = y[r]], the gradient of CrossEntropy with
// respect to the logits. dst may be p.
func SubOneHot(dst, p []float64, labels []int32, rows, cols int) error {
	if err := checkLabels(labels, rows, cols); err != nil {
		return err
	}
	for r := range rows {
		dst, p := row(dst, r, cols), row(p, r, cols)
		for c := range p {
			dst[c] = p[c] - oneIf(c == int(labels[r]))
		}
	}
	return nil
}

// Loss64 is the cross-entropy without cancellation, so that confident examples
// do not tie at 0:
//
//	u = log Σ_{c≠y} exp(z[c] - z[y])     (-Inf for a single class)
//	loss = u < -30 ? exp(u) : log(1 + exp(u))
//
// The sum is taken relative to its largest term, and the second form as
// max(u, 0) + log1p(exp(-|u|)).
func Loss64(loss, z []float64, labels []int32, rows, cols int) error {
	if err := checkLabels(labels, rows, cols); err != nil {
		return err
	}
	for r := range rows {
		loss[r] = loss64(row(z, r, cols), int(labels[r]))
	}
	return nil
}

func loss64(z []float64, y int) float64 {
	m := math.Inf(-1)
	for c := range z {
		if c != y {
			m = math.Max(m, z[c]-z[y]) // NaN if either is
		}
	}
	if math.IsInf(m, -1) {
		return 0 // no other class, or none that is possible
	}
	var sum float64
	for c := range z {
		if c != y {
			sum += math.Exp(z[c] - z[y] - m)
		}
	}
	u := m + math.Log(sum)
	if u < -30 {
		return math.Exp(u)
	}
	return math.Max(u, 0) + math.Log1p(math.Exp(-math.Abs(u)))
}

// Argmax: dst[r] = the lowest c with the largest z[r,c]. Rows have at least one
// element.
func Argmax(dst []int32, z []float64, rows, cols int) {
	for r := range rows {
		z := row(z, r, cols)
		best := 0
		for c := range z {
			if z[c] > z[best] {
				best = c
			}
		}
		dst[r] = int32(best)
	}
}

// row is row r of a matrix with cols columns.
func row(x []float64, r, cols int) []float64 { return x[r*cols : (r+1)*cols] }

// largest is the maximum of z, NaN if z holds one, and -Inf if z is empty.
func largest(z []float64) float64 {
	m := math.Inf(-1)
	for _, x := range z {
		m = math.Max(m, x)
	}
	return m
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func checkLabels(labels []int32, rows, cols int) error {
	for r := range rows {
		if y := int(labels[r]); y < 0 || y >= cols {
			return fmt.Errorf("label %d of row %d is not in [0, %d)", y, r, cols)
		}
	}
	return nil
}
