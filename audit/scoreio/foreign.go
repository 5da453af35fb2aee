package scoreio

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Columns says what the columns of a score file are called, which may come
// from any program. A name that is empty is ours: set, audit, canary, member,
// score. Files need not have the columns set, audit and canary unless they are
// named here; without a set or an audit there is one of them, number 0, and
// without a canary every row is one, numbered from 0 on.
//
// Columns that mean nothing to us are ignored once any name is given, since
// somebody then looked at the file, or if they have no name, and refused
// otherwise.
type Columns struct {
	Set, Audit, Canary, Member, Score string
	// Loss is a column of losses, which members have the lower ones of, in place
	// of Score: a score is then minus its loss.
	Loss string
	// Runs says that every row is a training run of its own rather than one
	// canary of many in the same run: without an audit the rows are numbered
	// as audits, and without a canary there is one, number 0.
	Runs bool
}

// ReadScores reads a score file, .csv, .tsv, .json or .npz, whose columns are
// called c. Text may be packed by gzip, as in .csv.gz. A file without rows is an error, and so are NaN and infinite scores
// and two rows of one canary in one audit.
func (c Columns) ReadScores(path string) ([]Row, error) {
	read, err := byEnding(path, unpackedName, map[string]func(string, Columns) ([]Row, error){
		".csv": readScoresCSV, ".tsv": readScoresCSV, ".json": readScoresJSON, ".npz": readScoresNPZ,
	})
	if err != nil {
		return nil, err
	}
	return read(path, c)
}

// layout is where a file keeps what a row needs.
type layout struct {
	set, audit, canary string // "" if the file has no such column
	member, score      string
	runs               bool
	negate             bool // the score is a loss
}

// layout matches c with the columns that a file has; kind is what the file
// calls a column ("column", "field", "array").
func (c Columns) layout(have []string, kind string) (layout, error) {
	l := layout{runs: c.Runs, negate: c.Loss != ""}
	known := map[string]bool{}
	score := c.Score
	if l.negate {
		score = c.Loss
	}
	for _, part := range []struct {
		to               *string
		name, ours, flag string
		optional         bool
	}{
		{&l.set, c.Set, "set", "--set-column", true},
		{&l.audit, c.Audit, "audit", "--audit-column", true},
		{&l.canary, c.Canary, "canary", "--canary-column", true},
		{&l.member, c.Member, "member", "--member-column", false},
		{&l.score, score, "score", "--score-column NAME or --loss-column", false},
	} {
		name := part.name
		if name == "" {
			name = part.ours
		}
		switch {
		case slices.Contains(have, name):
			if known[name] {
				return layout{}, fmt.Errorf("%s %q is named twice, expected %ss of their own for %s", kind, name, kind, strings.Join(scoreColumns, ", "))
			}
			known[name] = true
			*part.to = name
		case !part.optional || part.name != "":
			return layout{}, fmt.Errorf("no %s %q among %s, expected %s, of which the first three may be missing (%s NAME names another)",
				kind, name, quoted(have), strings.Join(scoreColumns, ","), part.flag)
		}
	}
	if c.named() {
		return l, nil
	}
	for _, name := range have {
		if !known[name] && name != "" {
			return layout{}, fmt.Errorf("unknown %s %q, expected %s (--score-column NAME or --member-column NAME say which columns count, and the others are then ignored)",
				kind, clip(name), strings.Join(scoreColumns, ", "))
		}
	}
	return l, nil
}

func (c Columns) named() bool {
	return c.Set != "" || c.Audit != "" || c.Canary != "" || c.Member != "" || c.Score != "" || c.Loss != ""
}

// complete numbers what the file of row i left out, and makes a score of a loss.
func (l layout) complete(r *Row, i int) {
	if l.negate {
		r.Score = 0 - r.Score // 0, not -0, of 0
	}
	if l.audit == "" && l.runs {
		r.Audit = i
	}
	if l.canary == "" && !l.runs {
		r.Canary = i
	}
}

// quoted lists names; a long list is cut.
func quoted(names []string) string {
	const most = 12
	var list []string
	for i, n := range names {
		if i == most {
			list = append(list, "…")
			break
		}
		list = append(list, fmt.Sprintf("%q", clip(n)))
	}
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// membership reads 0, 1, true or false, in any case, and 0 and 1 as data frames
// write them that lack a membership somewhere, 0.0 and 1.0.
func membership(text string) (member, ok bool) {
	switch {
	case text == "0" || strings.EqualFold(text, "false"):
		return false, true
	case text == "1" || strings.EqualFold(text, "true"):
		return true, true
	}
	v, err := strconv.ParseFloat(text, 64)
	return v == 1, err == nil && (v == 0 || v == 1)
}
