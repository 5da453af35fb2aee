package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

type unit struct {
	Set  int     `json:"set"`
	AUC  float64 `json:"auc"`
	Note string  `json:"note,omitempty"`
}

var units = []unit{{1, 0.1, "<first>\n"}, {2, 1.0 / 3, ""}, {3, math.Nextafter(1, 2), "x"}}

// filled is a journal with all units in it.
func filled(t *testing.T) (path string, content []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal.jsonl")
	j, err := Open[unit](path, "hash-a")
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range units {
		if err := j.Append(u); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	content, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content
}

// rewrite replaces the file's content and opens it.
func rewrite(t *testing.T, path string, content []byte) (*Journal[unit], error) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	j, err := Open[unit](path, "hash-a")
	if err == nil {
		t.Cleanup(func() { j.Close() })
	}
	return j, err
}

func TestReplay(t *testing.T) {
	path, content := filled(t)
	j, err := rewrite(t, path, content)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(j.Records(), units) || j.Dropped() != "" {
		t.Errorf("records %v, dropped %q", j.Records(), j.Dropped())
	}
}

func TestOtherConfig(t *testing.T) {
	path, content := filled(t)
	_, err := Open[unit](path, "hash-b")
	if err == nil || !strings.Contains(err.Error(), "hash-a") || !strings.Contains(err.Error(), "hash-b") || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	after, _ := os.ReadFile(path)
	if !bytes.Equal(after, content) {
		t.Error("the journal was changed")
	}
}

// A kill may cut the file at any byte. What is whole is kept, the rest is
// dropped and reported, and after it is done again the file is the same.
func TestCutAnywhere(t *testing.T) {
	path, content := filled(t)
	for cut := range len(content) + 1 {
		j, err := rewrite(t, path, content[:cut])
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", cut, err)
		}
		whole := bytes.Count(content[:cut], []byte("\n"))
		kept := max(whole-1, 0) // the header is no record
		if len(j.Records()) != kept || kept > 0 && !reflect.DeepEqual(j.Records(), units[:kept]) {
			t.Fatalf("cut after %d bytes: records %v, want the first %d", cut, j.Records(), kept)
		}
		clean := cut == 0 || content[cut-1] == '\n'
		if named := strings.Contains(j.Dropped(), fmt.Sprintf("line %d of %s", whole+1, path)); named == clean {
			t.Fatalf("cut after %d bytes: reported as %q", cut, j.Dropped())
		}
		for _, u := range units[kept:] {
			if err := j.Append(u); err != nil {
				t.Fatal(err)
			}
		}
		j.Close()
		if again, _ := os.ReadFile(path); !bytes.Equal(again, content) {
			t.Fatalf("cut after %d bytes: the finished journal differs", cut)
		}
	}
}

// Any flipped bit is found: in the last line it costs that record, before it
// is an error with the line's number, and the file is left alone.
func TestFlippedBits(t *testing.T) {
	path, content := filled(t)
	last := bytes.LastIndexByte(content[:len(content)-1], '\n') + 1
	for i := range content {
		bad := bytes.Clone(content)
		bad[i] ^= 1 << (i % 8)
		j, err := rewrite(t, path, bad)
		if i >= last-1 {
			want := len(units) - 1
			if i == last-1 { // without this line end, the last two lines are one
				want--
			}
			if err != nil || len(j.Records()) != want || j.Dropped() == "" {
				t.Fatalf("byte %d: %v", i, err)
			}
			j.Close()
			continue
		}
		line := fmt.Sprintf("line %d is damaged", bytes.Count(content[:i], []byte("\n"))+1)
		if err == nil || !strings.Contains(err.Error(), line) || !strings.Contains(err.Error(), path) {
			t.Fatalf("byte %d: %v, want %q", i, err, line)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(after, bad) {
			t.Fatalf("byte %d: the damaged journal was changed", i)
		}
	}
}

// The planted faults: whole lines with right checksums of their own, but lost,
// moved or doubled.
func TestLinesMoved(t *testing.T) {
	path, content := filled(t)
	l := bytes.SplitAfter(content, []byte("\n"))
	for name, lines := range map[string][][]byte{
		"lost":    {l[0], l[2], l[3]},
		"swapped": {l[0], l[2], l[1], l[3]},
		"doubled": {l[0], l[1], l[1], l[2]},
		"no head": {l[1], l[2], l[3]},
	} {
		if _, err := rewrite(t, path, bytes.Join(lines, nil)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	for _, text := range []string{"my\nnotes\n", "notes\n", "notes", "\n"} {
		_, err := rewrite(t, path, []byte(text))
		if after, _ := os.ReadFile(path); err == nil || string(after) != text {
			t.Errorf("%q was taken for a journal: %v", text, err)
		}
	}
	if _, err := Open[unit](filepath.Join(path, "journal"), ""); err == nil {
		t.Error("no error for a path below a file")
	}
}

type fullDisk struct {
	f    *os.File
	left int
}

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(d.left, len(p))
	d.left -= n
	if n, err := d.f.Write(p[:n]); err != nil {
		return n, err
	}
	if n < len(p) {
		return n, syscall.ENOSPC
	}
	return n, nil
}

func TestFullDisk(t *testing.T) {
	path, content := filled(t)
	for room := range 30 {
		j, err := rewrite(t, path, content)
		if err != nil {
			t.Fatal(err)
		}
		j.out = &fullDisk{j.file, room}
		if err := j.Append(unit{Set: 4}); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
			t.Fatalf("room for %d bytes: %v", room, err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(after, content) {
			t.Fatalf("room for %d bytes: the journal was changed", room)
		}
		j.out = j.file // space again
		if err := j.Append(unit{Set: 4}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		if j, err = Open[unit](path, "hash-a"); err != nil || len(j.Records()) != 4 {
			t.Fatalf("room for %d bytes: %v after the retry", room, err)
		}
		j.Close()
	}
}

func TestInUse(t *testing.T) {
	path, content := filled(t)
	for _, p := range []string{path, path + ".none"} {
		if err := Free(p); err != nil {
			t.Error(err)
		}
	}
	if _, err := rewrite(t, path, content); err != nil { // open until the test ends
		t.Fatal(err)
	}
	if _, err := Open[unit](path, "hash-a"); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Error(err)
	}
	if err := Free(path); err == nil || !strings.Contains(err.Error(), path+": in use by another process") {
		t.Error(err)
	}
}

func TestUnencodable(t *testing.T) {
	path, content := filled(t)
	j, err := rewrite(t, path, content)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Append(unit{AUC: math.NaN()}); err == nil {
		t.Error("NaN was written")
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(after, content) {
		t.Error("the journal was changed")
	}
}
