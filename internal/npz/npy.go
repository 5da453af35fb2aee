package npz

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// chunk is how many elements are read or written at a time.
const chunk = 1 << 16

// ReadNpyFile reads the array of an .npy file.
func ReadNpyFile(path string) (Array, error) {
	f, err := os.Open(path)
	if err != nil {
		return Array{}, err
	}
	defer f.Close()
	size := int64(-1) // unknown: a pipe
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	a, err := readNpy(f, size)
	if err != nil {
		return Array{}, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// ReadNpy reads an array in .npy form to the end of r. Its errors do not name
// a file.
func ReadNpy(r io.Reader) (Array, error) { return readNpy(r, -1) }

// readNpy reads an array of which size bytes are there, or -1 if that is not
// known. Memory for more than a chunk is taken only if the bytes for it exist.
func readNpy(r io.Reader, size int64) (Array, error) {
	h, err := readHeader(r)
	if err != nil {
		return Array{}, err
	}
	n, err := elements(h.shape, h.dtype.size)
	if err != nil {
		return Array{}, err
	}
	want := int64(n) * int64(h.dtype.size)
	if size >= 0 && size-h.bytes != want {
		return Array{}, h.wrongSize(size-h.bytes, want)
	}
	room := n
	if size < 0 {
		room = min(n, chunk)
	}
	a := Array{Shape: h.shape}
	switch h.dtype.code {
	case "b1":
		a.Data, err = readElements[bool](r, h, n, room)
	case "i1":
		a.Data, err = readElements[int8](r, h, n, room)
	case "i2":
		a.Data, err = readElements[int16](r, h, n, room)
	case "i4":
		a.Data, err = readElements[int32](r, h, n, room)
	case "i8":
		a.Data, err = readElements[int64](r, h, n, room)
	case "u1":
		a.Data, err = readElements[uint8](r, h, n, room)
	case "u2":
		a.Data, err = readElements[uint16](r, h, n, room)
	case "u4":
		a.Data, err = readElements[uint32](r, h, n, room)
	case "u8":
		a.Data, err = readElements[uint64](r, h, n, room)
	case "f2":
		var bits []uint16
		if bits, err = readElements[uint16](r, h, n, room); err == nil {
			wide := make([]float32, len(bits))
			for i, b := range bits {
				wide[i] = half(b)
			}
			a.Data = wide
		}
	case "f4":
		a.Data, err = readElements[float32](r, h, n, room)
	case "f8":
		a.Data, err = readElements[float64](r, h, n, room)
	default:
		panic("npz: no reader for dtype " + h.dtype.code)
	}
	if err != nil {
		return Array{}, err
	}
	var one [1]byte
	switch _, err := io.ReadFull(r, one[:]); {
	case err == nil:
		return Array{}, fmt.Errorf("bytes after the data: expected %d bytes of data for shape %v of %s", want, h.shape, h.dtype.name)
	case !errors.Is(err, io.EOF):
		return Array{}, err
	}
	return a, nil
}

func (h header) wrongSize(got, want int64) error {
	problem := "truncated"
	if got > want {
		problem = "bytes after the data"
	}
	return fmt.Errorf("%s: %d bytes of data, expected %d for shape %v of %s", problem, max(got, 0), want, h.shape, h.dtype.name)
}

// readElements reads n elements and brings them into C order.
func readElements[T Element](r io.Reader, h header, n, room int) ([]T, error) {
	size := h.dtype.size
	data := make([]T, 0, room)
	raw := make([]byte, min(n, chunk)*size)
	part := make([]T, min(n, chunk))
	for len(data) < n {
		k := min(n-len(data), chunk)
		if got, err := io.ReadFull(r, raw[:k*size]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil, h.wrongSize(int64(len(data)*size+got), int64(n)*int64(size))
			}
			return nil, err
		}
		if _, err := binary.Decode(raw[:k*size], binary.LittleEndian, part[:k]); err != nil {
			return nil, err
		}
		data = append(data, part[:k]...)
	}
	if h.fortran && len(h.shape) > 1 {
		data = toCOrder(data, h.shape)
	}
	return data, nil
}

// toCOrder turns an array whose first index runs fastest into one whose last
// index does.
func toCOrder[T any](f []T, shape []int) []T {
	c := make([]T, len(f))
	stride := make([]int, len(shape)) // of each index in f
	step := 1
	for i, d := range shape {
		stride[i] = step
		step *= d
	}
	index := make([]int, len(shape))
	from := 0
	for to := range c {
		c[to] = f[from]
		for i := len(shape) - 1; i >= 0; i-- {
			index[i]++
			from += stride[i]
			if index[i] < shape[i] {
				break
			}
			from -= shape[i] * stride[i]
			index[i] = 0
		}
	}
	return c
}

// StartNpy writes what stands before the elements of an array of that shape, which
// WriteElements is to write, in C order, in as many pieces as one likes.
func StartNpy[T Element](w io.Writer, shape ...int) error {
	var none []T
	t, _ := typeOfData(none)
	if _, err := elements(shape, t.size); err != nil {
		return fmt.Errorf("write npy: %w", err)
	}
	head, err := appendHeader(nil, t, shape)
	if err != nil {
		return fmt.Errorf("write npy: %w", err)
	}
	_, err = w.Write(head)
	return err
}

// WriteNpy writes a in .npy form, byte for byte as numpy.save does. It fails
// if a.Data does not have the elements that a.Shape says.
func WriteNpy(w io.Writer, a Array) error {
	t, ok := typeOfData(a.Data)
	if !ok {
		return fmt.Errorf("write npy: data of type %T, expected a slice of bool, integers or floats", a.Data)
	}
	n, err := elements(a.Shape, t.size)
	if err != nil {
		return fmt.Errorf("write npy: %w", err)
	}
	head, err := appendHeader(nil, t, a.Shape)
	if err != nil {
		return fmt.Errorf("write npy: %w", err)
	}
	if have := binary.Size(a.Data) / t.size; have != n {
		return fmt.Errorf("write npy: %d elements for shape %v, expected %d", have, a.Shape, n)
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	switch data := a.Data.(type) {
	case []bool:
		return WriteElements(w, data)
	case []int8:
		return WriteElements(w, data)
	case []int16:
		return WriteElements(w, data)
	case []int32:
		return WriteElements(w, data)
	case []int64:
		return WriteElements(w, data)
	case []uint8:
		return WriteElements(w, data)
	case []uint16:
		return WriteElements(w, data)
	case []uint32:
		return WriteElements(w, data)
	case []uint64:
		return WriteElements(w, data)
	case []float32:
		return WriteElements(w, data)
	case []float64:
		return WriteElements(w, data)
	}
	panic("npz: no writer for dtype " + t.code)
}

// WriteElements writes elements of an array that StartNpy has begun.
func WriteElements[T Element](w io.Writer, data []T) error {
	var raw []byte
	for len(data) > 0 {
		k := min(len(data), chunk)
		var err error
		raw, err = binary.Append(raw[:0], binary.LittleEndian, data[:k])
		if err != nil {
			return err
		}
		if _, err := w.Write(raw); err != nil {
			return err
		}
		data = data[k:]
	}
	return nil
}
