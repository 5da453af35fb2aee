package npz

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// maxRatio is the most that deflate can shrink data (zlib's documentation,
// "Maximum Compression Factor": 1032:1), rounded up. An entry that claims
// more is lying about its size.
const maxRatio = 1100

// Reader is an open .npz file.
type Reader struct {
	path  string
	file  *os.File
	size  int64 // of the file, in bytes
	names []string
	files map[string]*zip.File
}

// Open opens an .npz file and reads its list of arrays.
func Open(path string) (*Reader, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{path: path, file: file, files: map[string]*zip.File{}}
	if err := r.readDirectory(); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Reader) readDirectory() error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file, expected an npz file")
	}
	r.size = info.Size()
	z, err := zip.NewReader(r.file, r.size)
	if errors.Is(err, zip.ErrFormat) {
		return errors.New("not an npz file: no zip directory found (truncated, or of another kind)")
	}
	if err != nil {
		return err
	}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			continue // numpy reads such entries as bytes, not as arrays
		}
		if r.files[name] != nil {
			return fmt.Errorf("array %q is there twice", name)
		}
		r.names = append(r.names, name)
		r.files[name] = f
	}
	return nil
}

// Close closes the file.
func (r *Reader) Close() error { return r.file.Close() }

// Names lists the arrays in the file's order.
func (r *Reader) Names() []string { return slices.Clone(r.names) }

// Has reports whether there is an array of this name.
func (r *Reader) Has(name string) bool { return r.files[name] != nil }

// Array reads one array.
func (r *Reader) Array(name string) (Array, error) {
	f := r.files[name]
	if f == nil {
		return Array{}, fmt.Errorf("%s: no array %q; it holds %s", r.path, name, r.list())
	}
	a, err := readEntry(f, r.size)
	if err != nil {
		return Array{}, fmt.Errorf("%s: array %q: %w", r.path, name, err)
	}
	return a, nil
}

func (r *Reader) list() string {
	if len(r.names) == 0 {
		return "no arrays"
	}
	return strings.Join(r.names, ", ")
}

// readEntry reads an array from a zip file of fileSize bytes. Sizes are checked
// first, since memory is taken by what they say.
func readEntry(f *zip.File, fileSize int64) (Array, error) {
	if f.CompressedSize64 > uint64(fileSize) || f.UncompressedSize64/maxRatio > f.CompressedSize64 {
		return Array{}, fmt.Errorf("damaged: %d bytes, packed into %d, cannot be in a file of %d",
			f.UncompressedSize64, f.CompressedSize64, fileSize)
	}
	body, err := f.Open()
	if err != nil {
		return Array{}, err
	}
	defer body.Close()
	a, err := readNpy(body, int64(f.UncompressedSize64))
	if errors.Is(err, zip.ErrChecksum) {
		return Array{}, errors.New("damaged: the checksum is wrong")
	}
	return a, err
}

// ReadFile reads all arrays of an .npz file.
func ReadFile(path string) (map[string]Array, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	arrays := map[string]Array{}
	for _, name := range r.names {
		if arrays[name], err = r.Array(name); err != nil {
			return nil, err
		}
	}
	return arrays, nil
}

// Named is an array and its name in an .npz file.
type Named struct {
	Name string
	Array
}

// Write writes an .npz file with the arrays in the given order and without
// compression: the same arrays give the same bytes.
func Write(w io.Writer, arrays ...Named) error {
	z := zip.NewWriter(w)
	seen := map[string]bool{}
	for _, a := range arrays {
		if a.Name == "" || seen[a.Name] {
			return fmt.Errorf("write npz: array name %q is empty or there twice", a.Name)
		}
		seen[a.Name] = true
		// Modified stays zero: no time in the file.
		entry, err := z.CreateHeader(&zip.FileHeader{Name: a.Name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		if err := WriteNpy(entry, a.Array); err != nil {
			return fmt.Errorf("array %q: %w", a.Name, err)
		}
	}
	return z.Close()
}
