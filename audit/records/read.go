package records

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Read reads text records from a .jsonl, .json (a list of objects), .csv or .tsv
// file, or a .txt file of one text a line; all also with .gz. Errors name the file
// and the line or record.
func Read(path string, c Columns) (*Table, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var r io.Reader = bufio.NewReaderSize(file, 1<<20)
	name := path
	if strings.HasSuffix(name, ".gz") {
		zip, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		defer zip.Close()
		r, name = zip, strings.TrimSuffix(name, ".gz")
	}
	read := map[string]func(io.Reader, Columns) (*Table, error){
		".jsonl": readLines, ".ndjson": readLines, ".json": readList, ".txt": readPlain,
		".csv": func(r io.Reader, c Columns) (*Table, error) { return readCSV(r, ',', c) },
		".tsv": func(r io.Reader, c Columns) (*Table, error) { return readCSV(r, '\t', c) },
	}[filepath.Ext(name)]
	if read == nil {
		return nil, fmt.Errorf("%s: expected a name that ends in .jsonl, .json, .csv, .tsv or .txt, or one of them and .gz", path)
	}
	t, err := read(r, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// builder collects records and where they came from.
type builder struct {
	Table
	columns map[string]string // by kind
	unit    string            // "line" or "record"
	empty   bool
	at      []int
}

func newBuilder(names []string, c Columns, unit string) (*builder, error) {
	b := &builder{columns: map[string]string{}, unit: unit, empty: c.Empty}
	for kind, wanted := range map[string]string{"id": c.ID, "user": c.User, "text": c.Text, "label": c.Label} {
		name, err := field(names, kind, wanted)
		if err != nil {
			return nil, err
		}
		b.columns[kind] = name
	}
	return b, nil
}

func (b *builder) where(i int) string { return fmt.Sprintf("%s %d", b.unit, b.at[i]) }

// add takes a record whose values get finds by column; absent ones are told.
func (b *builder) add(at int, get func(column string) ([]string, error)) error {
	one := func(kind string) (string, error) {
		v, err := get(b.columns[kind])
		if err != nil {
			return "", fmt.Errorf("%s %d: %w", b.unit, at, err)
		}
		if len(v) != 1 {
			return "", fmt.Errorf("%s %d: column %q is a list, expected one value", b.unit, at, b.columns[kind])
		}
		return v[0], nil
	}
	id := fmt.Sprint(len(b.ID))
	if b.columns["id"] != "" {
		v, err := one("id")
		if err != nil {
			return err
		}
		id = v
	}
	b.ID, b.at = append(b.ID, id), append(b.at, at)
	if b.columns["user"] != "" {
		v, err := one("user")
		if err != nil {
			return err
		}
		b.User = append(b.User, v)
	}
	if b.columns["text"] != "" {
		v, err := one("text")
		if err != nil {
			return err
		}
		b.Text = append(b.Text, v)
	}
	if b.columns["label"] != "" {
		v, err := get(b.columns["label"])
		if err != nil {
			return fmt.Errorf("%s %d: %w", b.unit, at, err)
		}
		b.Label = append(b.Label, v)
	}
	return nil
}

func (b *builder) table() (*Table, error) {
	if b == nil {
		return nil, errors.New("no records")
	}
	return &b.Table, b.check(b.where, b.empty)
}

// readLines reads one JSON object a line; blank lines are passed over.
func readLines(r io.Reader, c Columns) (*Table, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxText+1<<20)
	var b *builder
	n := 0
	for lines.Scan() {
		n++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var err error
		if b, err = addObject(b, lines.Bytes(), n, "line", c); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return b.table()
}

// readList reads a JSON list of objects, or of texts.
func readList(r io.Reader, c Columns) (*Table, error) {
	d := json.NewDecoder(r)
	open, err := d.Token()
	if err != nil {
		return nil, err
	}
	if open != json.Delim('[') {
		return nil, fmt.Errorf("starts with %v, expected a list", open)
	}
	var b *builder
	for n := 0; d.More(); n++ {
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("record %d: %w", n, err)
		}
		if v[0] == '"' {
			if v, err = json.Marshal(map[string]json.RawMessage{"text": v}); err != nil {
				return nil, err
			}
		}
		if b, err = addObject(b, v, n, "record", c); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	return b.table()
}

func addObject(b *builder, text []byte, at int, unit string, c Columns) (*builder, error) {
	var o map[string]json.RawMessage
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, fmt.Errorf("%s %d: %w", unit, at, err)
	}
	if b == nil {
		var err error
		if b, err = newBuilder(slices.Sorted(maps.Keys(o)), c, unit); err != nil {
			return nil, fmt.Errorf("%s %d: %w", unit, at, err)
		}
	}
	return b, b.add(at, func(column string) ([]string, error) {
		v, there := o[column]
		if !there || string(v) == "null" {
			return nil, fmt.Errorf("no %q, which the first record has", column)
		}
		if column == b.columns["text"] && v[0] != '"' && v[0] != '[' && v[0] != '{' {
			return nil, fmt.Errorf("column %q is %.40s, expected a string", column, v)
		}
		return values(column, v)
	})
}

// values reads a string, number, truth value, or a list of them.
func values(column string, v json.RawMessage) ([]string, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(v, &list); err != nil {
		list = []json.RawMessage{v}
	}
	var out []string
	for _, x := range list {
		var s string
		if err := json.Unmarshal(x, &s); err == nil {
			out = append(out, s)
			continue
		}
		if x[0] == '{' || x[0] == '[' {
			return nil, fmt.Errorf("column %q holds %.40s, expected text, a number, or a list of them", column, x)
		}
		out = append(out, string(x))
	}
	return out, nil
}

// readCSV reads a table with a header: by RFC 4180, and if a field that does not
// begin with a quote holds one, as some tools write them, with quotes as they are.
// A field that begins with one and does not end is an error: the file may be cut.
func readCSV(r io.Reader, comma rune, c Columns) (*Table, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	t, err := strictCSV(text, comma, c)
	var parse *csv.ParseError
	if errors.As(err, &parse) && errors.Is(parse.Err, csv.ErrBareQuote) {
		loose, wrong := looseCSV(text, comma, c)
		if wrong != nil {
			return nil, fmt.Errorf("%w; read without quoting: %w", err, wrong)
		}
		return loose, nil
	}
	return t, err
}

func strictCSV(text []byte, comma rune, c Columns) (*Table, error) {
	rows := csv.NewReader(bytes.NewReader(text))
	rows.Comma = comma
	head, err := rows.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("empty, expected a line of column names")
	}
	if err != nil {
		return nil, err
	}
	b, err := newBuilder(head, c, "line")
	if err != nil {
		return nil, err
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return b.table()
		}
		if err != nil {
			return nil, err
		}
		line, _ := rows.FieldPos(0)
		if err := b.addRow(line, head, row); err != nil {
			return nil, err
		}
	}
}

