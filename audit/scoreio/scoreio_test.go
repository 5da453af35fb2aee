package scoreio

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
)

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		if err := checkRoundTrip(t, dir, WriteScores); err != nil {
			t.Error(err)
		}
	})
}

// checkRoundTrip writes scores with random bits in all formats and wants the
// same bits back.
func checkRoundTrip(t *rapid.T, dir string, write func(string, []Row) error) error {
	n := rapid.IntRange(1, 20).Draw(t, "n")
	rows := make([]Row, n)
	for i := range rows {
		score := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		if math.IsNaN(score) || math.IsInf(score, 0) {
			score = -0.1
		}
		rows[i] = Row{Set: i % 3, Audit: i / 3 % 2, Canary: i, Member: rapid.Bool().Draw(t, "member"), Score: score}
	}
	for _, ending := range []string{".csv", ".json", ".npz"} {
		path := filepath.Join(dir, "scores"+ending)
		if err := write(path, rows); err != nil {
			return err
		}
		got, err := ReadScores(path)
		if err != nil {
			return err
		}
		same := slices.EqualFunc(rows, got, func(a, b Row) bool {
			return a.Set == b.Set && a.Audit == b.Audit && a.Canary == b.Canary && a.Member == b.Member &&
				math.Float64bits(a.Score) == math.Float64bits(b.Score)
		})
		if !same {
			return fmt.Errorf("%s: wrote %v, read %v", ending, rows, got)
		}
	}
	return nil
}

// TestPlantedRounding: scores printed with 16 digits do not all come back.
func TestPlantedRounding(t *testing.T) {
	dir := t.TempDir()
	lossy := func(path string, rows []Row) error {
		if filepath.Ext(path) != ".csv" {
			return WriteScores(path, rows)
		}
		text := strings.Join(scoreColumns, ",") + "\n"
		for _, r := range rows {
			text += fmt.Sprintf("%d,%d,%d,%c,%.16g\n", r.Set, r.Audit, r.Canary, digit(r.Member), r.Score)
		}
		return os.WriteFile(path, []byte(text), 0o644)
	}
	caught := false
	rapid.Check(t, func(t *rapid.T) { caught = caught || checkRoundTrip(t, dir, lossy) != nil })
	if !caught {
		t.Error("nobody notices scores with 16 digits")
	}
}

func TestCSVBytes(t *testing.T) {
	var b bytes.Buffer
	s := audit.Scores{Value: []float64{-0.5, -1e-300}, Member: []bool{true, false}}
	if err := WriteScoresCSV(&b, Rows(2, 1, s)); err != nil {
		t.Fatal(err)
	}
	const want = "set,audit,canary,member,score\n2,1,0,1,-0.5\n2,1,1,0,-1e-300\n"
	if b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
	back := Scores(Rows(2, 1, s))
	if !slices.Equal(back.Value, s.Value) || !slices.Equal(back.Member, s.Member) {
		t.Errorf("Scores(Rows(s)) = %v", back)
	}
}

// refuse writes text to a file and wants an error that says all of parts.
func refuse(t *testing.T, name, text string, read func(path string) error, parts ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	wantError(t, read(path), append(parts, name)...)
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", parts)
		return
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error of several lines: %v", err)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q does not say %q", err, p)
		}
	}
}

