package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/internal/npz"
)

// file writes a file into a folder of the test and returns its path.
func file(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// idxBytes is an IDX file of bytes.
func idxBytes(shape []int, data []byte) []byte {
	b := []byte{0, 0, 8, byte(len(shape))}
	for _, d := range shape {
		b = binary.BigEndian.AppendUint32(b, uint32(d))
	}
	return append(b, data...)
}

func zipped(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	w.Close()
	return b.Bytes()
}

// counting is 0, 1, 2, ... as bytes.
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// Four images of 2×3 pixels, counting from 0, and their labels.
var (
	images4 = idxBytes([]int{4, 2, 3}, counting(24))
	labels4 = idxBytes([]int{4}, []byte{1, 0, 2, 1})
)

func npyBytes(t *testing.T, a npz.Array) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := npz.WriteNpy(&b, a); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func npzBytes(t *testing.T, arrays ...npz.Named) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := npz.Write(&b, arrays...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// says fails unless err says all of want.
func says(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q, want it to say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q has more than one line", err)
	}
}

// isFour fails unless s is the four images above, with pixels × scale.
func isFour(t *testing.T, s *Set, scale float32, shape ...int) {
	t.Helper()
	if fault := notFour(s, scale, shape); fault != "" {
		t.Error(fault)
	}
}

// notFour says in what s differs from the four images above; "" if in nothing.
func notFour(s *Set, scale float32, shape []int) string {
	if s.Len() != 4 || s.Classes() != 3 || !slices.Equal(s.Shape(), shape) {
		return fmt.Sprintf("%d examples of shape %v, %d classes, want 4 of %v, 3", s.Len(), s.Shape(), s.Classes(), shape)
	}
	x := make([]float32, 6)
	for i, label := range []int{1, 0, 2, 1} {
		if got := s.Example(i, x); got != label || s.Label(i) != label {
			return fmt.Sprintf("label of example %d is %d, want %d", i, got, label)
		}
		for j, v := range x {
			// Two roundings of a value of at most 0.1, or none of an integer.
			if want := float32(6*i+j) * scale; !(math.Abs(float64(v-want)) <= 2*0.1*0x1p-24) {
				return fmt.Sprintf("pixel %d of example %d is %v, want %v", j, i, v, want)
			}
		}
	}
	return ""
}

// The planted faults: sets as a wrong loader would make them.
func TestNotFourCatches(t *testing.T) {
	for name, c := range map[string]struct {
		pixels []uint8
		labels []int32
	}{
		"pixels one too early": {append([]byte{4}, counting(23)...), []int32{1, 0, 2, 1}},
		"pixels one too late":  {append(counting(24)[1:], 0), []int32{1, 0, 2, 1}},
		"labels one too early": {counting(24), []int32{1, 1, 0, 2}},
	} {
		s, err := NewBytes(name, []int{2, 3, 1}, 3, c.pixels, c.labels)
		if err != nil {
			t.Fatal(err)
		}
		if notFour(s, 1./255, []int{2, 3, 1}) == "" {
			t.Errorf("%s: passes", name)
		}
	}
	scaled, err := NewBytes("scaled", []int{2, 3, 1}, 3, counting(24), []int32{1, 0, 2, 1})
	if err != nil {
		t.Fatal(err)
	}
	if notFour(scaled, 1./255, []int{2, 3, 1}) != "" || notFour(scaled, 1, []int{2, 3, 1}) == "" || notFour(scaled, 1./256, []int{2, 3, 1}) == "" {
		t.Error("the scale is not checked")
	}
}
