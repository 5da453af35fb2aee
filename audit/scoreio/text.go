package scoreio

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"strings"
)

// text is a text file that is being read. Files packed by gzip are unpacked,
// whatever they are called, and a byte order mark is left out.
type text struct {
	*bufio.Reader
	file *os.File
}

func openText(path string) (*text, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	t := &text{bufio.NewReaderSize(f, 1<<16), f}
	if err := t.start(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// start looks at the first bytes. What is wrong with a file that is too short
// for them, its reader will say.
func (t *text) start() error {
	if info, err := t.file.Stat(); err == nil && info.IsDir() {
		return fmt.Errorf("is a folder, expected a file")
	}
	if magic, _ := t.Peek(2); bytes.Equal(magic, []byte("\x1f\x8b")) {
		unpacked, err := gzip.NewReader(t.Reader)
		if err != nil {
			return err
		}
		t.Reader = bufio.NewReaderSize(unpacked, 1<<16)
	}
	mark, _ := t.Peek(3)
	switch {
	case bytes.Equal(mark, []byte("\ufeff")):
		_, err := t.Discard(len(mark))
		return err
	case bytes.HasPrefix(mark, []byte("\xff\xfe")), bytes.HasPrefix(mark, []byte("\xfe\xff")):
		return fmt.Errorf("the text is UTF-16, expected UTF-8")
	}
	return nil
}

func (t *text) close() { t.file.Close() }

// unpackedName is the name of a file without the ending that gzip gives it.
func unpackedName(path string) string {
	if n := len(path) - len(".gz"); n > 0 && strings.EqualFold(path[n:], ".gz") {
		return path[:n]
	}
	return path
}

// clip shortens what an error quotes from a file.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