func TestBadScoreFiles(t *testing.T) {
	read := func(path string) error { _, err := ReadScores(path); return err }
	const head = "set,audit,canary,member,score\n"
	for text, parts := range map[string][]string{
		"":                                  {"empty"},
		head:                                {"no rows"},
		"a,b\n":                             {"line 1", `"a", "b"`, "set,audit,canary,member,score", "--member-column"},
		head + "0,0,0,1,1\n0,0,1,2,1\n":     {"line 3", "member", `"2"`, "0, 1, true or false"},
		head + "0,0,0,1,1\n\n0,0,1,yes,1\n": {"line 4", "member", `"yes"`},
		head + "0,0,0,1,NaN\n":              {"line 2", "score", `"NaN"`, "finite"},
		head + "0,0,0,1,-Inf\n":             {"line 2", "score", `"-Inf"`, "finite"},
		head + "0,0,0,1,1e999\n":            {"line 2", "score", "finite"},
		head + "0,0,0,1,\n":                 {"line 2", "score", `""`},
		head + "-1,0,0,1,1\n":               {"line 2", "set", `"-1"`},
		head + "0,x,0,1,1\n":                {"line 2", "audit", `"x"`},
		head + "0,0,3000000000,1,1\n":       {"line 2", "canary", "3000000000"},
		head + "0,0,0,1\n":                  {"line 2", "fields"},
		head + "0,0,5,1,1\n1,0,5,1,1\n0,0,5,0,2\n": {"line 4", "canary 5", "line 2"},
		head + "0,0,0,\"1,1\n":                     {"quote"},
	} {
		refuse(t, "scores.csv", text, read, parts...)
	}
	for text, parts := range map[string][]string{
		"":   {"JSON list"},
		"{}": {"JSON list"},
		"[]": {"no rows"},
		`[{"set":0,"audit":0,"canary":0,"member":1}]`:                                                               {"row 0", `no field "score"`},
		`[{"set":0,"audit":0,"canary":0,"member":2,"score":1}]`:                                                     {"row 0", "member is 2"},
		`[{"set":0,"audit":0,"canary":0,"member":1,"score":1,"sore":1}]`:                                            {"row 0", "sore"},
		`[{"set":0,"audit":0,"canary":0,"member":1,"score":1}`:                                                      {"does not end"},
		`[{"set":0,"audit":0,"canary":0,"member":1,"score":1}] x`:                                                   {"more data"},
		`[{"set":0,"audit":0,"canary":-1,"member":1,"score":1}]`:                                                    {"row 0", "canary is -1"},
		`[{"set":0,"audit":0,"canary":0,"member":1,"score":1},{"set":0,"audit":0,"canary":0,"member":0,"score":2}]`: {"row 1", "row 0"},
	} {
		refuse(t, "scores.json", text, read, parts...)
	}
	refuse(t, "scores.npz", "not a zip", read)
	refuse(t, "scores.txt", head, read, ".csv", ".json", ".npz")
	wantError(t, read(filepath.Join(t.TempDir(), "absent.csv")), "absent.csv")
}

// columnsOf is the arrays of a good score file of two rows.
func columnsOf(replace ...npz.Named) []npz.Named {
	two := []int{2}
	arrays := []npz.Named{
		{Name: "set", Array: npz.Array{Shape: two, Data: []int64{0, 0}}},
		{Name: "audit", Array: npz.Array{Shape: two, Data: []uint8{0, 0}}},
		{Name: "canary", Array: npz.Array{Shape: two, Data: []int32{0, 1}}},
		{Name: "member", Array: npz.Array{Shape: two, Data: []bool{true, false}}},
		{Name: "score", Array: npz.Array{Shape: two, Data: []float32{.5, -1}}},
	}
	for _, r := range replace {
		for i := range arrays {
			if arrays[i].Name == r.Name {
				arrays[i] = r
			}
		}
	}
	return arrays
}

func writeNPZ(t *testing.T, arrays ...npz.Named) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.npz")
	var b bytes.Buffer
	if err := npz.Write(&b, arrays...); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func named(name string, data any, shape ...int) npz.Named {
	return npz.Named{Name: name, Array: npz.Array{Shape: shape, Data: data}}
}

func TestScoresFromOtherNumpyTypes(t *testing.T) {
	rows, err := ReadScores(writeNPZ(t, columnsOf()...))
	if err != nil {
		t.Fatal(err)
	}
	if want := []Row{{0, 0, 0, true, .5}, {0, 0, 1, false, -1}}; !slices.Equal(rows, want) {
		t.Errorf("read %v, want %v", rows, want)
	}
}

func TestBadScoreArrays(t *testing.T) {
	for _, c := range []struct {
		array npz.Named
		parts []string
	}{
		{named("set", []int64{0, -1}, 2), []string{"set", "entry 1", "-1"}},
		{named("set", []float64{0, 1}, 2), []string{"set", "float64", "integers"}},
		{named("audit", []uint8{0, 0, 0}, 3), []string{"audit", "3 entries", "2"}},
		{named("canary", []int64{0, 0}, 2), []string{"row 1", "row 0"}},
		{named("canary", []int64{0, 1, 2, 3}, 2, 2), []string{"canary", "[2 2]", "one dimension"}},
		{named("canary", []uint64{0, 1 << 63}, 2), []string{"canary", "entry 1"}},
		{named("member", []int64{0, 2}, 2), []string{"member", "entry 1 is 2", "0 or 1"}},
		{named("member", []float32{0, .5}, 2), []string{"member", "entry 1 is 0.5", "0 or 1"}},
		{named("member", []float64{0, math.NaN()}, 2), []string{"member", "entry 1 is NaN", "0 or 1"}},
		{named("score", []bool{false, true}, 2), []string{"score", "bool", "numbers"}},
		{named("score", []float64{0, math.NaN()}, 2), []string{"row 1", "NaN", "finite"}},
	} {
		_, err := ReadScores(writeNPZ(t, columnsOf(c.array)...))
		wantError(t, err, append(c.parts, "file.npz")...)
	}
	_, err := ReadScores(writeNPZ(t, columnsOf()[:4]...))
	wantError(t, err, "score")
}

