package hf

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Tensors are the tensors of one safetensors file, or of several that an index
// names. The format is that of https://github.com/huggingface/safetensors: the
// length of a header (uint64), the header (JSON), and the numbers, little-endian.
type Tensors struct {
	tensors map[string]tensor
	files   []*os.File
}

type tensor struct {
	file  *os.File
	dtype string
	shape []int
	at    int64 // in the file
}

// What a header may take, as in the reference implementation.
const maxHeader = 100_000_000

// The data types of the format, and the bytes of an element.
var dtypes = map[string]int{"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
	"I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8, "C64": 8}

// OpenTensors opens the weights of a folder: model.safetensors, or the files that
// model.safetensors.index.json names.
func OpenTensors(dir string) (*Tensors, error) {
	single, index := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "model.safetensors.index.json")
	t := &Tensors{tensors: map[string]tensor{}}
	err := t.add(single, nil)
	if errors.Is(err, fs.ErrNotExist) {
		err = t.addIndexed(dir, index)
		if errors.Is(err, fs.ErrNotExist) && err != nil {
			err = fmt.Errorf("hf: %s holds neither model.safetensors nor model.safetensors.index.json (other formats are not read: convert the weights to safetensors)", dir)
		}
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Tensors) addIndexed(dir, index string) error {
	text, err := os.ReadFile(index)
	if err != nil {
		return err
	}
	var list struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("hf: %s: %w", index, err)
	}
	shards := map[string]map[string]bool{}
	for name, file := range list.Files {
		if file == "" || file != filepath.Base(file) || !filepath.IsLocal(file) {
			return fmt.Errorf("hf: %s: tensor %s is said to be in %q, expected a file of the same folder", index, name, file)
		}
		if shards[file] == nil {
			shards[file] = map[string]bool{}
		}
		shards[file][name] = true
	}
	if len(shards) == 0 {
		return fmt.Errorf("hf: %s: weight_map names no tensors", index)
	}
	for file, names := range shards {
		path := filepath.Join(dir, file)
		if err := t.add(path, names); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("hf: %s names %s, which is not there", index, file)
			}
			return err
		}
	}
	return nil
}

