package scoreio

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// table reads CSV with a known header. The first error sticks, so that callers
// can read all fields of a row and ask once, with finish.
type table struct {
	name    string
	file    *os.File
	csv     *csv.Reader
	columns []string
	fields  []string
	lines   []int // line of each row read
	err     error
}

// openTable reads the header, which must be one of the allowed ones.
func openTable(path string, allowed ...[]string) (*table, error) {
	t, err := openHeader(path, strings.Join(allowed[0], ","))
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(allowed, func(columns []string) bool { return slices.Equal(t.columns, columns) }) {
		return t, nil
	}
	t.close()
	var names []string
	for _, columns := range allowed {
		names = append(names, strings.Join(columns, ","))
	}
	return nil, fmt.Errorf("%s: line 1: the header is %q, expected %s", path, strings.Join(t.columns, ","), strings.Join(names, " or "))
}

// openAnyTable reads a header of any names, no two of them the same. Fields are
// separated by tabs in files whose name ends in .tsv, by commas elsewhere.
func openAnyTable(path string) (*table, error) {
	t, err := openHeader(path, strings.Join(scoreColumns, ","))
	if err != nil {
		return nil, err
	}
	for i, name := range t.columns {
		if slices.Contains(t.columns[:i], name) {
			t.close()
			return nil, fmt.Errorf("%s: line 1: column %q is there twice", path, name)
		}
	}
	return t, nil
}

func openHeader(path, expected string) (*table, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &table{name: path, file: f, csv: csv.NewReader(f)}
	if strings.EqualFold(filepath.Ext(path), ".tsv") {
		t.csv.Comma = '\t'
	}
	t.columns, err = t.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("%s: empty file, expected the header %s", path, expected)
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	default:
		t.columns[0] = strings.TrimPrefix(t.columns[0], "\ufeff") // spreadsheets write a byte order mark
		return t, nil
	}
	t.close()
	return nil, err
}

func (t *table) close() { t.file.Close() }

// next reads a row; false at the end or after an error.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	fields, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil {
		t.err = fmt.Errorf("%s: %w", t.name, err)
		return false
	}
	line, _ := t.csv.FieldPos(0)
	t.fields, t.lines = fields, append(t.lines, line)
	return true
}

// finish returns the first error, and one for a table without rows.
func (t *table) finish(rows int) error {
	if t.err == nil && rows == 0 {
		t.err = fmt.Errorf("%s: no rows below the header", t.name)
	}
	return t.err
}

// line names row i.
func (t *table) line(i int) string { return fmt.Sprintf("%s: line %d", t.name, t.lines[i]) }

func (t *table) text(column string) string {
	i := slices.Index(t.columns, column)
	if i < 0 {
		return ""
	}
	return t.fields[i]
}

func (t *table) fail(column, expected string) {
	if t.err == nil {
		t.err = fmt.Errorf("%s: %s is %q, expected %s", t.line(len(t.lines)-1), column, t.text(column), expected)
	}
}

// number reads a whole number that is not negative.
func (t *table) number(column string) int {
	v, err := strconv.Atoi(t.text(column))
	if err != nil || v < 0 || v > math.MaxInt32 {
		t.fail(column, fmt.Sprintf("a whole number from 0 to %d", math.MaxInt32))
	}
	return v
}

func (t *table) bit(column string) bool {
	member, ok := membership(t.text(column))
	if !ok {
		t.fail(column, "0, 1, true or false")
	}
	return member
}

func (t *table) float(column string) float64 {
	v, err := strconv.ParseFloat(t.text(column), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		t.fail(column, "a finite number")
	}
	return v
}

func endings[T any](known map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}
