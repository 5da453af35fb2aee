package scoreio

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// table reads CSV with a known header. The first error sticks, so that callers
// can read all fields of a row and ask once, with finish.
type table struct {
	name    string
	text    *text
	csv     *csv.Reader
	columns []string
	at      map[string]int // of columns
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
	return nil, fmt.Errorf("%s: line 1: the header is %q, expected %s", path, clip(strings.Join(t.columns, ",")), strings.Join(names, " or "))
}

// openAnyTable reads a header of any names, no two of them the same; columns
// without a name, which spreadsheets and data frames write to number the rows,
// are as if they were not there. Fields are separated by tabs in files whose
// name ends in .tsv, by commas elsewhere.
func openAnyTable(path string) (*table, error) {
	t, err := openHeader(path, strings.Join(scoreColumns, ","))
	if err != nil {
		return nil, err
	}
	for i, name := range t.columns {
		if name != "" && t.at[name] != i {
			err = fmt.Errorf("%s: line 1: column %q is there twice", path, clip(name))
		}
	}
	if only := t.columns[0]; len(t.columns) == 1 && strings.ContainsAny(only, ",;\t") {
		err = fmt.Errorf("%s: line 1: %q is one column, expected columns separated by commas, or by tabs if the file's name ends in .tsv", path, clip(only))
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func openHeader(path, expected string) (*table, error) {
	f, err := openText(path)
	if err != nil {
		return nil, err
	}
	t := &table{name: path, text: f, csv: csv.NewReader(f), at: map[string]int{}}
	if strings.EqualFold(filepath.Ext(unpackedName(path)), ".tsv") {
		t.csv.Comma = '\t'
	}
	t.columns, err = t.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		err = fmt.Errorf("%s: empty file, expected the header %s", path, expected)
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	default:
		for i, name := range t.columns {
			t.columns[i] = strings.TrimSpace(name)
			if _, twice := t.at[t.columns[i]]; !twice {
				t.at[t.columns[i]] = i
			}
		}
		t.csv.ReuseRecord = true
		return t, nil
	}
	t.close()
	return nil, err
}

func (t *table) close() { t.text.close() }

// next reads a row; false at the end or after an error.
func (t *table) next() bool {
	if t.err != nil {
		return false
	}
	fields, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return false
	}
	if err != nil && !errors.Is(err, csv.ErrFieldCount) {
		t.err = fmt.Errorf("%s: %w", t.name, err)
		return false
	}
	line, _ := t.csv.FieldPos(0)
	t.fields, t.lines = fields, append(t.lines, line)
	if err != nil {
		t.err = fmt.Errorf("%s: %d fields, expected %d as in the header", t.line(len(t.lines)-1), len(fields), len(t.columns))
		return false
	}
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

// field is what the row has in a column, without spaces around it; "" if there
// is no such column.
func (t *table) field(column string) string {
	i, ok := t.at[column]
	if !ok {
		return ""
	}
	return strings.TrimSpace(t.fields[i])
}

func (t *table) fail(column, expected string) {
	if t.err == nil {
		t.err = fmt.Errorf("%s: %s is %q, expected %s", t.line(len(t.lines)-1), column, clip(t.field(column)), expected)
	}
}

// number reads a whole number that is not negative.
func (t *table) number(column string) int {
	v, err := strconv.Atoi(t.field(column))
	if err != nil || v < 0 || v > math.MaxInt32 {
		t.fail(column, fmt.Sprintf("a whole number from 0 to %d", math.MaxInt32))
	}
	return v
}

func (t *table) bit(column string) bool {
	member, ok := membership(t.field(column))
	if !ok {
		t.fail(column, "0, 1, true or false")
	}
	return member
}

func (t *table) float(column string) float64 {
	v, err := strconv.ParseFloat(t.field(column), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		t.fail(column, "a finite number")
	}
	return v
}

func endings[T any](known map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}
