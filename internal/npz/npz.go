// Package npz reads and writes numpy's array files: .npy, one array, and
// .npz, a zip file of named arrays.
//
// Files are data from elsewhere, so headers are checked before they are
// believed: what is read never takes more memory than a small multiple of the
// file's own bytes, and every error names the file, the array, what was found
// and what was expected. (npyio, which the tests use as a second opinion,
// panics on damaged headers.) What is written depends on the arrays alone: no
// times, a fixed order.
package npz

import (
	"fmt"
	"math"
	"math/bits"
)

// Element lists the element types that are read and written, as numpy calls
// them: bool, int8 to int64, uint8 to uint64, float32, float64. Arrays of float16
// are read as float32.
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Array is an n-dimensional array in C order: the last index runs fastest.
type Array struct {
	Shape []int // empty for a scalar
	Data  any   // []T for an Element T, with as many elements as Shape says
}

// Len is the number of elements that a.Shape says.
func (a Array) Len() int {
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// DType is numpy's name of the element type, e.g. "float32".
func (a Array) DType() string {
	if t, ok := typeOfData(a.Data); ok {
		return t.name
	}
	return fmt.Sprintf("%T", a.Data)
}

// Of is the elements of a, if they are of type T. The error says which type
// was found and which was expected; the caller knows the file and the array.
func Of[T Element](a Array) ([]T, error) {
	if data, ok := a.Data.([]T); ok {
		return data, nil
	}
	var want []T
	return nil, fmt.Errorf("dtype is %s, expected %s", a.DType(), Array{Data: want}.DType())
}

// dtype is one element type in numpy's two spellings.
type dtype struct {
	name string // e.g. "float32"
	code string // e.g. "f4": kind and bytes
	size int    // bytes
}

var dtypes = []dtype{
	{"bool", "b1", 1},
	{"int8", "i1", 1}, {"int16", "i2", 2}, {"int32", "i4", 4}, {"int64", "i8", 8},
	{"uint8", "u1", 1}, {"uint16", "u2", 2}, {"uint32", "u4", 4}, {"uint64", "u8", 8},
	{"float16", "f2", 2}, {"float32", "f4", 4}, {"float64", "f8", 8},
}

// typeOfData is the dtype of a slice and false if it is of another type.
func typeOfData(data any) (dtype, bool) {
	code := ""
	switch data.(type) {
	case []bool:
		code = "b1"
	case []int8:
		code = "i1"
	case []int16:
		code = "i2"
	case []int32:
		code = "i4"
	case []int64:
		code = "i8"
	case []uint8:
		code = "u1"
	case []uint16:
		code = "u2"
	case []uint32:
		code = "u4"
	case []uint64:
		code = "u8"
	case []float32:
		code = "f4"
	case []float64:
		code = "f8"
	}
	return typeOfCode(code)
}

func typeOfCode(code string) (dtype, bool) {
	for _, t := range dtypes {
		if t.code == code {
			return t, true
		}
	}
	return dtype{}, false
}

// elements is the product of shape, or an error if elements of size bytes each
// would not fit in memory's address range.
func elements(shape []int, size int) (int, error) {
	n := uint64(size)
	empty := false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		empty = empty || d == 0
	}
	if empty {
		return 0, nil
	}
	for _, d := range shape {
		high, low := bits.Mul64(n, uint64(d))
		if high != 0 || low > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v is too large: more than 2^63 bytes", shape)
		}
		n = low
	}
	return int(n) / size, nil
}
