package journal

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock makes sure that no other process has the journal open. The lock ends
// with the process, however it ends.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return errors.New("in use by another process")
	case errors.Is(err, errors.ErrUnsupported), errors.Is(err, unix.ENOLCK):
		return nil // some network file systems cannot lock
	}
	return err
}

// syncFolder makes a new file in dir durable.
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
