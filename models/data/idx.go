package data

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"strings"
)

// The IDX format: two zero bytes, the element type, the number of dimensions,
// the dimensions as 32-bit big-endian integers, the elements in C order.
// Y. LeCun, C. Cortes, C. Burges, "The MNIST database of handwritten digits".

// maxGzipRatio is the most that gzip can shrink data (zlib's documentation,
// "Maximum Compression Factor": 1032:1), rounded up. What claims more is
// damaged.
const maxGzipRatio = 1100

// maxIDXDims is that of [N H W C].
const maxIDXDims = 4

// idx is an array of bytes.
type idx struct {
	shape []int
	data  []uint8
}

var idxTypes = map[byte]string{
	0x08: "unsigned bytes", 0x09: "signed bytes", 0x0B: "16-bit integers",
	0x0C: "32-bit integers", 0x0D: "float32", 0x0E: "float64",
}

// LoadIDX reads a Set from a file of images and a file of labels in IDX form,
// plain or gzip. With classes 0 the number of classes is counted, see Options.
func LoadIDX(images, labels string, classes int) (*Set, error) {
	s, err := openIDXPair(images, labels)
	if err != nil {
		return nil, err
	}
	return single(images, s, classes)
}

// single makes the only Set of a source.
func single(name string, s *source, classes int) (*Set, error) {
	if classes == 0 {
		var err error
		if classes, err = s.countClasses(); err != nil {
			return nil, err
		}
	}
	return s.set(name, classes)
}

func openIDXPair(images, labels string) (*source, error) {
	x, err := openIDX(images)
	if err != nil {
		return nil, err
	}
	y, err := openIDX(labels)
	if err != nil {
		return nil, err
	}
	return pairIDX(images, labels, x, y)
}

func pairIDX(images, labels string, x, y idx) (*source, error) {
	shape, err := exampleShape(x.shape)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", images, err)
	}
	if len(y.shape) != 1 {
		return nil, fmt.Errorf("%s: labels of shape %v, expected [N]", labels, y.shape)
	}
	s := &source{images: images, labels: labels, shape: shape, n: x.shape[0], bytes: x.data, y: make([]int64, len(y.data))}
	for i, label := range y.data {
		s.y[i] = int64(label)
	}
	return s, s.check()
}

func openIDX(path string) (idx, error) {
	f, err := os.Open(path)
	if err != nil {
		return idx{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return idx{}, err
	}
	if !info.Mode().IsRegular() {
		return idx{}, fmt.Errorf("%s: not a regular file, expected IDX", path)
	}
	a, err := readIDX(f, info.Size(), strings.HasSuffix(path, ".gz"))
	if err != nil {
		return idx{}, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// readIDX reads an array from a file of size bytes. Its content tells whether
// it is gzip; one that is called .gz must be.
func readIDX(r io.Reader, size int64, calledGzip bool) (idx, error) {
	b := bufio.NewReader(r)
	start, err := b.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return idx{}, err
	}
	if string(start) != "\x1f\x8b" {
		if calledGzip {
			return idx{}, fmt.Errorf("called .gz, but starts with % x, expected 1f 8b as gzip does", start)
		}
		return parseIDX(b, size)
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return idx{}, gzipError(err)
	}
	a, err := parseIDX(z, size*maxGzipRatio)
	return a, gzipError(err)
}

func gzipError(err error) error {
	switch {
	case errors.Is(err, gzip.ErrHeader):
		return errors.New("damaged gzip header, or bytes after the gzip data")
	case errors.Is(err, gzip.ErrChecksum):
		return errors.New("damaged: the gzip checksum is wrong")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("truncated gzip data")
	}
	return err
}

// parseIDX reads an array that can have at most limit bytes, all told. It
// takes no memory for more.
func parseIDX(r io.Reader, limit int64) (idx, error) {
	var magic [4]byte
	if n, err := io.ReadFull(r, magic[:]); err != nil {
		return idx{}, cut(err, n, len(magic))
	}
	name, known := idxTypes[magic[2]]
	dims := int(magic[3])
	switch {
	case magic[0] != 0 || magic[1] != 0 || !known:
		return idx{}, fmt.Errorf("not IDX: starts with % x, expected 00 00 08 and the number of dimensions", magic)
	case magic[2] != 0x08:
		return idx{}, fmt.Errorf("IDX elements are %s (%#02x), expected %s (0x08)", name, magic[2], idxTypes[0x08])
	case dims < 1 || dims > maxIDXDims:
		return idx{}, fmt.Errorf("IDX array of %d dimensions, expected 1 to %d", dims, maxIDXDims)
	}
	head := make([]byte, 4*dims)
	if n, err := io.ReadFull(r, head); err != nil {
		return idx{}, cut(err, len(magic)+n, len(magic)+len(head))
	}
	a := idx{shape: make([]int, dims)}
	total := uint64(1)
	for i := range a.shape {
		d := binary.BigEndian.Uint32(head[4*i:])
		a.shape[i] = int(d)
		var high uint64
		if high, total = bits.Mul64(total, uint64(d)); high != 0 {
			return idx{}, fmt.Errorf("IDX shape %v is too large", a.shape[:i+1])
		}
	}
	if room := limit - int64(len(magic)+len(head)); total > uint64(max(room, 0)) {
		return idx{}, fmt.Errorf("truncated: at most %d bytes of data, expected %d for shape %v", max(room, 0), total, a.shape)
	}
	a.data = make([]uint8, total)
	if n, err := io.ReadFull(r, a.data); err != nil {
		return idx{}, cut(err, n, len(a.data))
	}
	var one [1]byte
	switch _, err := io.ReadFull(r, one[:]); {
	case err == nil:
		return idx{}, fmt.Errorf("bytes after the data: expected %d bytes for shape %v", total, a.shape)
	case errors.Is(err, io.ErrUnexpectedEOF): // of gzip: plain files just end
		return idx{}, errors.New("the gzip data end early, or other bytes follow them")
	case !errors.Is(err, io.EOF):
		return idx{}, err
	}
	return a, nil
}

// cut says that a file ends too early, if that is what err means.
func cut(err error, got, want int) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("truncated: %d bytes, expected %d", got, want)
	}
	return err
}
