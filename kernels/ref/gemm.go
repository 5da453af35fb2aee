package ref

// Product describes a matrix product; its fields are those of kernels.Gemm.
type Product struct {
	M, N, K        int
	TransA, TransB bool
	Acc, ReLU      bool
}

// Gemm is a matrix product with an optional bias (nil for none) and ReLU:
//
//	for i < M, j < N:
//		s = acc ? dst[i,j] : 0
//		for k < K: s += A[i,k] B[k,j]
//		s += bias[j]
//		dst[i,j] = relu && s <= 0 ? 0 : s
//
// where A is a[i,k], or a[k,i] with TransA, and B is b[k,j], or b[j,k] with
// TransB. The loops below run in another order, but every element is that one
// chain of sums.
func Gemm(dst, a, b, bias []float64, p Product) {
	column := make([]float64, p.K) // row i of A where a holds it as a column
	for i := range p.M {
		out := dst[i*p.N : (i+1)*p.N]
		if !p.Acc {
			clear(out)
		}
		row := column
		if p.TransA {
			for k := range column {
				column[k] = a[k*p.M+i]
			}
		} else {
			row = a[i*p.K : (i+1)*p.K]
		}
		if p.TransB {
			addRowTimesTransposed(out, row, b)
		} else {
			addRowTimes(out, row, b)
		}
		if bias != nil {
			for j := range out {
				out[j] += bias[j]
			}
		}
		if p.ReLU {
			for j, s := range out {
				if s <= 0 {
					out[j] = 0
				}
			}
		}
	}
}

// addRowTimes: out[j] += Σ_k row[k] b[k,j].
func addRowTimes(out, row, b []float64) {
	n := len(out)
	for k, x := range row {
		for j, y := range b[k*n : (k+1)*n] {
			out[j] += x * y
		}
	}
}

// addRowTimesTransposed: out[j] += Σ_k row[k] b[j,k]. Four chains at a time,
// since one alone would wait for each addition.
func addRowTimesTransposed(out, row, b []float64) {
	n, k := len(out), len(row)
	j := 0
	for ; j+4 <= n; j += 4 {
		b0, b1 := b[j*k:(j+1)*k], b[(j+1)*k:(j+2)*k]
		b2, b3 := b[(j+2)*k:(j+3)*k], b[(j+3)*k:(j+4)*k]
		s0, s1, s2, s3 := out[j], out[j+1], out[j+2], out[j+3]
		for i, x := range row {
			s0 += x * b0[i]
			s1 += x * b1[i]
			s2 += x * b2[i]
			s3 += x * b3[i]
		}
		out[j], out[j+1], out[j+2], out[j+3] = s0, s1, s2, s3
	}
	for ; j < n; j++ {
		s := out[j]
		for i, y := range b[j*k : (j+1)*k] {
			s += row[i] * y
		}
		out[j] = s
	}
}
