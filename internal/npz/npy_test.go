package npz

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"codeberg.org/sbinet/npyio"
)

// counting is what make.py puts into an array: 0, 1, 2, ... in C order.
func counting[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](n int) []T {
	data := make([]T, n)
	for i := range data {
		data[i] = T(i)
	}
	return data
}

// numpyFiles are the good files of make.py and what they hold.
var numpyFiles = map[string]Array{
	"c_bool.npy":     {[]int{2, 3}, []bool{false, true, true, true, true, true}},
	"c_int8.npy":     {[]int{2, 3}, counting[int8](6)},
	"c_int16.npy":    {[]int{2, 3}, counting[int16](6)},
	"c_int32.npy":    {[]int{2, 3}, counting[int32](6)},
	"c_int64.npy":    {[]int{2, 3}, counting[int64](6)},
	"c_uint8.npy":    {[]int{2, 3}, counting[uint8](6)},
	"c_uint16.npy":   {[]int{2, 3}, counting[uint16](6)},
	"c_uint32.npy":   {[]int{2, 3}, counting[uint32](6)},
	"c_uint64.npy":   {[]int{2, 3}, counting[uint64](6)},
	"c_float16.npy":  {[]int{2, 3}, counting[float32](6)},
	"c_float32.npy":  {[]int{2, 3}, counting[float32](6)},
	"c_float64.npy":  {[]int{2, 3}, counting[float64](6)},
	"fortran_3d.npy": {[]int{2, 3, 4}, counting[float32](24)},
	"fortran_2d.npy": {[]int{3, 5}, counting[uint8](15)},
	"scalar.npy":     {[]int{}, []float64{0}},
	"vector.npy":     {[]int{5}, counting[int64](5)},
	"empty.npy":      {[]int{0, 3}, []float32{}},
	"version2.npy":   {[]int{2, 3, 4}, counting[float32](24)},
	"version3.npy":   {[]int{2, 3, 4}, counting[float32](24)},
}

func TestReadsNumpy(t *testing.T) {
	for name, want := range numpyFiles {
		got, err := ReadNpyFile(filepath.Join("testdata", name))
		if err != nil {
			t.Error(err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadNpy(bytes.NewReader(raw)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s without its size: %v, %v, want %v", name, got, err, want)
		}
	}
	files, err := filepath.Glob("testdata/*.npy")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := filepath.Base(f)
		if _, ok := numpyFiles[name]; !ok && badFiles[name] == "" {
			t.Errorf("%s is in no test", f)
		}
	}
}

// The planted fault: elements taken in the file's order give a wrong array.
func TestFortranOrderMatters(t *testing.T) {
	raw, err := os.ReadFile("testdata/fortran_3d.npy")
	if err != nil {
		t.Fatal(err)
	}
	ignored := bytes.Replace(raw, []byte("'fortran_order': True, "), []byte("'fortran_order': False,"), 1)
	if bytes.Equal(raw, ignored) {
		t.Fatal("the file does not say that it is in Fortran order")
	}
	a, err := ReadNpy(bytes.NewReader(ignored))
	if err != nil {
		t.Fatal(err)
	}
	if reflect.DeepEqual(a, numpyFiles["fortran_3d.npy"]) {
		t.Error("the test array is the same in both orders")
	}
}

func TestWritesAsNumpy(t *testing.T) {
	compared := 0
	for name, a := range numpyFiles {
		if strings.HasPrefix(name, "fortran") || strings.HasPrefix(name, "version") || name == "c_float16.npy" {
			continue // we write C order, version 1, and no float16
		}
		want, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := WriteNpy(&got, a); err != nil {
			t.Error(err)
		} else if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: %q, numpy writes %q", name, got.Bytes(), want)
		}
		compared++
	}
	if compared != 14 {
		t.Errorf("%d files compared, want 14", compared)
	}
}

