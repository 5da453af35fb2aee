package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func archive(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	w := tar.NewWriter(zip)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: inside + name, Mode: 0o644, Size: int64(len(name))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	zip.Close()
	return b.Bytes()
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	if err := unpack(archive(t, append(files, "../../../outside", "other")...), dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != name {
			t.Errorf("%s holds %q, %v", name, text, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err == nil {
		t.Error("a file that nobody asked for was written")
	}
	dir = t.TempDir()
	if err := unpack(archive(t, files[:4]...), dir); err == nil || !strings.Contains(err.Error(), files[4]) {
		t.Errorf("want an error about %s, got %v", files[4], err)
	}
	whole := archive(t, files...)
	if err := unpack(whole[:len(whole)/2], t.TempDir()); err == nil {
		t.Error("half an archive was unpacked")
	}
}
