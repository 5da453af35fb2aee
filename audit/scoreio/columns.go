package scoreio

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/aviary-audit/aviary/internal/npz"
)

// columns reads npz arrays of equal length that together are a table. The
// first error sticks.
type columns struct {
	path string
	npz  *npz.Reader
	rows int // -1 until the first array
	err  error
}

func openColumns(path string) (*columns, error) {
	r, err := npz.Open(path)
	if err != nil {
		return nil, err
	}
	return &columns{path: path, npz: r, rows: -1}, nil
}

func (c *columns) close() { c.npz.Close() }

// array reads an array of one dimension, or one that others of length 1 hide,
// and holds it to the common length.
func (c *columns) array(name string) any {
	if c.err != nil {
		return nil
	}
	a, err := c.npz.Array(name)
	if err != nil {
		c.err = err
		return nil
	}
	switch {
	case len(a.Shape) == 0 || slices.Max(a.Shape) != a.Len():
		c.fail(name, fmt.Sprintf("shape is %v, expected one dimension", a.Shape))
	case c.rows >= 0 && a.Len() != c.rows:
		c.fail(name, fmt.Sprintf("%d entries, expected %d as in the arrays before it", a.Len(), c.rows))
	case a.Len() == 0:
		c.fail(name, "no entries")
	default:
		c.rows = a.Len()
		return a.Data
	}
	return nil
}

func (c *columns) fail(name, what string) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: array %s: %s", c.path, name, what)
	}
}

// integers reads integers of any type.
func (c *columns) integers(name string) []int {
	data := c.array(name)
	if data == nil {
		return nil
	}
	ints, ok := toInts(data)
	if !ok {
		c.fail(name, fmt.Sprintf("dtype is %s, expected integers", npz.Array{Data: data}.DType()))
	}
	return ints
}

// whole reads integers that are not negative.
func (c *columns) whole(name string) []int {
	ints := c.integers(name)
	for i, v := range ints {
		if v < 0 || v > math.MaxInt32 {
			c.fail(name, fmt.Sprintf("entry %d is %d, expected a whole number from 0 to %d", i, v, math.MaxInt32))
			return nil
		}
	}
	return ints
}

// floats reads numbers of any type.
func (c *columns) floats(name string) []float64 {
	data := c.array(name)
	if data == nil {
		return nil
	}
	floats, ok := toFloats(data)
	if !ok {
		c.fail(name, fmt.Sprintf("dtype is %s, expected numbers", npz.Array{Data: data}.DType()))
	}
	return floats
}

// bits reads booleans, or numbers of any type that are 0 or 1.
func (c *columns) bits(name string) []bool {
	data := c.array(name)
	if data == nil {
		return nil
	}
	if bits, ok := data.([]bool); ok {
		return bits
	}
	floats, ok := toFloats(data)
	if !ok {
		c.fail(name, fmt.Sprintf("dtype is %s, expected bool or numbers 0 and 1", npz.Array{Data: data}.DType()))
		return nil
	}
	bits := make([]bool, len(floats))
	for i, v := range floats {
		if v != 0 && v != 1 {
			c.fail(name, fmt.Sprintf("entry %d is %v, expected 0 or 1", i, v))
			return nil
		}
		bits[i] = v == 1
	}
	return bits
}

func readScoresNPZ(path string, names Columns) ([]Row, error) {
	c, err := openColumns(path)
	if err != nil {
		return nil, err
	}
	defer c.close()
	l, err := names.layout(c.npz.Names(), "array")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	member, score := c.bits(l.member), c.floats(l.score)
	number := func(name string) []int {
		if name == "" {
			return nil
		}
		return c.whole(name)
	}
	set, aud, canary := number(l.set), number(l.audit), number(l.canary)
	if c.err != nil {
		return nil, c.err
	}
	rows := make([]Row, c.rows)
	for i := range rows {
		r := Row{Member: member[i], Score: score[i]}
		if set != nil {
			r.Set = set[i]
		}
		if aud != nil {
			r.Audit = aud[i]
		}
		if canary != nil {
			r.Canary = canary[i]
		}
		l.complete(&r, i)
		rows[i] = r
	}
	return rows, checkScores(rows, rowNumber(path))
}

func writeScoresNPZ(w io.Writer, rows []Row) error {
	if err := checkScores(rows, rowNumber("scores")); err != nil {
		return err
	}
	n := len(rows)
	set, aud, canary := make([]int64, n), make([]int64, n), make([]int64, n)
	member, score := make([]uint8, n), make([]float64, n)
	for i, r := range rows {
		set[i], aud[i], canary[i], score[i] = int64(r.Set), int64(r.Audit), int64(r.Canary), r.Score
		member[i] = digit(r.Member) - '0'
	}
	shape := []int{n}
	return npz.Write(w,
		npz.Named{Name: "set", Array: npz.Array{Shape: shape, Data: set}},
		npz.Named{Name: "audit", Array: npz.Array{Shape: shape, Data: aud}},
		npz.Named{Name: "canary", Array: npz.Array{Shape: shape, Data: canary}},
		npz.Named{Name: "member", Array: npz.Array{Shape: shape, Data: member}},
		npz.Named{Name: "score", Array: npz.Array{Shape: shape, Data: score}},
	)
}

func readLossesNPZ(path string) ([]Loss, error) {
	c, err := openColumns(path)
	if err != nil {
		return nil, err
	}
	defer c.close()
	set, aud, canary, loss := c.whole("set"), c.whole("audit"), c.whole("canary"), c.floats("loss")
	if c.err != nil {
		return nil, c.err
	}
	rows := make([]Loss, c.rows)
	for i := range rows {
		rows[i] = Loss{Set: set[i], Audit: aud[i], Canary: canary[i], Loss: loss[i]}
	}
	return rows, checkLosses(rows, rowNumber(path))
}

// toInts widens any integer slice; false for other types. Numbers that int
// does not hold come out negative, which every caller refuses or checks.
func toInts(data any) ([]int, bool) {
	switch data := data.(type) {
	case []int8:
		return widen[int8, int](data), true
	case []int16:
		return widen[int16, int](data), true
	case []int32:
		return widen[int32, int](data), true
	case []int64:
		return widen[int64, int](data), true
	case []uint8:
		return widen[uint8, int](data), true
	case []uint16:
		return widen[uint16, int](data), true
	case []uint32:
		return widen[uint32, int](data), true
	case []uint64:
		return widen[uint64, int](data), true
	}
	return nil, false
}

// toFloats widens any slice of numbers; false for other types.
func toFloats(data any) ([]float64, bool) {
	switch data := data.(type) {
	case []float64:
		return data, true
	case []float32:
		return widen[float32, float64](data), true
	case []int64:
		return widen[int64, float64](data), true
	case []uint64:
		return widen[uint64, float64](data), true
	}
	ints, ok := toInts(data)
	if !ok {
		return nil, false
	}
	return widen[int, float64](ints), true
}

type real interface {
	int | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32
}

func widen[From real, To int | float64](x []From) []To {
	y := make([]To, len(x))
	for i, v := range x {
		y[i] = To(v)
	}
	return y
}