// A second reader, not ours, agrees on what was written over several chunks.
func TestNpyioReadsOurs(t *testing.T) {
	want := counting[float64](2*chunk + 3)
	var file bytes.Buffer
	if err := WriteNpy(&file, Array{[]int{len(want)}, want}); err != nil {
		t.Fatal(err)
	}
	raw := slices.Clone(file.Bytes())
	var got []float64
	if err := npyio.Read(&file, &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Error("npyio reads other numbers")
	}
	ours, err := ReadNpy(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(ours.Data, want) {
		t.Error("we read other numbers")
	}
}

// badFiles are the files of make.py that are refused, and why.
var badFiles = map[string]string{
	"bad_big_endian.npy": `dtype ">f4" is big-endian float32, expected`,
	"bad_text.npy":       `dtype "<U2" is text, expected`,
	"bad_complex.npy":    `dtype "<c8" is complex, expected`,
	"bad_structured.npy": "dtype is structured, expected",
	"bad_object.npy":     "Python objects (pickle), which are never read; expected",
}

func TestRefusesNumpy(t *testing.T) {
	for name, want := range badFiles {
		path := filepath.Join("testdata", name)
		_, err := ReadNpyFile(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: %v, want it to say %q", name, err, want)
		}
	}
}

// npy makes a version 1 file out of a dictionary and data.
func npy(dict string, data ...byte) []byte {
	b := append([]byte(magic), 1, 0, byte(len(dict)), byte(len(dict)>>8))
	return append(append(b, dict...), data...)
}

func TestRefuses(t *testing.T) {
	good := npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2,)}", 1, 0, 2, 0)
	if _, err := ReadNpy(bytes.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for cut := range good {
		for _, size := range []int64{-1, int64(cut)} {
			if _, err := readNpy(bytes.NewReader(good[:cut]), size); err == nil || !strings.Contains(err.Error(), "truncated") {
				t.Errorf("cut after %d bytes: %v, want it to say truncated", cut, err)
			}
		}
	}
	long := append([]byte(magic), 2, 0, 0xff, 0xff, 0xff, 0xff)
	for _, c := range []struct {
		file []byte
		want string
	}{
		{append(slices.Clone(good), 0), "bytes after the data"},
		{[]byte("PK\x03\x04 and more"), "not an npy array"},
		{append([]byte(magic), 9, 0, 0, 0), "npy version 9.0, expected 1, 2 or 3"},
		{long, "npy header of 4294967295 bytes"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}"), "truncated: 0 bytes of data, expected 4398046511104"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"), "is too large"},
		{npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1152921504606846976,)}"), "is too large"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), "is too large"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "where a dimension was expected"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': 3}"), "where '(' was expected"},
		{npy("{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}"), "where True or False was expected"},
		{npy("{'descr': 'float', 'fortran_order': False, 'shape': (3,)}"), `dtype "float", expected`},
		{npy("{'descr': '=f4', 'fortran_order': False, 'shape': (3,)}"), `dtype "=f4", expected`},
		{npy("{'descr': '<f4', 'shape': (3,)}"), `no key "fortran_order"`},
		{npy("{'descr': '<f4', 'descr': '<f4', 'shape': (3,)}"), "comes twice"},
		{npy("{'descr': '<f4', 'order': 'C'}"), `unknown key "order"`},
		{npy("{'descr': '<f4"), "has no end"},
		{npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x"), "after the dictionary"},
		{npy(""), "where '{' was expected"},
	} {
		if _, err := ReadNpy(bytes.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100q: %v, want it to say %q", c.file, err, c.want)
		}
	}
}

func TestHeaderSpellings(t *testing.T) {
	want := Array{[]int{2}, []uint16{1, 2}}
	for _, dict := range []string{
		"{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }      \n",
		`{"shape":(2,),"fortran_order":True,"descr":"<u2"}`,
		"{'descr': '<u2', 'fortran_order': False, 'shape': (2L,), }\n",
	} {
		got, err := ReadNpy(bytes.NewReader(npy(dict, 1, 0, 2, 0)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v, want %v", dict, got, err, want)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, a := range []Array{
		{[]int{3}, []float32{1, 2}},
		{[]int{3}, []string{"a", "b", "c"}},
		{[]int{3}, nil},
		{[]int{-1}, []float32{}},
		{[]int{1 << 40, 1 << 40}, []float32{}},
	} {
		var w bytes.Buffer
		if err := WriteNpy(&w, a); err == nil || w.Len() > 0 {
			t.Errorf("%v: error %v and %d bytes written", a, err, w.Len())
		}
	}
}

func TestOf(t *testing.T) {
	a := Array{[]int{1}, []float64{1}}
	if x, err := Of[float64](a); err != nil || len(x) != 1 {
		t.Errorf("%v, %v", x, err)
	}
	if _, err := Of[uint8](a); err == nil || err.Error() != "dtype is float64, expected uint8" {
		t.Error(err)
	}
}

// allocated is how many bytes f takes from the heap.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestMemoryIsBounded(t *testing.T) {
	for _, size := range []int64{-1, 200} {
		file := npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}")
		var err error
		// A chunk of float64 three times: bytes, part and data.
		if got := allocated(func() { _, err = readNpy(bytes.NewReader(file), size) }); got > 4*8*chunk {
			t.Errorf("size %d: %d bytes taken for a file of %d", size, got, len(file))
		}
		if err == nil {
			t.Error("no error")
		}
	}
}

func FuzzNpy(f *testing.F) {
	files, err := filepath.Glob("testdata/*.npy")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, path := range files {
		raw, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add(npy("{'descr': '<f8', 'fortran_order': True, 'shape': (1099511627776, 0, 3)}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var a Array
		var err error
		taken := allocated(func() { a, err = readNpy(bytes.NewReader(raw), int64(len(raw))) })
		if limit := uint64(4*8*chunk + 16*len(raw)); taken > limit {
			t.Fatalf("%d bytes taken for a file of %d, at most %d are allowed", taken, len(raw), limit)
		}
		if err != nil {
			return
		}
		// What was read can be written, read and written again.
		var first, second bytes.Buffer
		if err := WriteNpy(&first, a); err != nil {
			t.Fatal(err)
		}
		b, err := ReadNpy(bytes.NewReader(first.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteNpy(&second, b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.Bytes(), second.Bytes()) { // not ==, which NaN fails
			t.Fatalf("%q, want %q", second.Bytes(), first.Bytes())
		}
	})
}

// In pieces the bytes are those of one piece.
func TestWritesInPieces(t *testing.T) {
	data := counting[float32](12)
	var whole, pieces bytes.Buffer
	if err := WriteNpy(&whole, Array{Shape: []int{4, 3}, Data: data}); err != nil {
		t.Fatal(err)
	}
	if err := StartNpy[float32](&pieces, 4, 3); err != nil {
		t.Fatal(err)
	}
	for _, cut := range [][2]int{{0, 6}, {6, 6}, {6, 12}} {
		if err := WriteElements(&pieces, data[cut[0]:cut[1]]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(whole.Bytes(), pieces.Bytes()) {
		t.Errorf("%q in pieces, %q as a whole", pieces.Bytes(), whole.Bytes())
	}
	if err := StartNpy[float32](io.Discard, -1); err == nil {
		t.Error("a negative side was written")
	}
}