// TestWriteRefuses: what could not be read back is not written, and the file
// that was there stays.
func TestWriteRefuses(t *testing.T) {
	good := []Row{{0, 0, 0, true, 1}}
	for _, ending := range []string{".csv", ".json", ".npz"} {
		path := filepath.Join(t.TempDir(), "scores"+ending)
		if err := WriteScores(path, good); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]Row{
			{{0, 0, 0, true, math.NaN()}},
			{{0, 0, 0, true, math.Inf(1)}},
			{{-1, 0, 0, true, 1}},
			{{0, 0, 0, true, 1}, {0, 0, 0, false, 2}},
		} {
			if err := WriteScores(path, bad); err == nil {
				t.Errorf("%s: wrote %v", ending, bad)
			}
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: the old file did not survive: %v", ending, err)
		}
	}
	wantError(t, WriteScores(filepath.Join(t.TempDir(), "scores.xls"), good), ".xls", ".csv")
}

func TestLosses(t *testing.T) {
	read := func(path string) error { _, err := ReadLosses(path); return err }
	dir := t.TempDir()
	for text, want := range map[string][]Loss{
		"set,audit,canary,loss\n0,1,2,0.5\n":           {{"", 0, 1, 2, .5}},
		"plan,set,audit,canary,loss\nab12,0,1,2,0.5\n": {{"ab12", 0, 1, 2, .5}},
		"\ufeffset,audit,canary,loss\r\n0,1,2,.5\r\n":  {{"", 0, 1, 2, .5}},
	} {
		path := filepath.Join(dir, "losses.csv")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := ReadLosses(path)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: read %v, %v", text, got, err)
		}
	}
	const head = "set,audit,canary,loss\n"
	refuse(t, "losses.csv", head, read, "no rows")
	refuse(t, "losses.csv", head+"0,0,0,nan\n", read, "line 2", "loss", "finite")
	refuse(t, "losses.csv", head+"0,0,0,1\n0,0,0,1\n", read, "line 3", "line 2")
	refuse(t, "losses.csv", "set,audit,canary,score\n", read, "line 1", "plan,set,audit,canary,loss")
	refuse(t, "losses.json", "[]", read, ".csv", ".npz")

	path := writeNPZ(t, named("set", []int64{0}, 1), named("audit", []int64{1}, 1), named("canary", []int64{2}, 1), named("loss", []float32{.5}, 1))
	got, err := ReadLosses(path)
	if err != nil || !slices.Equal(got, []Loss{{"", 0, 1, 2, .5}}) {
		t.Errorf("npz: read %v, %v", got, err)
	}
	wantError(t, read(writeNPZ(t, named("set", []int64{0}, 1))), "audit")
}

func TestRunLosses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "losses.csv")
	if err := os.WriteFile(path, []byte("canary,loss\n1,.25\n0,4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRunLosses(path, 2)
	if err != nil || !slices.Equal(got, []float64{4, .25}) {
		t.Errorf("read %v, %v", got, err)
	}
	read := func(path string) error { _, err := ReadRunLosses(path, 2); return err }
	const head = "canary,loss\n"
	refuse(t, "losses.csv", head, read, "no rows")
	refuse(t, "losses.csv", head+"0,1\n", read, "canary 1")
	refuse(t, "losses.csv", head+"0,1\n0,2\n", read, "line 3", "once")
	refuse(t, "losses.csv", head+"0,1\n2,2\n", read, "line 3", "from 0 to 1")
	refuse(t, "losses.csv", head+"0,1\n1,Inf\n", read, "line 3", "finite")
}

// data is a training set of n examples of shape [2 1] in 3 classes.
type data int

func (d data) Len() int                       { return int(d) }
func (d data) Shape() []int                   { return []int{2, 1} }
func (d data) Classes() int                   { return 3 }
func (d data) Example(i int, x []float32) int { x[0], x[1] = 0, 0; return 0 }

func TestCanariesRoundTrip(t *testing.T) {
	sets := []*audit.CanarySet{
		{Method: "m", Set: 0, Size: []int{2, 1}, X: []float32{1, 2, 3, 4}, Y: []int32{0, 2}, Removed: []int{4, -1}, K: 3},
		{Method: "m", Set: 5, Size: []int{2, 1}, X: []float32{5, 6}, Y: []int32{1}, Removed: []int{4}, K: 3},
	}
	var b, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&b, &again} {
		if err := WriteCanaries(w, sets...); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("the same canaries gave other bytes")
	}
	path := filepath.Join(t.TempDir(), "canaries.npz")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := ReadCanaries(path, data(5), "m")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v %+v", *got[0], *got[1]) != fmt.Sprintf("%+v %+v", *sets[0], *sets[1]) || len(got) != 2 {
		t.Errorf("wrote %+v %+v, read %+v %+v", *sets[0], *sets[1], *got[0], *got[1])
	}
}

