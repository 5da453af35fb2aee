package hf

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// safetensors is a file of a header and so many bytes.
func safetensors(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	for i := range data {
		b = append(b, byte(i))
	}
	return b
}

func TestReadHeaderRefuses(t *testing.T) {
	good := `{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"F16","shape":[],"data_offsets":[24,26]},` +
		`"none":{"dtype":"F32","shape":[0,7],"data_offsets":[24,24]}}`
	file := safetensors(good, 26)
	got, err := readHeader(bytes.NewReader(file), int64(len(file)))
	if err != nil || len(got) != 3 || got["b"].at != int64(8+len(good)+24) {
		t.Fatalf("got %v, %v", got, err)
	}
	for want, file := range map[string][]byte{
		"3 bytes, expected a safetensors": {1, 2, 3},
		"is said to have":                 binary.LittleEndian.AppendUint64(nil, 1<<63+5),
		"expected at most 1":              append(binary.LittleEndian.AppendUint64(nil, 2), 'x'),
		"header: unexpected end":          safetensors(`{"a":`, 0),
		"header: json":                    safetensors(`[1]`, 0),
		"tensor a: json":                  safetensors(`{"a":5}`, 0),
		`unknown dtype "F31"`:             safetensors(`{"a":{"dtype":"F31","shape":[1],"data_offsets":[0,4]}}`, 4),
		"data_offsets [0], expected two":  safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}}`, 4),
		"bytes 0 to 8, expected":          safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 4),
		"bytes 4 to 0, expected":          safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, 4),
		"bytes -4 to 0, expected":         safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 4),
		"shape [2] of F32 in 4 bytes":     safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4),
		"of F32 in 3 bytes":               safetensors(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,3]}}`, 3),
		"shape [-1] of":                   safetensors(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, 4),
		"shape [65536 65536 65536 65536]": safetensors(`{"a":{"dtype":"F32","shape":[65536,65536,65536,65536],"data_offsets":[0,0]}}`, 0),
		"overlap or leave a hole":         safetensors(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3),
		"b begins at byte 3, expected 2":  safetensors(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}}`, 4),
		"the tensors end at byte 2 of 5":  safetensors(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 5),
	} {
		if _, err := readHeader(bytes.NewReader(file), int64(len(file))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// All 65,536 halves by their definition, and BF16 by its.
func TestDecode(t *testing.T) {
	for h := range 1 << 16 {
		sign, exponent, fraction := 1-2*float64(h>>15), h>>10&31, float64(h&1023)
		want := sign * math.Ldexp(1+fraction/1024, exponent-15)
		switch {
		case exponent == 0:
			want = sign * math.Ldexp(fraction/1024, -14)
		case exponent == 31 && fraction == 0:
			want = math.Inf(int(sign))
		case exponent == 31:
			want = math.NaN()
		}
		got := float64(half(uint16(h)))
		if math.IsNaN(want) != math.IsNaN(got) || !math.IsNaN(want) && (got != want || math.Signbit(got) != math.Signbit(want)) {
			t.Fatalf("half %#x is %v, expected %v", h, got, want)
		}
	}
	x, err := decode("BF16", []byte{0x80, 0x3f, 0x00, 0xc0, 0x49, 0x40})
	if err != nil || x[0] != 1 || x[1] != -2 || x[2] != 3.140625 {
		t.Errorf("BF16: %v, %v", x, err)
	}
	if _, err := decode("I64", nil); err == nil || !strings.Contains(err.Error(), "I64") {
		t.Errorf("I64: %v", err)
	}
}

func TestOpenTensorsRefuses(t *testing.T) {
	write := func(t *testing.T, dir, name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	one := safetensors(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2)
	for want, files := range map[string]map[string][]byte{
		"neither model.safetensors nor":    {"pytorch_model.bin": one},
		"weight_map names no tensors":      {"model.safetensors.index.json": []byte(`{"weight_map":{}}`)},
		"names x.safetensors, which is no": {"model.safetensors.index.json": []byte(`{"weight_map":{"a":"x.safetensors"}}`)},
		"expected a file of the same":      {"model.safetensors.index.json": []byte(`{"weight_map":{"a":"../x.safetensors"}}`)},
		"no tensor b, which the index":     {"model.safetensors.index.json": []byte(`{"weight_map":{"b":"x.safetensors"}}`), "x.safetensors": one},
		"index.json: ":                     {"model.safetensors.index.json": []byte(`{`)},
	} {
		dir := t.TempDir()
		for name, text := range files {
			write(t, dir, name, text)
		}
		if _, err := OpenTensors(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
	dir := t.TempDir()
	write(t, dir, "model.safetensors", one)
	w, err := OpenTensors(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for want, read := range map[string]func() error{
		"model.safetensors: tensor a has shape [2], expected [3]":       func() error { _, err := w.Read("a", 3); return err },
		"model.safetensors: no tensor b, expected one of shape [4 5]":   func() error { _, err := w.Read("b", 4, 5); return err },
		"model.safetensors: tensor a: dtype U8, expected F32, F16 or B": func() error { _, err := w.Read("a", 2); return err },
	} {
		if err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

func FuzzSafetensors(f *testing.F) {
	f.Add(safetensors(`{"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},"__metadata__":{}}`, 8))
	f.Add(safetensors(`{"a":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]}}`, 0))
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := readHeader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		total := int64(0)
		for name, x := range got {
			n := int64(dtypes[x.dtype])
			for _, s := range x.shape {
				n *= int64(s)
			}
			if n < 0 || x.at < 8 || x.at+n > int64(len(file)) {
				t.Errorf("tensor %s: %d bytes at %d of %d", name, n, x.at, len(file))
			}
			total += n
		}
		if length := binary.LittleEndian.Uint64(file); total != int64(len(file))-8-int64(length) {
			t.Errorf("%d bytes of tensors in %d", total, len(file))
		}
	})
}
