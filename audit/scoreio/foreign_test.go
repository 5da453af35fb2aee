package scoreio

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/internal/npz"
)

// TestForeignScores: the same two rows, as other programs keep them.
func TestForeignScores(t *testing.T) {
	plain := []Row{{0, 0, 0, true, .5}, {0, 0, 1, false, -1}}
	runs := []Row{{0, 0, 0, true, .5}, {0, 1, 0, false, -1}}
	other := Columns{Member: "in train", Score: "log p"}
	for _, c := range []struct {
		name, text string
		columns    Columns
		want       []Row
	}{
		{"s.csv", "member,score\n1,.5\n0,-1\n", Columns{}, plain},
		{"s.csv", "score,member\n.5,True\n-1,FALSE\n", Columns{}, plain},
		{"s.csv", "\ufeffscore,member\r\n.5,true\r\n-1,false\r\n", Columns{}, plain},
		{"s.csv", "member,score\n1,.5\n0,-1\n", Columns{Runs: true}, runs},
		{"s.csv", "canary,member,score\n7,1,.5\n7,0,-1\n", Columns{Runs: true}, []Row{{0, 0, 7, true, .5}, {0, 1, 7, false, -1}}},
		{"s.csv", "audit,member,score\n3,1,.5\n4,0,-1\n", Columns{}, []Row{{0, 3, 0, true, .5}, {0, 4, 1, false, -1}}},
		{"s.csv", "Member,id,in train,log p\nx,a,1,.5\ny,b,0,-1\n", other, plain},
		{"s.csv", "run,in train,log p\n0,1,.5\n1,0,-1\n", Columns{Audit: "run", Canary: "run", Member: "in train", Score: "log p"}, nil},
		{"s.csv", "run,in train,log p\n0,1,.5\n1,0,-1\n", Columns{Audit: "run", Member: "in train", Score: "log p"}, []Row{{0, 0, 0, true, .5}, {0, 1, 1, false, -1}}},
		{"s.tsv", "member\tscore\n1\t.5\n0\t-1\n", Columns{}, plain},
		{"S.TSV", "id\tin train\tlog p\na,b\t1\t.5\n\"c\"\t0\t-1\n", other, plain},
		{"s.json", `[{"member":1,"score":0.5},{"score":-1,"member":0}]`, Columns{}, plain},
		{"s.json", `[{"member":true,"score":0.5},{"score":-1,"member":"False"}]`, Columns{Runs: true}, runs},
		{"s.json", `[{"in train":true,"log p":0.5,"id":"a"},{"in train":false,"log p":-1,"more":[1]}]`, other, plain},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := c.columns.ReadScores(path)
		if c.want == nil {
			wantError(t, err, `"run" is named twice`, c.name)
		} else if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q as %+v: read %v, %v, want %v", c.text, c.columns, got, err, c.want)
		}
	}
	member, score := named("member", []bool{true, false}, 2), named("score", []float64{.5, -1}, 2)
	for _, c := range []struct {
		columns Columns
		arrays  []npz.Named
		want    []Row
	}{
		{Columns{}, []npz.Named{member, score}, plain},
		{Columns{Runs: true}, []npz.Named{score, member}, runs},
		{Columns{Score: "scores"}, []npz.Named{member, named("scores", []float32{.5, -1}, 2), named("x", []float64{1}, 1, 1)}, plain},
	} {
		got, err := c.columns.ReadScores(writeNPZ(t, c.arrays...))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("npz as %+v: read %v, %v, want %v", c.columns, got, err, c.want)
		}
	}
}

