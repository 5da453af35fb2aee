package scoreio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// readScoresJSON reads a list of objects. The first one says which fields
// there are, and every other must have those of them that count.
func readScoresJSON(path string, c Columns) ([]Row, error) {
	f, err := openText(path)
	if err != nil {
		return nil, err
	}
	defer f.close()
	where := rowNumber(path)
	dec := json.NewDecoder(f)
	if tok, err := dec.Token(); err != nil || tok != json.Delim('[') {
		return nil, fmt.Errorf("%s: expected a JSON list of objects with %s", path, strings.Join(scoreColumns, ", "))
	}
	var rows []Row
	var l layout
	for i := 0; dec.More(); i++ {
		o, err := readObject(dec)
		if err != nil {
			return nil, fmt.Errorf("%s: %w; expected an object with %s", where(i), err, strings.Join(scoreColumns, ", "))
		}
		if i == 0 || !c.named() { // nothing unknown in any row
			found, err := c.layout(o.names(), "field")
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where(i), err)
			}
			if i == 0 {
				l = found
			}
			if found != l {
				return nil, fmt.Errorf("%s: it has not the fields of row 0, expected set, audit and canary in every row or in none", where(i))
			}
		}
		r := Row{Member: o.member(l.member), Score: o.score(l.score)}
		r.Set, r.Audit, r.Canary = o.number(l.set), o.number(l.audit), o.number(l.canary)
		if o.err != nil {
			return nil, fmt.Errorf("%s: %w", where(i), o.err)
		}
		l.complete(&r, i)
		rows = append(rows, r)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%s: the list does not end: %w", path, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more data after the list", path)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no rows", path)
	}
	return rows, checkScores(rows, where)
}

// object is one JSON object. The first error sticks. Unlike encoding/json's
// structs it tells "Score" from "score".
type object struct {
	fields map[string]json.RawMessage
	err    error
}

// readObject reads an object name by name, since encoding/json takes the last
// of two fields of one name without a word.
func readObject(dec *json.Decoder) (*object, error) {
	start, err := dec.Token()
	switch {
	case err != nil:
		return nil, err
	case start != json.Delim('{'):
		return nil, fmt.Errorf("it is no object")
	}
	o := &object{fields: map[string]json.RawMessage{}}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // the decoder takes no other
		if _, twice := o.fields[name]; twice {
			return nil, fmt.Errorf("field %q is there twice", clip(name))
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		o.fields[name] = value
	}
	_, err = dec.Token()
	return o, err
}

func (o *object) names() []string {
	names := make([]string, 0, len(o.fields))
	for name := range o.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// text is a field as it stands in the file.
func (o *object) text(name string) string {
	raw, ok := o.fields[name]
	if !ok && o.err == nil {
		o.err = fmt.Errorf("field %q is missing", name)
	}
	return string(raw)
}

func (o *object) fail(name, expected string) {
	if o.err == nil {
		value := strings.Join(strings.Fields(string(o.fields[name])), " ") // one line
		o.err = fmt.Errorf("%s is %s, expected %s", name, clip(value), expected)
	}
}

// number reads a whole number that is not negative; 0 where the file has no
// such field.
func (o *object) number(name string) int {
	if name == "" {
		return 0
	}
	v, err := strconv.Atoi(o.text(name))
	if err != nil || v < 0 || v > math.MaxInt32 {
		o.fail(name, fmt.Sprintf("a whole number from 0 to %d", math.MaxInt32))
	}
	return v
}

func (o *object) member(name string) bool {
	member, ok := membership(strings.Trim(o.text(name), `"`))
	if !ok {
		o.fail(name, "0, 1, true or false")
	}
	return member
}

func (o *object) score(name string) float64 {
	var v *float64
	if err := json.Unmarshal([]byte(o.text(name)), &v); err != nil || v == nil {
		o.fail(name, "a finite number")
		return 0
	}
	return *v
}
