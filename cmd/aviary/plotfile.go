package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// checkPlot refuses a path of --NAME that a plot could not be written to, before
// anything is computed: a file is made under another name beside it and then
// takes its place, which must not be that of a device or of an input.
func checkPlot(name, path string, inputs ...string) error {
	if path == "" {
		return usageError("", "--%s is empty, expected the name of a file", name)
	}
	if info, err := os.Stat(path); err == nil {
		if !info.Mode().IsRegular() {
			return usageError("", "--%s is %s, expected a file or nothing there, not %s", name, path, kindOfFile(info))
		}
		for _, input := range inputs {
			if other, err := os.Stat(input); err == nil && os.SameFile(info, other) {
				return usageError("", "--%s is %s, which is read and would be lost", name, path)
			}
		}
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return usageError("", "--%s is %s, but there is no folder %s", name, path, dir)
	case !info.IsDir():
		return usageError("", "--%s is %s, but %s is no folder", name, path, dir)
	case unix.Access(dir, unix.W_OK|unix.X_OK) != nil:
		return usageError("", "--%s is %s, but nothing may be written into folder %s", name, path, dir)
	}
	return nil
}

func kindOfFile(info os.FileInfo) string {
	if info.IsDir() {
		return "a folder"
	}
	return fmt.Sprintf("a special file (%v)", info.Mode().Type())
}