func TestForeignScoresRefused(t *testing.T) {
	for _, c := range []struct {
		name, text string
		columns    Columns
		parts      []string
	}{
		{"s.csv", "member,score,id\n1,1,a\n", Columns{}, []string{"line 1", `unknown column "id"`, "--score-column", "--member-column", "ignored"}},
		{"s.csv", "Member,score\n1,1\n", Columns{}, []string{`no column "member" among "Member", "score"`, "--member-column"}},
		{"s.csv", "member,score\n1,1\n", Columns{Score: "loss"}, []string{`no column "loss"`, "--score-column"}},
		{"s.csv", "member,score\n1,1\n", Columns{Canary: "id"}, []string{`no column "id"`, "--canary-column"}},
		{"s.csv", "member,score,score\n1,1,2\n", Columns{}, []string{"line 1", `column "score" is there twice`}},
		{"s.csv", "member,score\n1,1\n", Columns{Member: "score"}, []string{`column "score" is named twice`}},
		{"s.csv", "in,score\n2,1\n", Columns{Member: "in"}, []string{"line 2", `in is "2"`, "0, 1, true or false"}},
		{"s.csv", "member;score\n1;1\n", Columns{}, []string{`"member;score"`}},
		{"s.tsv", "member,score\n1,1\n", Columns{}, []string{`"member,score"`}},
		{"s.json", `[{"member":1,"score":1,"id":2}]`, Columns{}, []string{"row 0", `unknown field "id"`}},
		{"s.json", `[{"Member":1,"score":1}]`, Columns{}, []string{"row 0", `no field "member" among "Member", "score"`}},
		{"s.json", `[{"member":1,"score":1},{"member":1,"score":1,"set":0}]`, Columns{}, []string{"row 1", "the fields of row 0"}},
		{"s.json", `[{"in":1,"score":1},{"score":1}]`, Columns{Member: "in"}, []string{"row 1", `"in" is missing`}},
		{"s.json", "[{\"in\":{\"a\":\n1},\"score\":1}]", Columns{Member: "in"}, []string{"row 0", `in is {"a": 1}`}},
		{"s.json", `[{"member":1,"score":null}]`, Columns{}, []string{"row 0", "score is null", "finite"}},
		{"s.json", `[{"member":1,"score":"NaN"}]`, Columns{}, []string{"row 0", `score is "NaN"`, "finite"}},
		{"s.json", `[null]`, Columns{}, []string{"row 0", `no field "member" among none`}},
	} {
		refuse(t, c.name, c.text, func(path string) error { _, err := c.columns.ReadScores(path); return err }, c.parts...)
	}
	_, err := ReadScores(writeNPZ(t, named("member", []bool{true}, 1), named("score", []float64{1}, 1), named("id", []int64{1}, 1)))
	wantError(t, err, `unknown array "id"`, "file.npz")
	_, err = Columns{Member: "in"}.ReadScores(writeNPZ(t, named("in", []bool{true}, 1), named("score", []float64{1, 2}, 2)))
	wantError(t, err, "score", "2 entries")
}

// TestPlantedShift: a reader that takes columns by place instead of by name
// gives other rows once a file orders them in its own way.
func TestPlantedShift(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.csv")
	if err := os.WriteFile(path, []byte("score,member\n0,1\n1,0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	right, err := ReadScores(path)
	if err != nil {
		t.Fatal(err)
	}
	shifted, err := Columns{Member: "score", Score: "member"}.ReadScores(path)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(right, shifted) || !slices.Equal(right, []Row{{0, 0, 0, true, 0}, {0, 0, 1, false, 1}}) {
		t.Errorf("read %v; with columns exchanged %v", right, shifted)
	}
}

// FuzzReadScores: whatever a file holds, it is refused in one line that names
// it, or read as finite rows that a canonical file brings back.
func FuzzReadScores(f *testing.F) {
	var z bytes.Buffer
	if err := npz.Write(&z, columnsOf()...); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"set,audit,canary,member,score\n0,0,0,1,1\n", "member,score\ntrue,1\nfalse,-2e-300\n", "a,b\n1,1\n", "\ufeffmember,score\r\n1,1\r\n",
		"member\tscore\n1\t1\n", `[{"member":1,"score":1},{"member":0,"score":2}]`, `[{"a":true,"b":1,"c":null}]`, `[null]`, "", z.String(),
	} {
		for kind := range byte(8) {
			f.Add([]byte(seed), kind)
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, kind byte) {
		path := filepath.Join(dir, "scores"+[]string{".csv", ".tsv", ".json", ".npz"}[kind%4])
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		columns := Columns{Runs: kind&8 != 0}
		if kind&4 != 0 {
			columns.Member, columns.Score = "a", "b"
		}
		rows, err := columns.ReadScores(path)
		if err != nil {
			if !strings.Contains(err.Error(), "scores") || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q", err)
			}
			return
		}
		if len(rows) == 0 {
			t.Error("no rows and no error")
		}
		for _, r := range rows {
			if math.IsNaN(r.Score) || math.IsInf(r.Score, 0) {
				t.Errorf("read %v", r)
			}
		}
		canonical := filepath.Join(dir, "canonical.csv")
		if err := WriteScores(canonical, rows); err != nil {
			t.Fatal(err)
		}
		if back, err := ReadScores(canonical); err != nil || !slices.Equal(back, rows) {
			t.Errorf("%v came back as %v, %v", rows, back, err)
		}
	})
}
