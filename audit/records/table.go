package records

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is text records. Columns that a file does not have are nil.
type Table struct {
	ID    []string // one for each record, never nil: the row's number where a file has none
	User  []string
	Text  []string
	Label [][]string
}

// Len is the number of records.
func (t *Table) Len() int { return len(t.ID) }

// Columns names the columns of a file that are not found under the usual names.
type Columns struct {
	ID, User, Text, Label string
	// Empty lets texts be empty, so that each record, and each line of a .txt file, has
	// its row in what is made of them.
	Empty bool
}

// The usual names of columns, the first that is there counts.
var usual = map[string][]string{
	"id":    {"id", "record_id", "candidate_id", "rid"},
	"user":  {"user", "user_id", "client", "client_id", "author"},
	"text":  {"text", "review", "content", "sentence", "document", "PE.TEXT"},
	"label": {"label", "labels", "label1", "category"},
}

// field finds which of names a column is; wanted is the name that people gave.
// "" means that there is none.
func field(names []string, kind, wanted string) (string, error) {
	if wanted != "" {
		if !slices.Contains(names, wanted) {
			return "", fmt.Errorf("no column %q for the %s, expected one of %s", wanted, kind, strings.Join(names, ", "))
		}
		return wanted, nil
	}
	for _, u := range usual[kind] {
		if slices.Contains(names, u) {
			return u, nil
		}
	}
	return "", nil
}

// MaxText bounds a record's text, in bytes.
const MaxText = 64 << 20

// check refuses a table that audits cannot use. where names a record's place.
func (t *Table) check(where func(i int) string, empty bool) error {
	if t.Len() == 0 {
		return fmt.Errorf("no records")
	}
	seen := make(map[string]int, t.Len())
	for i, id := range t.ID {
		if first, twice := seen[id]; twice {
			return fmt.Errorf("%s: id %q is that of %s, expected ids to differ", where(i), id, where(first))
		}
		seen[id] = i
	}
	for i, s := range t.Text {
		switch {
		case !utf8.ValidString(s):
			return fmt.Errorf("%s: the text is not valid UTF-8", where(i))
		case !empty && strings.TrimSpace(s) == "":
			return fmt.Errorf("%s: the text is empty", where(i))
		case len(s) > MaxText:
			return fmt.Errorf("%s: a text of %d bytes, expected at most %d", where(i), len(s), MaxText)
		}
	}
	for i, u := range t.User {
		if u == "" {
			return fmt.Errorf("%s: no user", where(i))
		}
	}
	return nil
}
