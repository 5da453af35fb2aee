package atomicfile

import (
	"io"
	"syscall"
)

// FullAfter gives Options under which every file's disk is full after n bytes:
// the write that crosses n stores what fits and fails with ENOSPC. It is for
// tests, of this package and of those that write through it.
func FullAfter(n int64) Options {
	return Options{Wrap: func(w io.Writer) io.Writer { return &fullDisk{w: w, left: n} }}
}

type fullDisk struct {
	w    io.Writer
	left int64
}

func (d *fullDisk) Write(p []byte) (int, error) {
	if int64(len(p)) <= d.left {
		n, err := d.w.Write(p)
		d.left -= int64(n)
		return n, err
	}
	n, err := d.w.Write(p[:d.left])
	d.left -= int64(n)
	if err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}
