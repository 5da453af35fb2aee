package ref

// Sum: dst[j] (+)= Σ_{i: j(i)=j} x[i].
func Sum(dst, x []float64, p Per, acc bool) {
	if !acc {
		clear(dst[:p.Small()])
	}
	p.each(func(i, j int) { dst[j] += x[i] })
}

// SumMul: dst[j] (+)= Σ_{i: j(i)=j} x[i] y[i].
func SumMul(dst, x, y []float64, p Per, acc bool) {
	if !acc {
		clear(dst[:p.Small()])
	}
	p.each(func(i, j int) { dst[j] += x[i] * y[i] })
}

// Dot: dst[0] (+)= Σ_i x[i] y[i].
func Dot(dst, x, y []float64, acc bool) {
	var s float64
	if acc {
		s = dst[0]
	}
	for i := range x {
		s += x[i] * y[i]
	}
	dst[0] = s
}
