package scoreio

import (
	"bytes"
	"compress/gzip"
	"errors"
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
	other, losses := Columns{Member: "in train", Score: "log p"}, Columns{Loss: "loss"}
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
		{"s.csv", "member,loss\n1,-.5\n0,1\n", losses, plain},
		{"s.csv", ",member,score,\n0,1,.5,\n1,0,-1,x\n", Columns{}, plain}, // numbered by a data frame
		{"s.csv", "member , score\n1.0, .5\n0.0, -1 \n", Columns{}, plain},
		{"s.tsv", "member\tscore\n+1e0\t.5\n-0\t-1\n", Columns{}, plain},
		{"s.csv", zipped("member,score\n1,.5\n0,-1\n"), Columns{}, plain},
		{"S.TSV.GZ", zipped("\ufeffmember\tscore\n1\t.5\n0\t-1\n"), Columns{}, plain},
		{"s.json.gz", zipped(`[{"member":1,"score":0.5},{"score":-1,"member":0}]`), Columns{}, plain},
		{"s.json", "\ufeff" + `[{"member":1.0,"score":0.5},{"score":-1,"member":0}]`, Columns{}, plain},
		{"s.json", `[{"member":1,"loss":-0.5},{"loss":1,"member":0}]`, losses, plain},
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
		{Columns{}, []npz.Named{named("member", []float32{1, 0}, 2, 1), named("score", []float64{.5, -1}, 1, 2)}, plain},
		{Columns{}, []npz.Named{named("member", []float64{1, 0}, 2), named("score", []int16{5, -1}, 2)}, []Row{{0, 0, 0, true, 5}, {0, 0, 1, false, -1}}},
		{Columns{}, []npz.Named{member, named("score", []uint64{1 << 63, 0}, 2)}, []Row{{0, 0, 0, true, 1 << 63}, {0, 0, 1, false, 0}}},
		{Columns{Loss: "loss"}, []npz.Named{member, named("loss", []float32{-.5, 1}, 2)}, plain},
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
		{"s.csv", "member;score\n1;1\n", Columns{}, []string{"line 1", "is one column", "separated by commas"}},
		{"s.csv", "member,loss\n1,1\n", Columns{}, []string{`no column "score"`, "--loss-column NAME"}},
		{"s.csv", "member,score\n1,1\n0\n", Columns{}, []string{"line 3: 1 fields, expected 2 as in the header"}},
		{"s.csv", "member,score\n1,1\n0,2,3\n", Columns{}, []string{"line 3: 3 fields, expected 2 as in the header"}},
		{"s.csv", "member,score\n1," + strings.Repeat("9", 1000) + "\n", Columns{}, []string{"line 2", `999…", expected a finite`}},
		{"s.csv", "\xff\xfem\x00", Columns{}, []string{"UTF-16", "expected UTF-8"}},
		{"s.csv", zipped("member,score\n1,.5\n0,-1\n")[:30], Columns{}, []string{"unexpected EOF"}},
		{"s.csv", "\x1f\x8b", Columns{}, []string{"s.csv: "}},
		{"s.txt.gz", "", Columns{}, []string{`the name ends in ".txt", expected .csv`}},
		{"s.json", `[{"member":1,"member":0,"score":1}]`, Columns{}, []string{"row 0", `field "member" is there twice`}},
		{"s.json", `[1]`, Columns{}, []string{"row 0", "it is no object"}},
		{"s.json", `[{"Member":1,"score":1}]`, Columns{}, []string{"row 0", `no field "member" among "Member", "score"`}},
		{"s.json", `[{"member":1,"score":1},{"member":1,"score":1,"set":0}]`, Columns{}, []string{"row 1", "the fields of row 0"}},
		{"s.json", `[{"in":1,"score":1},{"score":1}]`, Columns{Member: "in"}, []string{"row 1", `"in" is missing`}},
		{"s.json", "[{\"in\":{\"a\":\n1},\"score\":1}]", Columns{Member: "in"}, []string{"row 0", `in is {"a": 1}`}},
		{"s.json", `[{"member":1,"score":null}]`, Columns{}, []string{"row 0", "score is null", "finite"}},
		{"s.json", `[{"member":1,"score":"NaN"}]`, Columns{}, []string{"row 0", `score is "NaN"`, "finite"}},
		{"s.json", `[null]`, Columns{}, []string{"row 0", "it is no object"}},
		{"s.json", `[{}]`, Columns{}, []string{"row 0", `no field "member" among none`}},
	} {
		refuse(t, c.name, c.text, func(path string) error { _, err := c.columns.ReadScores(path); return err }, c.parts...)
	}
	_, err := ReadScores(writeNPZ(t, named("member", []bool{true}, 1), named("score", []float64{1}, 1), named("id", []int64{1}, 1)))
	wantError(t, err, `unknown array "id"`, "file.npz")
	_, err = Columns{Member: "in"}.ReadScores(writeNPZ(t, named("in", []bool{true}, 1), named("score", []float64{1, 2}, 2)))
	wantError(t, err, "score", "2 entries")
}

// zipped is text as gzip packs it.
func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

func TestFoldersAreNoScores(t *testing.T) {
	for _, ending := range []string{".csv", ".tsv", ".json", ".npz"} {
		path := filepath.Join(t.TempDir(), "s"+ending)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := ReadScores(path)
		wantError(t, err, path)
		if ending != ".npz" {
			wantError(t, err, "is a folder, expected a file")
		}
	}
	// Nothing is written that its name says is packed.
	wantError(t, WriteScores(filepath.Join(t.TempDir(), "s.csv.gz"), []Row{{}}), `".gz"`)
}

// TestPlacesTwice: wherever the rows stand, of all places that are taken twice
// the one is told whose second row comes first.
func TestPlacesTwice(t *testing.T) {
	for _, c := range []struct{ rows, want string }{
		{"0,0,0 0,0,1 0,1,0 1,0,0", ""},
		{"1,0,0 0,0,2 0,0,1 0,1,0", ""},
		{"0,0,1 0,0,1", "line 3: set 0, audit 0, canary 1 again, expected once (first in"},
		{"0,0,5 0,0,1 0,0,3 0,0,3 0,0,1 0,0,1", "line 5: set 0, audit 0, canary 3 again"},
		{"2,0,0 0,1,0 0,0,2 2,0,0 0,0,2", "line 5: set 2, audit 0, canary 0 again"},
	} {
		path := filepath.Join(t.TempDir(), "s.csv")
		text := "set,audit,canary,member,score\n" + strings.ReplaceAll(c.rows, " ", ",1,2\n") + ",1,2\n"
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadScores(path)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.rows, err)
			}
			continue
		}
		wantError(t, err, c.want)
		if !errors.Is(err, ErrPlaceTwice) {
			t.Errorf("%s: %v is no ErrPlaceTwice", c.rows, err)
		}
	}
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
		"member\tscore\n1\t1\n", `[{"member":1,"score":1},{"member":0,"score":2}]`, `[{"a":true,"b":1,"c":null}]`, `[null]`, "", z.String(), zipped("member,score\n1,1\n"), `[{"a":1,"a":0,"b":1}]`,
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
