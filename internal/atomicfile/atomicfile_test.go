package atomicfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// folderIs fails unless dir holds exactly the file name with the content want.
func folderIs(t *testing.T, dir, name, want string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("folder holds %v, want only %s", entries, name)
	}
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s holds %d bytes %.40q, want %d bytes %.40q", name, len(got), got, len(want), want)
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	for _, text := range []string{"first", "", strings.Repeat("long ", bufferSize)} {
		if err := WriteBytes(path, 0o644, []byte(text)); err != nil {
			t.Fatal(err)
		}
		folderIs(t, dir, "a.txt", text)
	}
}

func TestWriteInCurrentFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := WriteBytes("a.txt", 0o644, []byte("here")); err != nil {
		t.Fatal(err)
	}
	folderIs(t, dir, "a.txt", "here")
}

func TestPermissions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := WriteBytes(path, 0o600, nil); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("permissions %v, want 0600", info.Mode().Perm())
	}
}

// pieces writes size bytes in pieces that do not divide the buffer.
func pieces(size int) func(io.Writer) error {
	return func(w io.Writer) error {
		for left := size; left > 0; {
			n := min(left, 1000)
			if _, err := w.Write(bytes.Repeat([]byte{'n'}, n)); err != nil {
				return err
			}
			left -= n
		}
		return nil
	}
}

// fullDiskKeepsOld writes size bytes to a disk that is full after limit bytes,
// and reports what write got wrong; "" if nothing.
func fullDiskKeepsOld(t *testing.T, limit, size int, write func(o Options, path string, fill func(io.Writer) error) error) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := write(FullAfter(int64(limit)), path, pieces(size))
	got, readErr := os.ReadFile(path)
	entries, _ := os.ReadDir(dir)
	full := limit < size
	switch {
	case readErr != nil:
		return readErr.Error()
	case full && !errors.Is(err, syscall.ENOSPC):
		return "the error is not ENOSPC"
	case full && !strings.Contains(err.Error(), path):
		return "the error does not name the file"
	case full && string(got) != "old":
		return "the old file is damaged"
	case !full && err != nil:
		return err.Error()
	case !full && len(got) != size:
		return "the new file has the wrong size"
	case len(entries) != 1:
		return "a temporary file is left"
	}
	return ""
}

func TestFullDisk(t *testing.T) {
	write := func(o Options, path string, fill func(io.Writer) error) error {
		return o.Write(path, 0o644, fill)
	}
	for _, size := range []int{1, 10, bufferSize - 1, bufferSize, bufferSize + 1, 3 * bufferSize} {
		for _, limit := range []int{0, 1, 2, size / 2, size - 2, size - 1, size, size + 1,
			bufferSize - 1, bufferSize, bufferSize + 1, 2*bufferSize - 1, 2 * bufferSize} {
			if limit < 0 {
				continue
			}
			if fault := fullDiskKeepsOld(t, limit, size, write); fault != "" {
				t.Errorf("%d bytes on a disk with room for %d: %s", size, limit, fault)
			}
		}
	}
}

// The planted faults: writers that are not atomic must not pass.
func TestFullDiskCatches(t *testing.T) {
	writers := map[string]func(o Options, path string, fill func(io.Writer) error) error{
		"in place": func(o Options, path string, fill func(io.Writer) error) error {
			f, err := os.Create(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return fill(o.Wrap(f))
		},
		"temporary file left": func(o Options, path string, fill func(io.Writer) error) error {
			f, err := os.Create(path + ".new")
			if err != nil {
				return err
			}
			defer f.Close()
			if err := fill(o.Wrap(f)); err != nil {
				return &fs.PathError{Op: "write", Path: path, Err: err}
			}
			return os.Rename(path+".new", path)
		},
		"error swallowed": func(o Options, path string, fill func(io.Writer) error) error {
			_ = fill(o.Wrap(io.Discard))
			return nil
		},
	}
	for name, write := range writers {
		if fullDiskKeepsOld(t, 1500, 5000, write) == "" {
			t.Errorf("the check passes a writer with the fault %q", name)
		}
	}
}

func TestLaterStepsFail(t *testing.T) {
	for _, step := range []string{"sync", "close", "rename", "sync folder"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		o := Options{fault: func(s string) error {
			if s == step {
				return syscall.EIO
			}
			return nil
		}}
		err := o.WriteBytes(path, 0o644, []byte("new"))
		if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", step, err)
		}
		want := "old"
		if step == "sync folder" {
			want = "new" // the exception that Write documents
		}
		folderIs(t, dir, "f", want)
	}
}

func TestFillFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := Write(path, 0o644, func(w io.Writer) error {
		io.WriteString(w, "half")
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	folderIs(t, dir, "f", "old")

	func() {
		defer func() { recover() }()
		Write(path, 0o644, func(io.Writer) error { panic("bug") })
	}()
	folderIs(t, dir, "f", "old")
}

func TestBadPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(file, "a"), file + " is a regular file, expected a folder"},
		{filepath.Join(file, "a", "b"), file + " is a regular file, expected a folder"},
		{filepath.Join(dir, "none", "a"), "folder " + filepath.Join(dir, "none") + " does not exist"},
		{dir, "is a folder, expected a file"},
	} {
		err := WriteBytes(c.path, 0o644, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("Write(%s): %v, want it to say %q", c.path, err, c.want)
		}
	}
	for _, path := range []string{file, filepath.Join(file, "a"), filepath.Join(file, "a", "b")} {
		err := MkdirAll(path, 0o755)
		want := file + " is a regular file, expected a folder"
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("MkdirAll(%s): %v, want it to say %q", path, err, want)
		}
	}
	deep := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := MkdirAll(deep, 0o755); err != nil {
			t.Error(err)
		}
	}
}

func TestRemoveTemp(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kept", ".kept", ".kept.tmp-ABC", ".other.json.tmp-DEF", "x.tmp-y"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTemp(dir); err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if got := strings.Join(left, " "); got != ".kept kept x.tmp-y" {
		t.Errorf("left: %s", got)
	}
}
