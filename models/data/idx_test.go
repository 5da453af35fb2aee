package data

import (
	"bytes"
	"runtime"
	"slices"
	"testing"
)

func TestIDX(t *testing.T) {
	for _, c := range []struct {
		images, labels string
		x, y           []byte
	}{
		{"images", "labels", images4, labels4},
		{"images.gz", "labels.gz", zipped(images4), zipped(labels4)},
		{"images", "labels", zipped(images4), zipped(labels4)}, // gzip without the name
	} {
		dir := t.TempDir()
		s, err := LoadIDX(file(t, dir, c.images, c.x), file(t, dir, c.labels, c.y), 0)
		if err != nil {
			t.Error(err)
			continue
		}
		isFour(t, s, 1./255, 2, 3, 1)
	}
}

func TestIDXShapes(t *testing.T) {
	for _, c := range []struct {
		file  []byte
		shape []int
	}{
		{idxBytes([]int{4, 6}, counting(24)), []int{6}},
		{idxBytes([]int{4, 2, 1, 3}, counting(24)), []int{2, 1, 3}},
	} {
		dir := t.TempDir()
		s, err := LoadIDX(file(t, dir, "x", c.file), file(t, dir, "y", labels4), 0)
		if err != nil {
			t.Error(err)
			continue
		}
		isFour(t, s, 1./255, c.shape...)
	}
}

func TestBadIDX(t *testing.T) {
	flipped := zipped(images4)
	flipped[len(flipped)-8] ^= 1 // the checksum
	float := slices.Clone(images4)
	float[2] = 0x0D
	for name, c := range map[string]struct {
		images, labels string // file names
		x, y           []byte
		want           []string // what the error says
	}{
		"truncated":          {"x", "y", images4[:30], labels4, []string{"/x: truncated: at most 14 bytes of data, expected 24 for shape [4 2 3]"}},
		"truncated header":   {"x", "y", images4[:9], labels4, []string{"/x: truncated: 9 bytes, expected 16"}},
		"truncated magic":    {"x", "y", images4[:3], labels4, []string{"/x: truncated: 3 bytes, expected 4"}},
		"empty":              {"x", "y", nil, labels4, []string{"/x: truncated: 0 bytes"}},
		"truncated labels":   {"x", "y", images4, labels4[:10], []string{"/y: truncated"}},
		"truncated gzip":     {"x.gz", "y", zipped(images4)[:25], labels4, []string{"/x.gz: truncated"}},
		"truncated gzipped":  {"x.gz", "y", zipped(images4[:30]), labels4, []string{"/x.gz: truncated: 14 bytes, expected 24"}},
		"trailing":           {"x", "y", append(slices.Clone(images4), 7), labels4, []string{"/x: bytes after the data", "[4 2 3]"}},
		"trailing gzipped":   {"x.gz", "y", zipped(append(slices.Clone(images4), 7)), labels4, []string{"/x.gz: bytes after the data"}},
		"trailing gzip":      {"x.gz", "y", append(zipped(images4), "junk junk!"...), labels4, []string{"/x.gz: ", "bytes after the gzip data"}},
		"4 bytes after gzip": {"x.gz", "y", append(zipped(images4), "junk"...), labels4, []string{"/x.gz: the gzip data end early, or other bytes follow them"}},
		"gzip without end":   {"x.gz", "y", zipped(images4)[:len(zipped(images4))-3], labels4, []string{"/x.gz: the gzip data end early, or other bytes follow them"}},
		"damaged gzip":       {"x.gz", "y", flipped, labels4, []string{"/x.gz: damaged: the gzip checksum is wrong"}},
		"not gzip":           {"x.gz", "y", images4, labels4, []string{"/x.gz: called .gz, but starts with 00 00, expected 1f 8b"}},
		"empty gzip":         {"x.gz", "y", nil, labels4, []string{"/x.gz: called .gz"}},
		"not IDX":            {"x", "y", []byte("P5 28 28 255 "), labels4, []string{"/x: not IDX: starts with 50 35 20 32"}},
		"wrong type":         {"x", "y", float, labels4, []string{"/x: IDX elements are float32 (0x0d), expected unsigned bytes (0x08)"}},
		"swapped":            {"x", "y", labels4, images4, []string{"/x: images of shape [4], expected [N D]"}},
		"images as labels":   {"x", "y", images4, images4, []string{"/y: labels of shape [4 2 3], expected [N]"}},
		"five dimensions":    {"x", "y", idxBytes([]int{1, 1, 1, 1, 1}, []byte{0}), labels4, []string{"/x: IDX array of 5 dimensions, expected 1 to 4"}},
		"no images":          {"x", "y", idxBytes([]int{0, 2, 3}, nil), idxBytes([]int{0}, nil), []string{"/x: images of shape [0 2 3], expected at least one"}},
		"counts disagree":    {"x", "y", images4, idxBytes([]int{3}, []byte{0, 1, 2}), []string{"/x has 4 images, but ", "/y has 3 labels"}},
		"label out of range": {"x", "y", images4, idxBytes([]int{4}, []byte{0, 1, 200, 2}), []string{"/y: label 200 of example 2 is out of range, or class 3 has no example"}},
		"too large":          {"x", "y", idxBytes([]int{1 << 31, 1 << 31, 1 << 31}, nil), labels4, []string{"/x: IDX shape", "too large"}},
		"2^40 elements":      {"x", "y", idxBytes([]int{1 << 20, 1 << 10, 1 << 10}, nil), labels4, []string{"/x: truncated", "expected 1099511627776"}},
		"2^40 in gzip":       {"x.gz", "y", zipped(idxBytes([]int{1 << 20, 1 << 10, 1 << 10}, nil)), labels4, []string{"/x.gz: truncated"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := LoadIDX(file(t, dir, c.images, c.x), file(t, dir, c.labels, c.y), 0)
			says(t, err, append(c.want, dir)...)
		})
	}
	dir := t.TempDir()
	_, err := LoadIDX(file(t, dir, "x", images4), file(t, dir, "y", labels4), 2)
	says(t, err, "/y: label 2 of example 2 is out of range, expected 0 to 1")
	_, err = LoadIDX(dir+"/none", dir+"/y", 0)
	says(t, err, dir+"/none", "no such file")
	_, err = LoadIDX(dir, dir+"/y", 0)
	says(t, err, dir+": not a regular file")
}

