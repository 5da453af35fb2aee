package scoreio

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
)

// Row is one candidate in one audit.
type Row struct {
	Set, Audit, Canary int
	Member             bool
	Score              float64 // finite
}

var scoreColumns = []string{"set", "audit", "canary", "member", "score"}

// Rows pairs the scores of one audit with its place; row i is canary i.
func Rows(set, audit int, s audit.Scores) []Row {
	rows := make([]Row, len(s.Value))
	for i, v := range s.Value {
		rows[i] = Row{Set: set, Audit: audit, Canary: i, Member: s.Member[i], Score: v}
	}
	return rows
}

// Scores is the reverse of Rows: the values and memberships, in row order. It
// does not look at sets and audits.
func Scores(rows []Row) audit.Scores {
	s := audit.Scores{Value: make([]float64, len(rows)), Member: make([]bool, len(rows))}
	for i, r := range rows {
		s.Value[i], s.Member[i] = r.Score, r.Member
	}
	return s
}

// ReadScores reads a score file, .csv, .tsv, .json or .npz, whose columns have
// our names; see Columns for what may be missing, and for other names.
func ReadScores(path string) ([]Row, error) { return Columns{}.ReadScores(path) }

// WriteScores writes a score file, whole or not at all; the ending of path
// chooses .csv, .json or .npz.
func WriteScores(path string, rows []Row) error {
	return writeScores(atomicfile.Options{}, path, rows)
}

func writeScores(files atomicfile.Options, path string, rows []Row) error {
	write, err := byEnding(path, asIs, map[string]func(io.Writer, []Row) error{
		".csv": WriteScoresCSV, ".json": writeScoresJSON, ".npz": writeScoresNPZ,
	})
	if err != nil {
		return err
	}
	return files.Write(path, 0o644, func(w io.Writer) error { return write(w, rows) })
}

// WriteScoresCSV writes rows as CSV.
func WriteScoresCSV(w io.Writer, rows []Row) error {
	if err := checkScores(rows, rowNumber("scores")); err != nil {
		return err
	}
	b := []byte(strings.Join(scoreColumns, ",") + "\n")
	for _, r := range rows {
		b = strconv.AppendInt(b, int64(r.Set), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(r.Audit), 10)
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(r.Canary), 10)
		b = append(b, ',', digit(r.Member), ',')
		b = strconv.AppendFloat(b, r.Score, 'g', -1, 64)
		b = append(b, '\n')
	}
	_, err := w.Write(b)
	return err
}

func readScoresCSV(path string, c Columns) ([]Row, error) {
	t, err := openAnyTable(path)
	if err != nil {
		return nil, err
	}
	defer t.close()
	l, err := c.layout(t.columns, "column")
	if err != nil {
		return nil, fmt.Errorf("%s: line 1: %w", path, err)
	}
	var rows []Row
	for t.next() {
		r := Row{Member: t.bit(l.member), Score: t.float(l.score)}
		for _, part := range []struct {
			to     *int
			column string
		}{{&r.Set, l.set}, {&r.Audit, l.audit}, {&r.Canary, l.canary}} {
			if part.column != "" {
				*part.to = t.number(part.column)
			}
		}
		l.complete(&r, len(rows))
		rows = append(rows, r)
	}
	if err := t.finish(len(rows)); err != nil {
		return nil, err
	}
	return rows, checkScores(rows, t.line)
}

// jsonRow is a row as it is written.
type jsonRow struct {
	Set    int     `json:"set"`
	Audit  int     `json:"audit"`
	Canary int     `json:"canary"`
	Member int     `json:"member"`
	Score  float64 `json:"score"`
}

func writeScoresJSON(w io.Writer, rows []Row) error {
	if err := checkScores(rows, rowNumber("scores")); err != nil {
		return err
	}
	out := make([]jsonRow, len(rows))
	for i, r := range rows {
		out[i] = jsonRow{r.Set, r.Audit, r.Canary, int(digit(r.Member) - '0'), r.Score}
	}
	return json.NewEncoder(w).Encode(out)
}

// checkScores checks what all formats share; where names row i in errors.
func checkScores(rows []Row, where func(i int) string) error {
	for i, r := range rows {
		if math.IsNaN(r.Score) || math.IsInf(r.Score, 0) {
			return fmt.Errorf("%s: score is %v, expected a finite number", where(i), r.Score)
		}
	}
	return checkPlaces(len(rows), func(i int) place { return place{rows[i].Set, rows[i].Audit, rows[i].Canary} }, where)
}

// place is a set, an audit and a canary.
type place [3]int

func (p place) compare(q place) int { return slices.Compare(p[:], q[:]) }

// ErrPlaceTwice is what the errors about a place that two rows have wrap.
var ErrPlaceTwice = errors.New("expected once")

// checkPlaces refuses numbers out of range, and two of n rows at one place.
func checkPlaces(n int, at func(i int) place, where func(i int) string) error {
	ascending := true
	for i := range n {
		p := at(i)
		for k, column := range scoreColumns[:3] {
			if v := p[k]; v < 0 || v > math.MaxInt32 {
				return fmt.Errorf("%s: %s is %d, expected a whole number from 0 to %d", where(i), column, v, math.MaxInt32)
			}
		}
		ascending = ascending && (i == 0 || at(i-1).compare(p) < 0)
	}
	if ascending { // as most files are
		return nil
	}
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Or(at(int(i)).compare(at(int(j))), cmp.Compare(i, j)) })
	first, again := -1, n // of the first row at a place that is taken
	for k := 1; k < n; k++ {
		if i, j := int(order[k-1]), int(order[k]); at(i) == at(j) && j < again {
			first, again = i, j
		}
	}
	if again == n {
		return nil
	}
	p := at(again)
	return fmt.Errorf("%s: set %d, audit %d, canary %d again, %w (first in %s)", where(again), p[0], p[1], p[2], ErrPlaceTwice, where(first))
}

func rowNumber(name string) func(i int) string {
	return func(i int) string { return fmt.Sprintf("%s: row %d", name, i) }
}

func digit(b bool) byte {
	if b {
		return '1'
	}
	return '0'
}

// byEnding picks what the ending of path's name stands for; plain gives the
// name whose ending counts.
func byEnding[T any](path string, plain func(path string) string, known map[string]T) (T, error) {
	ending := strings.ToLower(filepath.Ext(plain(path)))
	if v, ok := known[ending]; ok {
		return v, nil
	}
	var zero T
	return zero, fmt.Errorf("%s: the name ends in %q, expected %s", path, ending, endings(known))
}

func asIs(path string) string { return path }
