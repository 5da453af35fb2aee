// Package atomicfile writes files that are either whole or not there.
//
// A file is written under a temporary name in its own folder, synced, and
// renamed. A kill, a full disk or an error on the way leaves the old file, if
// there was one, as it was.
package atomicfile

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tempMark is what the names of temporary files have in common:
// .NAME.tmp-RANDOM, beside NAME.
const tempMark = ".tmp-"

// bufferSize is how many bytes are gathered for one write to the disk.
const bufferSize = 1 << 16

// Options changes how files are written. The zero value is what Write does.
type Options struct {
	// Wrap, if set, stands between the data and the temporary file. Tests use
	// it as a disk that fills up: see FullAfter.
	Wrap func(io.Writer) io.Writer

	// fault, if set, may fail the steps "sync", "close", "rename" and "sync
	// folder" in this package's tests.
	fault func(step string) error
}

// Write replaces the file at path by the bytes that fill writes. A new file
// gets the permissions perm less the umask. Every error names path.
//
// After an error the old file is intact and no temporary file is left, with
// one exception: if only the last step fails, the sync of the folder, then the
// new file is in place but might not outlive a power cut.
func Write(path string, perm fs.FileMode, fill func(w io.Writer) error) error {
	return Options{}.Write(path, perm, fill)
}

// WriteBytes is Write for bytes that are at hand.
func WriteBytes(path string, perm fs.FileMode, data []byte) error {
	return Options{}.WriteBytes(path, perm, data)
}

// WriteBytes is Options.Write for bytes that are at hand.
func (o Options) WriteBytes(path string, perm fs.FileMode, data []byte) error {
	return o.Write(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write is the function Write with these options.
func (o Options) Write(path string, perm fs.FileMode, fill func(w io.Writer) error) error {
	if err := checkTarget(path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	dir, base := filepath.Split(path)
	temp := filepath.Join(dir, "."+base+tempMark+rand.Text())
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	renamed := false
	defer func() { // also when fill panics
		if !renamed {
			f.Close()
			os.Remove(temp)
		}
	}()
	if err := o.fillAndSync(f, fill); err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	if err := o.step("rename", func() error { return os.Rename(temp, path) }); err != nil {
		return fmt.Errorf("write %s: %w", path, cause(err))
	}
	renamed = true
	if err := o.step("sync folder", func() error { return syncFolder(filepath.Dir(path)) }); err != nil {
		return fmt.Errorf("write %s: sync its folder: %w", path, cause(err))
	}
	return nil
}

func (o Options) fillAndSync(f *os.File, fill func(io.Writer) error) error {
	var w io.Writer = f
	if o.Wrap != nil {
		w = o.Wrap(f)
	}
	buffer := bufio.NewWriterSize(w, bufferSize)
	if err := fill(buffer); err != nil {
		return err
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	if err := o.step("sync", f.Sync); err != nil {
		return err
	}
	return o.step("close", f.Close)
}

func (o Options) step(name string, do func() error) error {
	if o.fault != nil {
		if err := o.fault(name); err != nil {
			return err
		}
	}
	return do()
}

// checkTarget refuses what rename would refuse less clearly, or only after
// the data were written.
func checkTarget(path string) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return errors.New("is a folder, expected a file or nothing")
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("folder %s does not exist", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return notFolder(dir)
	case err != nil:
		return cause(err)
	case !info.IsDir():
		return notFolder(dir)
	}
	return nil
}

// MkdirAll makes the folder path and its missing parents, like os.MkdirAll.
// Its error names the part of path that is in the way.
func MkdirAll(path string, perm fs.FileMode) error {
	err := os.MkdirAll(path, perm)
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("make folder %s: %w", path, notFolder(path))
	}
	return fmt.Errorf("make folder %s: %w", path, err)
}

// notFolder says which part of path exists and is not a folder.
func notFolder(path string) error {
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			return fmt.Errorf("%s is %s, expected a folder (%w)", p, kind(info), syscall.ENOTDIR)
		}
		if p == filepath.Dir(p) {
			return syscall.ENOTDIR
		}
	}
}

func kind(info fs.FileInfo) string {
	if info.Mode().IsRegular() {
		return "a regular file"
	}
	return "not a folder (" + info.Mode().Type().String() + ")"
}

// RemoveTemp removes the temporary files that killed processes left in dir.
// Call it only where no other process writes, for instance once a run is
// locked and about to be resumed.
func RemoveTemp(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || !strings.HasPrefix(name, ".") || !strings.Contains(name, tempMark) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// syncFolder makes a rename in dir durable.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // some file systems cannot sync folders
	}
	return err
}

// cause drops the temporary path that an error of os carries.
func cause(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) && strings.Contains(pathErr.Path, tempMark) {
		return pathErr.Err
	}
	var linkErr *os.LinkError
	if errors.As(err, &linkErr) {
		return linkErr.Err
	}
	return err
}
