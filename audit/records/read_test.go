package records

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	b := []byte(text)
	if strings.HasSuffix(name, ".gz") {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		w.Write(b)
		w.Close()
		b = zipped.Bytes()
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	want := "[a 1] [u v] [one, \"two\" three é] [[x] [y z]]"
	wantOne := strings.ReplaceAll(want, "[y z]", "[y]")
	for name, c := range map[string]struct{ text, want string }{
		"a.jsonl":    {`{"id":"a","user":"u","text":"one, \"two\"","label":"x"}` + "\n\n" + `{"id":1,"user":"v","text":"three é","label":["y","z"]}`, want},
		"a.jsonl.gz": {`{"id":"a","user_id":"u","review":"one, \"two\"","labels":["x"]}` + "\n" + `{"labels":["y","z"],"id":1,"user_id":"v","review":"three é"}` + "\n", want},
		"a.json":     {`[{"id":"a","client":"u","text":"one, \"two\"","label":"x"},{"id":1,"client":"v","text":"three é","label":["y","z"]}]`, want},
		"a.csv":      {"\xef\xbb\xbfid,user,text,label\r\na,u,\"one, \"\"two\"\"\",x\r\n1,v,three é,y\r\n", wantOne},
		"a.tsv":      {"id\tuser\ttext\tlabel\na\tu\tone, \"two\"\tx\n1\tv\tthree é\ty\n", wantOne},
		"b.txt":      {"hello\n\nworld\n", "[0 1] [] [hello world] []"},
		"b.json":     {`["hello","world"]`, "[0 1] [] [hello world] []"},
	} {
		got, err := Read(put(t, name, c.text), Columns{})
		if err != nil {
			t.Error(err)
			continue
		}
		if s := fmt.Sprint(got.ID, got.User, got.Text, got.Label); s != c.want {
			t.Errorf("%s: %s, expected %s", name, s, c.want)
		}
	}
	got, err := Read(put(t, "c.csv", "who,what\nu,x\n"), Columns{User: "who", Text: "what"})
	if err != nil || got.User[0] != "u" || got.Text[0] != "x" || got.ID[0] != "0" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for want, c := range map[string]struct{ name, text string }{
		"a.pkl: expected a name":             {"a.pkl", "x"},
		"a.jsonl: line 2: no \"text\"":       {"a.jsonl", "{\"text\":\"x\"}\n{\"txt\":\"y\"}"},
		"b.jsonl: line 1: invalid":           {"b.jsonl", "{x}"},
		"line 3: the text is empty":          {"c.jsonl", "{\"text\":\"x\"}\n\n{\"text\":\" \"}"},
		"line 2: id \"a\" is that of line 1": {"d.jsonl", "{\"id\":\"a\",\"text\":\"x\"}\n{\"id\":\"a\",\"text\":\"y\"}"},
		"line 1: the text is not valid":      {"e.txt", "ab\xff"},
		"starts with {, expected a list":     {"f.json", "{}"},
		"column \"text\" holds {":            {"g.jsonl", `{"text":{"a":1}}`},
		"column \"text\" is a list":          {"h.jsonl", `{"text":["a","b"]}`},
		"column \"text\" is 5, expected":     {"o.jsonl", `{"text":5}`},
		"i.csv: empty":                       {"i.csv", ""},
		"line 3: 3 fields":                   {"j.csv", "id,text\na,say \"x\"\nb,y,z\n"},
		"wrong number of fields":             {"k.csv", "id,text\na,b,c\n"},
		"parse error on line 2":              {"p.csv", "id,text\na,\"b\n"},
		"line 2: no user":                    {"l.csv", "user,text\n,b\n"},
		"m.jsonl: no records":                {"m.jsonl", "\n\n"},
		"gzip":                               {"n.jsonl.gz.gz", "x"},
	} {
		path := put(t, c.name, c.text)
		if want == "gzip" {
			path = filepath.Join(t.TempDir(), "bad.jsonl.gz")
			os.WriteFile(path, []byte("not zipped"), 0o644)
		}
		if _, err := Read(path, Columns{}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := Read(put(t, "a.csv", "a,b\n1,2\n"), Columns{Text: "c"}); err == nil || !strings.Contains(err.Error(), `no column "c" for the text, expected one of a, b`) {
		t.Errorf("%v", err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.csv"), Columns{}); err == nil {
		t.Error("no file: no error")
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range []string{`{"id":1,"text":"x"}`, "id,text\n1,\"x\"\"y\"\n", `["a",{"text":[1,2]}]`, "a\tb\n\"\t\n"} {
		for kind := range 4 {
			f.Add(s, kind)
		}
	}
	f.Fuzz(func(t *testing.T, text string, kind int) {
		r := strings.NewReader(text)
		var table *Table
		var err error
		switch kind & 3 {
		case 0:
			table, err = readLines(r, Columns{})
		case 1:
			table, err = readList(r, Columns{})
		case 2:
			table, err = readCSV(r, ',', Columns{})
		case 3:
			table, err = readPlain(r, Columns{})
		}
		if err == nil && (table.Len() == 0 || table.Text != nil && len(table.Text) != table.Len() || table.User != nil && len(table.User) != table.Len()) {
			t.Errorf("%+v", table)
		}
	})
}

// TestReadEmpty: where empty texts are allowed, each line keeps its place.
func TestReadEmpty(t *testing.T) {
	for name, text := range map[string]string{"a.txt": "x\n\ny\n", "a.csv": "id,text\n1,x\n2,\n3,y\n", "a.jsonl": `{"text":"x"}` + "\n" + `{"text":""}` + "\n" + `{"text":"y"}`} {
		got, err := Read(put(t, name, text), Columns{Empty: true})
		if err != nil || fmt.Sprintf("%q", got.Text) != `["x" "" "y"]` {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if got, err := Read(put(t, name, text), Columns{}); err == nil && got.Len() != 2 {
			t.Errorf("%s: an empty text was taken: %q", name, got.Text)
		}
	}
}
