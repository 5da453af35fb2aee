package data

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// The test half of MNIST, 10,000 digits of 28×28 pixels; see mnist/NOTICE.
//
//go:embed mnist/t10k-images-idx3-ubyte.gz mnist/t10k-labels-idx1-ubyte.gz
var t10k embed.FS

var digit = []int{28, 28, 1}

func openT10k(o Options) (train, test *Set, err error) {
	s, err := readT10k()
	if err != nil {
		return nil, nil, fmt.Errorf("data set mnist-t10k: %w", err)
	}
	all, err := s.set("mnist-t10k", 10)
	if err != nil {
		return nil, nil, err
	}
	if o.Holdout == 0 {
		o.Holdout = DefaultHoldout
	}
	return all.Split(o.Holdout)
}

func readT10k() (*source, error) {
	const images, labels = "mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"
	x, err := embeddedIDX(images)
	if err != nil {
		return nil, err
	}
	y, err := embeddedIDX(labels)
	if err != nil {
		return nil, err
	}
	return pairIDX(images, labels, x, y)
}

func embeddedIDX(name string) (idx, error) {
	raw, err := t10k.ReadFile(name)
	if err != nil {
		return idx{}, err
	}
	return readIDX(bytes.NewReader(raw), int64(len(raw)), true)
}

// openMNIST opens the full MNIST, and nothing less: a folder that lacks a part
// of it must not become a smaller audit unnoticed.
func openMNIST(o Options) (train, test *Set, err error) {
	root := os.Getenv("AVIARY_DATA")
	if root == "" {
		root = "data"
	}
	dir := filepath.Join(root, "mnist")
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("data set mnist: there is no folder %s; `make data` fetches the digits, "+
			"or set AVIARY_DATA to the folder that mnist is in (mnist-t10k is built in)", dir)
	}
	o.Classes = 10
	train, test, err = OpenDir(dir, o)
	if err != nil {
		return nil, nil, fmt.Errorf("data set mnist: %w; `make data` fetches the digits", err)
	}
	if train.Len() != 60000 || test.Len() != 10000 || !slices.Equal(train.shape, digit) {
		return nil, nil, fmt.Errorf("data set mnist: %s holds %d + %d examples of shape %v, expected 60000 + 10000 of %v; `make data` fetches the digits",
			dir, train.Len(), test.Len(), train.shape, digit)
	}
	return train, test, nil
}