// looseCSV takes quotes as they are: one record a line, and a comma always ends a
// field.
func looseCSV(text []byte, comma rune, c Columns) (*Table, error) {
	var b *builder
	var head []string
	n := 0
	for line := range bytes.Lines(text) {
		n++
		row := strings.Split(strings.TrimRight(string(line), "\r\n"), string(comma))
		if head == nil {
			head = row
			var err error
			if b, err = newBuilder(head, c, "line"); err != nil {
				return nil, err
			}
			continue
		}
		if len(row) != len(head) {
			return nil, fmt.Errorf("line %d: %d fields, expected %d", n, len(row), len(head))
		}
		if err := b.addRow(n, head, row); err != nil {
			return nil, err
		}
	}
	return b.table()
}

func (b *builder) addRow(line int, head, row []string) error {
	return b.add(line, func(column string) ([]string, error) {
		return []string{row[slices.Index(head, column)]}, nil
	})
}

// readPlain reads one text a line; blank lines are passed over, or empty texts.
func readPlain(r io.Reader, c Columns) (*Table, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxText+1<<20)
	b, err := newBuilder([]string{"text"}, Columns{Empty: c.Empty}, "line")
	if err != nil {
		return nil, err
	}
	n := 0
	for lines.Scan() {
		n++
		if !c.Empty && strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		if err := b.add(n, func(string) ([]string, error) { return []string{lines.Text()}, nil }); err != nil {
			return nil, err
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return b.table()
}
