package ref

import "math"

// Fill: dst[i] = value.
func Fill(dst []float64, value float64) {
	for i := range dst {
		dst[i] = value
	}
}

// Copy: dst[i] = x[i].
func Copy(dst, x []float64) {
	for i := range dst {
		dst[i] = x[i]
	}
}

// Add: dst[i] = alpha x[i] + beta y[i]; without the second term if y is nil.
// dst may be x or y.
func Add(dst, x, y []float64, alpha, beta float64) {
	for i := range dst {
		s := alpha * x[i]
		if y != nil {
			s += beta * y[i]
		}
		dst[i] = s
	}
}

// Mul: dst[i] (+)= x[i] y[i].
func Mul(dst, x, y []float64, acc bool) {
	for i := range dst {
		put(&dst[i], x[i]*y[i], acc)
	}
}

// Keep: dst[i] = mask[i] <= 0 ? 0 : x[i]. dst may be x; ReLU is Keep(z, z).
func Keep(dst, x, mask []float64) {
	for i := range dst {
		if mask[i] <= 0 {
			dst[i] = 0
		} else {
			dst[i] = x[i]
		}
	}
}

// Tanh: dst[i] = tanh(x[i]).
func Tanh(dst, x []float64) {
	for i := range dst {
		dst[i] = math.Tanh(x[i])
	}
}

// put stores or adds.
func put(dst *float64, x float64, acc bool) {
	if acc {
		*dst += x
	} else {
		*dst = x
	}
}