// add opens a file and takes the tensors with these names, all if names is nil.
func (t *Tensors) add(path string, names map[string]bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	t.files = append(t.files, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	header, err := readHeader(f, info.Size())
	if err != nil {
		return fmt.Errorf("hf: %s: %w", path, err)
	}
	for name, x := range header {
		if names == nil || names[name] {
			x.file = f
			t.tensors[name] = x
		}
	}
	for name := range names {
		if _, ok := header[name]; !ok {
			return fmt.Errorf("hf: %s has no tensor %s, which the index says it has", path, name)
		}
	}
	return nil
}

// readHeader reads the header of a file of so many bytes. The tensors must cover
// what follows without holes and without overlap, as the format demands.
func readHeader(r io.ReaderAt, size int64) (map[string]tensor, error) {
	var length [8]byte
	if _, err := r.ReadAt(length[:], 0); err != nil {
		return nil, fmt.Errorf("%d bytes, expected a safetensors file: 8 bytes with the header's length", size)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-8 {
		return nil, fmt.Errorf("the header is said to have %d bytes, expected at most %d", n, min(maxHeader, size-8))
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	data := size - 8 - int64(n)
	type span struct {
		name       string
		begin, end int64
	}
	var spans []span
	tensors := map[string]tensor{}
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		var e struct {
			Dtype   string  `json:"dtype"`
			Shape   []int64 `json:"shape"`
			Offsets []int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", name, err)
		}
		bytes, ok := dtypes[e.Dtype]
		if !ok {
			return nil, fmt.Errorf("tensor %s: unknown dtype %q", name, e.Dtype)
		}
		if len(e.Offsets) != 2 {
			return nil, fmt.Errorf("tensor %s: data_offsets %v, expected two", name, e.Offsets)
		}
		begin, end := e.Offsets[0], e.Offsets[1]
		if begin < 0 || end < begin || end > data {
			return nil, fmt.Errorf("tensor %s: bytes %d to %d, expected some of the %d there are", name, begin, end, data)
		}
		elements := (end - begin) / int64(bytes)
		x := tensor{dtype: e.Dtype, at: 8 + int64(n) + begin}
		count := int64(1)
		for _, s := range e.Shape {
			if s < 0 || s > math.MaxInt32 || s > 0 && count > elements/s {
				count = -1
				break
			}
			count *= s
			x.shape = append(x.shape, int(s))
		}
		if count != elements || (end-begin)%int64(bytes) != 0 {
			return nil, fmt.Errorf("tensor %s: shape %v of %s in %d bytes", name, e.Shape, e.Dtype, end-begin)
		}
		spans = append(spans, span{name, begin, end})
		tensors[name] = x
	}
	slices.SortFunc(spans, func(a, b span) int {
		if a.begin != b.begin {
			return int(min(max(a.begin-b.begin, -1), 1))
		}
		return int(min(max(a.end-b.end, -1), 1))
	})
	at := int64(0)
	for _, s := range spans {
		if s.begin != at {
			return nil, fmt.Errorf("tensor %s begins at byte %d, expected %d: the tensors overlap or leave a hole", s.name, s.begin, at)
		}
		at = s.end
	}
	if at != data {
		return nil, fmt.Errorf("the tensors end at byte %d of %d", at, data)
	}
	return tensors, nil
}

// Has says whether there is a tensor of that name.
func (t *Tensors) Has(name string) bool {
	_, ok := t.tensors[name]
	return ok
}

// Read is the numbers of a tensor of F32, F16 or BF16, whose shape must be the one
// given.
func (t *Tensors) Read(name string, shape ...int) ([]float32, error) {
	x, ok := t.tensors[name]
	if !ok {
		var files []string
		for _, f := range t.files {
			files = append(files, f.Name())
		}
		return nil, fmt.Errorf("hf: %s: no tensor %s, expected one of shape %v", strings.Join(files, ", "), name, shape)
	}
	if !slices.Equal(x.shape, shape) {
		return nil, fmt.Errorf("hf: %s: tensor %s has shape %v, expected %v", x.file.Name(), name, x.shape, shape)
	}
	n := 1
	for _, s := range shape {
		n *= s
	}
	bytes := make([]byte, n*dtypes[x.dtype])
	if _, err := x.file.ReadAt(bytes, x.at); err != nil && n > 0 {
		return nil, fmt.Errorf("hf: %s: tensor %s: %w", x.file.Name(), name, err)
	}
	numbers, err := decode(x.dtype, bytes)
	if err != nil {
		return nil, fmt.Errorf("hf: %s: tensor %s: %w", x.file.Name(), name, err)
	}
	return numbers, nil
}

func decode(dtype string, bytes []byte) ([]float32, error) {
	var numbers []float32
	switch dtype {
	case "F32":
		numbers = make([]float32, len(bytes)/4)
		for i := range numbers {
			numbers[i] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:]))
		}
	case "BF16": // the upper half of a float32
		numbers = make([]float32, len(bytes)/2)
		for i := range numbers {
			numbers[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(bytes[2*i:])) << 16)
		}
	case "F16":
		numbers = make([]float32, len(bytes)/2)
		for i := range numbers {
			numbers[i] = half(binary.LittleEndian.Uint16(bytes[2*i:]))
		}
	default:
		return nil, fmt.Errorf("dtype %s, expected F32, F16 or BF16", dtype)
	}
	return numbers, nil
}

// half is an IEEE 754 binary16 as a float32, which holds all of them.
func half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&0x1f), uint32(h&0x3ff)
	switch exponent {
	case 0: // subnormal: fraction 2⁻²⁴
		x := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(x) | sign)
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | fraction<<13)
}

// Sum is the SHA-256 of the weights' files, one after the other in the order of their
// names, in hexadecimal.
func (t *Tensors) Sum() (string, error) {
	files := slices.Clone(t.files)
	slices.SortFunc(files, func(a, b *os.File) int { return strings.Compare(a.Name(), b.Name()) })
	sum := sha256.New()
	for _, f := range files {
		if _, err := io.Copy(sum, io.NewSectionReader(f, 0, math.MaxInt64)); err != nil {
			return "", fmt.Errorf("hf: %s: %w", f.Name(), err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Close closes the files.
func (t *Tensors) Close() error {
	var errs []error
	for _, f := range t.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
