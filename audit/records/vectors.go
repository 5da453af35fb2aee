// Package records reads what audits of text are made of, text records and their
// embeddings, from files that people have.
package records

import "fmt"

// Vectors are rows of numbers, embeddings for instance, which need not be in
// memory.
type Vectors interface {
	Len() int // rows
	Dim() int // numbers in a row
	// Read copies len(dst)/Dim() rows, from row from on, into dst. It may be called
	// from several goroutines.
	Read(from int, dst []float32) error
}

// Matrix is Vectors in memory, row by row.
type Matrix struct {
	D int
	X []float32 // [Len, D]
}

// NewMatrix makes a Matrix of dim columns out of x.
func NewMatrix(dim int, x []float32) (*Matrix, error) {
	if dim < 1 || len(x)%dim != 0 {
		return nil, fmt.Errorf("records: %d numbers in rows of %d", len(x), dim)
	}
	return &Matrix{dim, x}, nil
}

// Len implements Vectors.
func (m *Matrix) Len() int { return len(m.X) / m.D }

// Dim implements Vectors.
func (m *Matrix) Dim() int { return m.D }

// Row is row i.
func (m *Matrix) Row(i int) []float32 { return m.X[i*m.D : (i+1)*m.D : (i+1)*m.D] }

// Read implements Vectors.
func (m *Matrix) Read(from int, dst []float32) error {
	if from < 0 || from*m.D+len(dst) > len(m.X) {
		return fmt.Errorf("records: rows %d to %d, expected some of the %d there are", from, from+len(dst)/m.D-1, m.Len())
	}
	copy(dst, m.X[from*m.D:])
	return nil
}

// ReadAll copies v into memory, or returns it if it is there.
func ReadAll(v Vectors) (*Matrix, error) {
	if m, ok := v.(*Matrix); ok {
		return m, nil
	}
	m := &Matrix{v.Dim(), make([]float32, v.Len()*v.Dim())}
	return m, v.Read(0, m.X)
}

// Rows is the rows of v with these indices, in their order.
func Rows(v Vectors, index []int) Vectors { return rows{v, index} }

type rows struct {
	Vectors
	index []int
}

// Len implements Vectors.
func (r rows) Len() int { return len(r.index) }

// Read implements Vectors. Neighbouring indices are read at once.
func (r rows) Read(from int, dst []float32) error {
	d := r.Dim()
	n := len(dst) / d
	if from < 0 || from+n > len(r.index) {
		return fmt.Errorf("records: rows %d to %d, expected some of the %d there are", from, from+n-1, len(r.index))
	}
	for i := 0; i < n; {
		j := i + 1
		for j < n && r.index[from+j] == r.index[from+j-1]+1 {
			j++
		}
		if err := r.Vectors.Read(r.index[from+i], dst[i*d:j*d]); err != nil {
			return err
		}
		i = j
	}
	return nil
}
