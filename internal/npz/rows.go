package npz

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
)

// Rows is a matrix in an .npy file, of which rows are read when they are wanted.
type Rows struct {
	file   *os.File
	path   string
	first  int64 // byte of the first element
	dtype  dtype
	n, dim int
}

// ErrColumns says that a matrix is in the file column by column, so that its rows
// cannot be read one by one.
var ErrColumns = errors.New("in Fortran order")

// OpenRows opens a matrix of float16, float32 or float64 numbers in C order.
func OpenRows(path string) (*Rows, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Rows{file: file, path: path}
	if err := r.open(); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Rows) open() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	h, err := readHeader(r.file)
	if err != nil {
		return err
	}
	if len(h.shape) != 2 || h.shape[1] == 0 {
		return fmt.Errorf("shape %v, expected rows and columns", h.shape)
	}
	if h.dtype.code[0] != 'f' {
		return fmt.Errorf("dtype is %s, expected float16, float32 or float64", h.dtype.name)
	}
	n, err := elements(h.shape, h.dtype.size)
	if err != nil {
		return err
	}
	if got, want := info.Size()-h.bytes, int64(n)*int64(h.dtype.size); got != want {
		return h.wrongSize(got, want)
	}
	if h.fortran && h.shape[0] > 1 && h.shape[1] > 1 {
		return ErrColumns
	}
	r.first, r.dtype, r.n, r.dim = h.bytes, h.dtype, h.shape[0], h.shape[1]
	return nil
}

// Len is the number of rows.
func (r *Rows) Len() int { return r.n }

// Dim is the number of columns.
func (r *Rows) Dim() int { return r.dim }

// Close closes the file.
func (r *Rows) Close() error { return r.file.Close() }

// Read fills dst with rows from row from on, as float32. It may be called from
// several goroutines.
func (r *Rows) Read(from int, dst []float32) error {
	if from < 0 || from+len(dst)/r.dim > r.n {
		return fmt.Errorf("%s: rows %d to %d, expected some of the %d there are", r.path, from, from+len(dst)/r.dim-1, r.n)
	}
	size := r.dtype.size
	raw := make([]byte, min(len(dst), chunk)*size)
	at := r.first + int64(from)*int64(r.dim)*int64(size)
	for len(dst) > 0 {
		k := min(len(dst), chunk)
		if _, err := r.file.ReadAt(raw[:k*size], at); err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
		floats(dst[:k], raw, size)
		dst, at = dst[k:], at+int64(k*size)
	}
	return nil
}

// floats decodes numbers of size bytes.
func floats(dst []float32, raw []byte, size int) {
	for i := range dst {
		switch size {
		case 2:
			dst[i] = half(binary.LittleEndian.Uint16(raw[2*i:]))
		case 4:
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		default:
			dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
		}
	}
}

// half is the number that 16 bits stand for (IEEE 754 binary16).
func half(b uint16) float32 {
	sign, exp, frac := float32(1), int(b>>10)&31, float32(b&1023)
	if b>>15 == 1 {
		sign = -1
	}
	switch exp {
	case 0:
		return sign * frac * 0x1p-24
	case 31:
		if frac != 0 {
			return float32(math.NaN())
		}
		return float32(math.Inf(int(sign)))
	}
	return sign * (1 + frac*0x1p-10) * float32(math.Ldexp(1, exp-15))
}