// A class that no example has needs the number of classes to be given.
func TestUnusedClass(t *testing.T) {
	dir := t.TempDir()
	x, y := file(t, dir, "x", images4), file(t, dir, "y", idxBytes([]int{4}, []byte{1, 2, 3, 3}))
	_, err := LoadIDX(x, y, 0)
	says(t, err, "class 0 has no example")
	s, err := LoadIDX(x, y, 4)
	if err != nil || s.Classes() != 4 {
		t.Error(s, err)
	}
}

func TestCutIDXAnywhere(t *testing.T) {
	for _, whole := range [][]byte{images4, zipped(images4)} {
		for n := range whole {
			if _, err := readIDX(bytes.NewReader(whole[:n]), int64(n), false); err == nil {
				t.Errorf("%d of %d bytes were read without an error", n, len(whole))
			}
		}
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

func FuzzIDX(f *testing.F) {
	for _, seed := range [][]byte{images4, labels4, zipped(images4), zipped(labels4)[:20], nil,
		idxBytes([]int{1 << 20, 1 << 10, 1 << 10}, nil),
		zipped(idxBytes([]int{1 << 31, 1 << 31, 1 << 31, 0}, nil))} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, raw []byte, calledGzip bool) {
		var a idx
		var err error
		taken := allocated(func() { a, err = readIDX(bytes.NewReader(raw), int64(len(raw)), calledGzip) })
		// 1 MiB is for the buffers of bufio and gzip.
		if limit := uint64(1<<20 + (maxGzipRatio+1)*len(raw)); taken > limit {
			t.Fatalf("%d bytes taken for a file of %d, at most %d are allowed", taken, len(raw), limit)
		}
		if err != nil {
			return
		}
		again, err := readIDX(bytes.NewReader(idxBytes(a.shape, a.data)), int64(len(a.data))+20, false)
		if err != nil || !slices.Equal(again.shape, a.shape) || !bytes.Equal(again.data, a.data) {
			t.Fatalf("shape %v with %d bytes, %v, want %v with %d", again.shape, len(again.data), err, a.shape, len(a.data))
		}
	})
}
