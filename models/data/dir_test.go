package data

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aviary-audit/aviary/internal/npz"
)

// files makes a folder with these files.
func files(t *testing.T, content map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range content {
		file(t, dir, name, b)
	}
	return dir
}

func fourNpz(t *testing.T, names ...string) []byte {
	t.Helper()
	var arrays []npz.Named
	for i, name := range names {
		a := npz.Array{Shape: []int{4, 2, 3}, Data: counting(24)}
		if i%2 == 1 {
			a = npz.Array{Shape: []int{4}, Data: []int32{1, 0, 2, 1}}
		}
		arrays = append(arrays, npz.Named{Name: name, Array: a})
	}
	return npzBytes(t, arrays...)
}

func TestOpenDir(t *testing.T) {
	imagesNpy := npyBytes(t, npz.Array{Shape: []int{4, 2, 3}, Data: counting(24)})
	labelsNpy := npyBytes(t, npz.Array{Shape: []int{4}, Data: []int32{1, 0, 2, 1}})
	for name, content := range map[string]map[string][]byte{
		"idx": {
			"train-images-idx3-ubyte": images4, "train-labels-idx1-ubyte": labels4,
			"t10k-images-idx3-ubyte": images4, "t10k-labels-idx1-ubyte": labels4,
		},
		"idx gz": {
			"train-images-idx3-ubyte.gz": zipped(images4), "train-labels-idx1-ubyte.gz": zipped(labels4),
			"t10k-images-idx3-ubyte.gz": zipped(images4), "t10k-labels-idx1-ubyte.gz": zipped(labels4),
		},
		"idx mixed": {
			"train-images.idx3-ubyte": images4, "train-labels-idx1-ubyte.gz": zipped(labels4),
			"test-images-idx3-ubyte": images4, "test-labels.idx1-ubyte": labels4, "README": nil,
		},
		"npz pair": {"train.npz": fourNpz(t, "x", "y"), "test.npz": fourNpz(t, "images", "labels")},
		"npz one":  {"digits.npz": fourNpz(t, "x_train", "y_train", "x_test", "y_test")},
		"npz med":  {"pathmnist.npz": fourNpz(t, "train_images", "train_labels", "val_images", "val_labels", "test_images", "test_labels")},
		"npy": {
			"x_train.npy": imagesNpy, "y_train.npy": labelsNpy, "x_test.npy": imagesNpy, "y_test.npy": labelsNpy,
		},
	} {
		train, test, err := OpenDir(files(t, content), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		isFour(t, train, 1./255, 2, 3, 1)
		isFour(t, test, 1./255, 2, 3, 1)
	}
}

func TestOpenNpzFile(t *testing.T) {
	path := file(t, t.TempDir(), "digits.npz", fourNpz(t, "x_train", "y_train", "x_test", "y_test"))
	train, test, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	isFour(t, train, 1./255, 2, 3, 1)
	isFour(t, test, 1./255, 2, 3, 1)
	if train.Name() != "digits" {
		t.Errorf("name %q, want digits", train.Name())
	}
}

// Without a test set, a share is split off; the same one every time.
func TestOpenDirWithoutTestSet(t *testing.T) {
	pixels, labels := counting(200), make([]byte, 100)
	for i := range labels {
		labels[i] = byte(i % 4)
	}
	idx := map[string][]byte{
		"train-images-idx3-ubyte": idxBytes([]int{100, 2}, pixels), "train-labels-idx1-ubyte": idxBytes([]int{100}, labels),
	}
	one := map[string][]byte{"all.npz": npzBytes(t,
		npz.Named{Name: "images", Array: npz.Array{Shape: []int{100, 2}, Data: pixels}},
		npz.Named{Name: "labels", Array: npz.Array{Shape: []int{100}, Data: labels}})}
	for _, content := range []map[string][]byte{idx, one} {
		var first []float32
		for range 2 {
			train, test, err := OpenDir(files(t, content), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if train.Len() != 80 || test.Len() != 20 || test.Classes() != 4 {
				t.Fatalf("%d + %d examples, want 80 + 20", train.Len(), test.Len())
			}
			seen := map[float32]bool{}
			var firsts []float32
			x := make([]float32, 2)
			for _, s := range []*Set{train, test} {
				for i := range s.Len() {
					label := s.Example(i, x)
					seen[x[0]] = true
					firsts = append(firsts, x[0])
					if want := int(x[0]*255/2+0.5) % 4; label != want {
						t.Fatalf("example %v has label %d, want %d", x, label, want)
					}
				}
			}
			if len(seen) != 100 {
				t.Errorf("%d examples in both parts together, want 100", len(seen))
			}
			if first == nil {
				first = firsts
			}
			for i := range first {
				if first[i] != firsts[i] {
					t.Fatal("a second split differs")
				}
			}
		}
	}
	train, test, err := OpenDir(files(t, idx), Options{Holdout: 0.05, Classes: 7})
	if err != nil || train.Len() != 95 || test.Len() != 5 || train.Classes() != 7 {
		t.Error(train, test, err)
	}
	for _, holdout := range []float64{-1, 0.001, 0.999, 1, 2} {
		_, _, err = OpenDir(files(t, idx), Options{Holdout: holdout})
		says(t, err, "leaves nothing on one side")
	}
}

func TestOpenDirRefuses(t *testing.T) {
	good := map[string][]byte{
		"train-images-idx3-ubyte": images4, "train-labels-idx1-ubyte": labels4,
		"t10k-images-idx3-ubyte": images4, "t10k-labels-idx1-ubyte": labels4,
	}
	for name, c := range map[string]struct {
		change map[string][]byte // nil removes the file
		want   string
	}{
		"no train labels": {map[string][]byte{"train-labels-idx1-ubyte": nil}, "there is train-images-idx3-ubyte, but no train-labels-idx1-ubyte"},
		"no train images": {map[string][]byte{"train-images-idx3-ubyte": nil}, "there is train-labels-idx1-ubyte, but no train-images-idx3-ubyte"},
		"no test labels":  {map[string][]byte{"t10k-labels-idx1-ubyte": nil}, "there is t10k-images-idx3-ubyte, but no t10k-labels-idx1-ubyte"},
		"no train": {map[string][]byte{"train-images-idx3-ubyte": nil, "train-labels-idx1-ubyte": nil},
			"there is t10k-images-idx3-ubyte, but no train-images-idx3-ubyte"},
		"test label":   {map[string][]byte{"t10k-labels-idx1-ubyte": idxBytes([]int{4}, []byte{0, 1, 2, 3})}, "t10k-labels-idx1-ubyte: label 3 of example 3 is out of range, expected 0 to 2"},
		"test shape":   {map[string][]byte{"t10k-images-idx3-ubyte": idxBytes([]int{4, 3, 2}, counting(24))}, "t10k-images-idx3-ubyte: examples of shape [3 2 1], expected [2 3 1] as in "},
		"cut":          {map[string][]byte{"train-images-idx3-ubyte": images4[:20]}, "train-images-idx3-ubyte: truncated"},
		"disagreement": {map[string][]byte{"t10k-labels-idx1-ubyte": idxBytes([]int{5}, []byte{0, 1, 2, 1, 0})}, "t10k-images-idx3-ubyte has 4 images, but "},
	} {
		t.Run(name, func(t *testing.T) {
			content := map[string][]byte{}
			for n, b := range good {
				content[n] = b
			}
			for n, b := range c.change {
				content[n] = b
				if b == nil {
					delete(content, n)
				}
			}
			dir := files(t, content)
			_, _, err := OpenDir(dir, Options{})
			says(t, err, c.want, dir)
		})
	}

	for name, c := range map[string]struct {
		content map[string][]byte
		want    string
	}{
		"empty":        {nil, "no data set found"},
		"other files":  {map[string][]byte{"a.png": nil, "b.png": nil}, "the folder holds a.png, b.png"},
		"test alone":   {map[string][]byte{"test.npz": fourNpz(t, "x", "y")}, "there is test.npz, but no train.npz"},
		"two npz":      {map[string][]byte{"a.npz": nil, "b.npz": nil}, "there are 2 .npz files"},
		"no labels":    {map[string][]byte{"a.npz": fourNpz(t, "images")}, "a.npz: holds the arrays [images], expected x_train and y_train, or X_train and y_train, or train_images and train_labels, or images and labels, or x and y, "},
		"no test y":    {map[string][]byte{"a.npz": fourNpz(t, "x_train", "y_train", "x_test")}, "a.npz: holds the arrays [x_train, y_train, x_test], expected x_test and y_test"},
		"no train npz": {map[string][]byte{"a.npz": fourNpz(t, "x_test", "y_test")}, "expected x_train and y_train"},
		"broken npz":   {map[string][]byte{"train.npz": []byte("PK")}, "train.npz: not an npz file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := files(t, c.content)
			_, _, err := OpenDir(dir, Options{})
			says(t, err, c.want, dir)
		})
	}

	path := file(t, t.TempDir(), "plain", nil)
	_, _, err := OpenDir(path, Options{})
	says(t, err, path+" is a file, expected a folder")
	_, _, err = Open("mnits", Options{})
	says(t, err, `data set "mnits"`, "expected mnist, mnist-t10k, a folder")
	_, _, err = Open(filepath.Join(t.TempDir(), "none"), Options{})
	if !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestMNISTAbsent(t *testing.T) {
	t.Setenv("AVIARY_DATA", t.TempDir())
	_, _, err := Open("mnist", Options{})
	says(t, err, "`make data`", filepath.Join(os.Getenv("AVIARY_DATA"), "mnist"))

	// What is there, but is not MNIST, is not taken for it.
	dir := filepath.Join(os.Getenv("AVIARY_DATA"), "mnist")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	_, _, err = Open("mnist", Options{})
	says(t, err, "`make data`", "no data set found")
	file(t, dir, "train-images-idx3-ubyte", images4)
	file(t, dir, "train-labels-idx1-ubyte", labels4)
	_, _, err = Open("mnist", Options{})
	says(t, err, "`make data`", "expected 60000 + 10000")
}
