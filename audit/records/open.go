package records

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"github.com/aviary-audit/aviary/internal/npz"
)

// File is Vectors in a file.
type File interface {
	Vectors
	io.Closer
}

// OpenVectors opens the embeddings in an .npy file (float16, float32 or float64),
// of which rows are read when they are wanted, or in an .npz file, whose array
// "embeddings" or only matrix is read at once.
func OpenVectors(path string) (File, error) {
	switch filepath.Ext(path) {
	case ".npy":
		r, err := npz.OpenRows(path)
		if errors.Is(err, npz.ErrColumns) {
			a, err := npz.ReadNpyFile(path)
			if err != nil {
				return nil, err
			}
			return whole(path, a)
		}
		if err != nil {
			return nil, err
		}
		return r, nil
	case ".npz":
		all, err := npz.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if a, there := all["embeddings"]; there {
			return whole(path, a)
		}
		if len(all) == 1 {
			for _, a := range all {
				return whole(path, a)
			}
		}
		return nil, fmt.Errorf("%s: no array \"embeddings\" among %d", path, len(all))
	}
	return nil, fmt.Errorf("%s: expected a name that ends in .npy or .npz", path)
}

// inMemory is a Matrix with nothing to close.
type inMemory struct{ *Matrix }

// Close implements io.Closer.
func (inMemory) Close() error { return nil }

func whole(path string, a npz.Array) (File, error) {
	if len(a.Shape) != 2 || a.Shape[1] == 0 {
		return nil, fmt.Errorf("%s: shape %v, expected rows and columns", path, a.Shape)
	}
	switch x := a.Data.(type) {
	case []float32:
		return inMemory{&Matrix{a.Shape[1], x}}, nil
	case []float64:
		narrow := make([]float32, len(x))
		for i, v := range x {
			narrow[i] = float32(v)
		}
		return inMemory{&Matrix{a.Shape[1], narrow}}, nil
	}
	return nil, fmt.Errorf("%s: dtype is %s, expected float16, float32 or float64", path, a.DType())
}

// Norms is the least and the largest length of rows, for a word where embeddings
// are not of length 1. Rows that hold NaN or Inf are an error.
func Norms(v Vectors) (least, largest float64, err error) {
	const block = 1024
	d := v.Dim()
	x := make([]float32, min(block, v.Len())*d)
	least = math.Inf(1)
	for from := 0; from < v.Len(); from += block {
		n := min(block, v.Len()-from)
		if err := v.Read(from, x[:n*d]); err != nil {
			return 0, 0, err
		}
		for i := range n {
			s := 0.0
			for j, c := range x[i*d : (i+1)*d] {
				if w := float64(c); math.IsNaN(w) || math.IsInf(w, 0) {
					return 0, 0, fmt.Errorf("row %d, column %d is %v, expected a finite number", from+i, j, c)
				}
				s += float64(c) * float64(c)
			}
			least, largest = math.Min(least, math.Sqrt(s)), math.Max(largest, math.Sqrt(s))
		}
	}
	return least, largest, nil
}