func TestCanariesOfOthers(t *testing.T) {
	// No set array, no channel dimension, small integer types.
	path := writeNPZ(t, named("images", []float32{1, 2, 3, 4}, 2, 2), named("labels", []uint8{2, 1}, 2), named("removed", []int16{-1, 0}, 2))
	got, err := ReadCanaries(path, data(2), "theirs")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Method != "theirs" || got[0].Set != 0 || got[0].Len() != 2 || got[0].Y[0] != 2 || got[0].Removed[1] != 0 {
		t.Errorf("read %+v", got[0])
	}
}

func TestBadCanaries(t *testing.T) {
	images, labels, removed := named("images", []float32{1, 2, 3, 4}, 2, 2, 1), named("labels", []int64{0, 1}, 2), named("removed", []int64{0, 1}, 2)
	for _, c := range []struct {
		arrays []npz.Named
		parts  []string
	}{
		{[]npz.Named{labels, removed}, []string{"images"}},
		{[]npz.Named{images, removed}, []string{"labels"}},
		{[]npz.Named{images, labels}, []string{`no array "removed"`, "-1 for none"}},
		{[]npz.Named{named("images", []float64{1, 2, 3, 4}, 2, 2, 1), labels, removed}, []string{"images", "float64", "float32"}},
		{[]npz.Named{named("images", []float32{1, 2, 3, 4}, 1, 4), labels, removed}, []string{"[1 4]", "[m 2 1]"}},
		{[]npz.Named{named("images", []float32{}, 0, 2, 1), labels, removed}, []string{"no canaries"}},
		{[]npz.Named{named("images", []float32{1, 2, 3, float32(math.NaN())}, 2, 2, 1), labels, removed}, []string{"canary 1", "pixel 1", "NaN"}},
		{[]npz.Named{images, named("labels", []int64{0, 3}, 2), removed}, []string{"canary 1", "label is 3", "0 to 2"}},
		{[]npz.Named{images, named("labels", []int64{0, -1}, 2), removed}, []string{"canary 1", "label is -1"}},
		{[]npz.Named{images, named("labels", []float32{0, 1}, 2), removed}, []string{"labels", "float32", "integers"}},
		{[]npz.Named{images, named("labels", []int64{0, 1, 2}, 3), removed}, []string{"labels", "3 entries", "2"}},
		{[]npz.Named{images, labels, named("removed", []int64{0, 2}, 2)}, []string{"canary 1", "removed is 2", "0 to 1"}},
		{[]npz.Named{images, labels, named("removed", []int64{0, -2}, 2)}, []string{"canary 1", "removed is -2"}},
		{[]npz.Named{images, labels, named("removed", []int64{1, 1}, 2)}, []string{"canaries 0 and 1", "example 1"}},
		{[]npz.Named{images, labels, removed, named("set", []int64{0, -1}, 2)}, []string{"set", "entry 1"}},
		{[]npz.Named{named("images", make([]float32, 6), 3, 2, 1), named("labels", []int64{0, 0, 0}, 3), named("removed", []int64{-1, -1, -1}, 3)}, []string{"3 canaries", "at most the 2"}},
	} {
		_, err := ReadCanaries(writeNPZ(t, c.arrays...), data(2), "m")
		wantError(t, err, append(c.parts, "file.npz")...)
	}
	if err := WriteCanaries(&bytes.Buffer{}); err == nil {
		t.Error("wrote no sets")
	}
	a := &audit.CanarySet{Size: []int{1}, X: []float32{0}, Y: []int32{0}, Removed: []int{-1}, K: 1}
	b := &audit.CanarySet{Set: 1, Size: []int{2}, X: []float32{0, 0}, Y: []int32{0}, Removed: []int{-1}, K: 1}
	wantError(t, WriteCanaries(&bytes.Buffer{}, a, b), "set 1", "[2]", "[1]")
	a.Removed = nil
	wantError(t, WriteCanaries(&bytes.Buffer{}, a), "set 0")
}

// TestFullDisk: a disk that fills up while scores are written leaves the old
// file and an error that names it.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "scores.csv")
	rows := []Row{{0, 0, 0, true, 1}, {0, 0, 1, false, 2}}
	if err := WriteScores(path, rows[:1]); err != nil {
		t.Fatal(err)
	}
	err := writeScores(atomicfile.FullAfter(40), path, rows)
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v, want ENOSPC", err)
	}
	wantError(t, err, "scores.csv")
	if got, err := ReadScores(path); err != nil || !slices.Equal(got, rows[:1]) {
		t.Errorf("the old file holds %v, %v", got, err)
	}
}
