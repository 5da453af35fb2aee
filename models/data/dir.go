package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// DefaultHoldout is the share of a data set without a test set that becomes
// the test set.
const DefaultHoldout = 0.2

// Options says what files leave open.
type Options struct {
	// Classes is the number of classes. 0 means the largest label of the
	// training set + 1; then each class must have an example there, so that a
	// damaged label is not taken for a new class.
	Classes int
	// Holdout is the share of examples that becomes the test set where the
	// files have none, see Set.Split. 0 means DefaultHoldout.
	Holdout float64
}

// OpenDir reads the training and the test set in a folder. It looks for these
// files, in this order:
//
//   - IDX, plain or gzip: {train,t10k,test}-{images-idx3,labels-idx1}-ubyte[.gz],
//     also with a dot before idx
//   - train.npz and test.npz, each with arrays as LoadNpz reads them
//   - x_train.npy, y_train.npy, x_test.npy, y_test.npy, or images.npy and
//     labels.npy
//   - one other .npz file, with x_train, y_train, x_test and y_test (or
//     train_images…), or one set as LoadNpz reads it
//
// Where there is no test set, a share of the training set is split off. A test
// set without its labels is an error, not such a case.
func OpenDir(dir string, o Options) (train, test *Set, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
			return nil, nil, fmt.Errorf("%s is a file, expected a folder", dir)
		}
		return nil, nil, err
	}
	f := folder{dir: dir, has: map[string]bool{}}
	for _, e := range entries {
		if !e.IsDir() {
			f.names = append(f.names, e.Name())
			f.has[e.Name()] = true
		}
	}
	trainSource, testSource, err := f.open()
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Base(dir)
	if abs, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(abs)
	}
	return finish(name, trainSource, testSource, o)
}

// folder is the files of a folder.
type folder struct {
	dir   string
	names []string
	has   map[string]bool
}

func (f folder) path(name string) string { return filepath.Join(f.dir, name) }

// first is the first of these files that is there, or "".
func (f folder) first(names ...string) string {
	for _, name := range names {
		if f.has[name] {
			return name
		}
	}
	return ""
}

func (f folder) open() (train, test *source, err error) {
	for _, find := range []func() (train, test *source, err error){f.idx, f.npzPair, f.npy, f.npzBoth} {
		train, test, err = find()
		if train != nil || err != nil {
			return train, test, err
		}
	}
	return nil, nil, fmt.Errorf("%s: no data set found; expected train-images-idx3-ubyte[.gz] and its companions, "+
		"train.npz, x_train.npy and y_train.npy, or one .npz file; the folder holds %s", f.dir, f.list())
}

func (f folder) list() string {
	const shown = 8
	switch n := len(f.names); {
	case n == 0:
		return "no files"
	case n > shown:
		return strings.Join(f.names[:shown], ", ") + fmt.Sprintf(" and %d more", n-shown)
	}
	return strings.Join(f.names, ", ")
}

// two finds the files of images and of labels among their possible names. To
// find only one is an error; to find neither is not.
func (f folder) two(images, labels []string) (x, y string, err error) {
	x, y = f.first(images...), f.first(labels...)
	switch {
	case x != "" && y == "":
		return "", "", fmt.Errorf("%s: there is %s, but no %s", f.dir, x, labels[0])
	case x == "" && y != "":
		return "", "", fmt.Errorf("%s: there is %s, but no %s", f.dir, y, images[0])
	}
	return x, y, nil
}

// sets opens a training and perhaps a test set that are pairs of files.
func (f folder) sets(open func(x, y string) (*source, error), files [4][]string) (train, test *source, err error) {
	x, y, err := f.two(files[0], files[1])
	if err != nil {
		return nil, nil, err
	}
	testX, testY, err := f.two(files[2], files[3])
	if err != nil || x == "" && testX == "" {
		return nil, nil, err
	}
	if x == "" {
		return nil, nil, fmt.Errorf("%s: there is %s, but no %s", f.dir, testX, files[0][0])
	}
	if train, err = open(f.path(x), f.path(y)); err != nil || testX == "" {
		return train, nil, err
	}
	test, err = open(f.path(testX), f.path(testY))
	return train, test, err
}

func (f folder) idx() (train, test *source, err error) {
	return f.sets(openIDXPair, [4][]string{
		idxNames("images", 3, "train"), idxNames("labels", 1, "train"),
		idxNames("images", 3, "t10k", "test"), idxNames("labels", 1, "t10k", "test"),
	})
}

// idxNames is the usual names of one of the four files, plain ones first.
func idxNames(what string, dims int, sets ...string) []string {
	var names []string
	for _, gz := range []string{"", ".gz"} {
		for _, set := range sets {
			for _, sep := range []string{"-", "."} {
				names = append(names, fmt.Sprintf("%s-%s%sidx%d-ubyte%s", set, what, sep, dims, gz))
			}
		}
	}
	return names
}

func (f folder) npy() (train, test *source, err error) {
	return f.sets(openNpyPair, [4][]string{
		{"x_train.npy", "X_train.npy", "images.npy"}, {"y_train.npy", "labels.npy"},
		{"x_test.npy", "X_test.npy"}, {"y_test.npy"},
	})
}

func (f folder) npzPair() (train, test *source, err error) {
	switch {
	case !f.has["train.npz"] && f.has["test.npz"]:
		return nil, nil, fmt.Errorf("%s: there is test.npz, but no train.npz", f.dir)
	case !f.has["train.npz"]:
		return nil, nil, nil
	}
	if train, err = openNpz(f.path("train.npz")); err != nil || !f.has["test.npz"] {
		return train, nil, err
	}
	test, err = openNpz(f.path("test.npz"))
	return train, test, err
}

func (f folder) npzBoth() (train, test *source, err error) {
	var found []string
	for _, name := range f.names {
		if strings.HasSuffix(name, ".npz") {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return nil, nil, nil
	case 1:
		return openNpzBoth(f.path(found[0]))
	}
	return nil, nil, fmt.Errorf("%s: there are %d .npz files (%s, %s…), expected one, or train.npz and test.npz",
		f.dir, len(found), found[0], found[1])
}

// Open opens a data set by name:
//
//   - "mnist": the 60,000 and 10,000 digits of MNIST, which `make data` puts
//     into the folder mnist below $AVIARY_DATA, or below ./data if that is not
//     set
//   - "mnist-t10k": the 10,000 test digits, which are built in; 8,000 are for
//     training and 2,000 for testing, see Set.Split
//   - else a folder, see OpenDir, or an .npz file with one or both sets
func Open(name string, o Options) (train, test *Set, err error) {
	switch {
	case name == "mnist":
		return openMNIST(o)
	case name == "mnist-t10k":
		return openT10k(o)
	case strings.HasSuffix(name, ".npz"):
		trainSource, testSource, err := openNpzBoth(name)
		if err != nil {
			return nil, nil, err
		}
		return finish(strings.TrimSuffix(filepath.Base(name), ".npz"), trainSource, testSource, o)
	}
	train, test, err = OpenDir(name, o)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsRune(name, os.PathSeparator) {
		return nil, nil, fmt.Errorf("data set %q: %w; expected mnist, mnist-t10k, a folder or an .npz file", name, err)
	}
	return train, test, err
}
