package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	npyionpz "codeberg.org/sbinet/npyio/npz"
)

var xy = []Named{
	{"x", Array{[]int{2, 3, 4}, counting[float32](24)}},
	{"y", Array{[]int{2}, counting[int64](2)}},
}

func checkXY(t *testing.T, path string) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := strings.Join(r.Names(), " "); got != "x y" {
		t.Errorf("%s: arrays %s, want x y", path, got)
	}
	for _, want := range xy {
		got, err := r.Array(want.Name)
		if err != nil {
			t.Error(err)
		} else if !reflect.DeepEqual(got, want.Array) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	_, err = r.Array("z")
	if want := path + `: no array "z"; it holds x, y`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	all, err := ReadFile(path)
	if err != nil || len(all) != 2 {
		t.Errorf("ReadFile: %v, %v", all, err)
	}
}

func TestReadsNumpyNpz(t *testing.T) {
	checkXY(t, "testdata/stored.npz")
	checkXY(t, "testdata/deflated.npz")
}

func TestWriteNpz(t *testing.T) {
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		if err := Write(b, xy...); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same arrays gave other bytes")
	}
	path := filepath.Join(t.TempDir(), "xy.npz")
	if err := os.WriteFile(path, first.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	checkXY(t, path)

	z, err := zip.NewReader(bytes.NewReader(first.Bytes()), int64(first.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		if y := f.Modified.Year(); y != 1979 || len(f.Extra) > 0 { // MS-DOS's day 0
			t.Errorf("%s has the time %v", f.Name, f.Modified)
		}
	}
	var x []float32
	if err := npyionpz.Read(bytes.NewReader(first.Bytes()), "x.npy", &x); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(x, xy[0].Data) {
		t.Errorf("npyio reads %v", x)
	}
}

func TestNpzRefuses(t *testing.T) {
	good, err := os.ReadFile("testdata/stored.npz")
	if err != nil {
		t.Fatal(err)
	}
	var twice bytes.Buffer
	z := zip.NewWriter(&twice)
	for range 2 {
		if _, err := z.Create("x.npy"); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	at := bytes.Index(flipped, []byte{0, 0, 0x80, 0x3f}) // the float 1
	flipped[at] ^= 1

	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"truncated": {good[:len(good)-30], "not an npz file"},
		"empty":     {nil, "not an npz file"},
		"twice":     {twice.Bytes(), `array "x" is there twice`},
		"flipped":   {flipped, `array "x": damaged: the checksum is wrong`},
		"lying":     {withSizes(t, 1<<30, 1<<30), `array "x": damaged: 1073741824 bytes, packed into 1073741824, cannot be in a file of`},
		"bomb":      {withSizes(t, 100, 1<<30), `array "x": damaged: 1073741824 bytes, packed into 100, cannot`},
		"object":    {bytes.ReplaceAll(good, []byte("'<f4'"), []byte("'|O' ")), `array "x": npy header`},
	} {
		path := filepath.Join(t.TempDir(), name+".npz")
		if err := os.WriteFile(path, c.file, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFile(path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: %v, want it to say %q", name, err, c.want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.npz")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// withSizes is a good file whose directory claims these sizes for its first
// array.
func withSizes(t *testing.T, packed, unpacked uint32) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := Write(&file, xy...); err != nil {
		t.Fatal(err)
	}
	raw := file.Bytes()
	entry := bytes.Index(raw, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(raw[entry+20:], packed)
	binary.LittleEndian.PutUint32(raw[entry+24:], unpacked)
	return raw
}

func TestWriteNpzRefuses(t *testing.T) {
	a := Array{[]int{1}, []bool{true}}
	for _, arrays := range [][]Named{{{"", a}}, {{"x", a}, {"x", a}}, {{"x", Array{[]int{2}, []bool{true}}}}} {
		if err := Write(&bytes.Buffer{}, arrays...); err == nil {
			t.Errorf("%v: no error", arrays)
		}
	}
}
