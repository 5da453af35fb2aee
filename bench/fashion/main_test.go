package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

func packed(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	files := tar.NewWriter(zip)
	if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestUnpackRefuses: a package that is not what it should be makes no data set.
func TestUnpackRefuses(t *testing.T) {
	row := "[" + strings.Repeat("1,", pixels-1) + "2]"
	for want, text := range map[string]string{
		"class 0 has 1 images, expected 7000": `{"data":[` + row + `,[]]}`,
		"image 0 has 2 pixels, expected 784":  `{"data":[[1,2]]}`,
		"pixel 783 is 256":                    `{"data":[` + strings.Replace(row, "2]", "256]", 1) + `]}`,
		"package/src/clothes/0.json":          `{"data":`,
	} {
		if _, err := unpack(packed(t, "package/src/clothes/0.json", text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := unpack([]byte("no zip")); err == nil {
		t.Error("no zip was unpacked")
	}
}
