package data

import (
	"crypto/sha256"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The sums and counts are those of the original files.
func TestEmbeddedFiles(t *testing.T) {
	for name, want := range map[string]string{
		"mnist/t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
		"mnist/t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
	} {
		raw, err := t10k.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != want {
			t.Errorf("%s has the SHA-256 %s, want %s", name, got, want)
		}
	}
}

// figures are the label counts and the mean and standard deviation of all
// pixels, scaled to 0…1.
func figures(sets ...*Set) (counts []int, mean, sd float64) {
	counts = make([]int, sets[0].Classes())
	var n, sum, squares float64
	for _, s := range sets {
		x := make([]float32, s.size)
		for i := range s.Len() {
			counts[s.Example(i, x)]++
			for _, v := range x {
				n++
				sum += float64(v)
				squares += float64(v) * float64(v)
			}
		}
	}
	mean = sum / n
	return counts, mean, math.Sqrt(squares/n - mean*mean)
}

func checkFigures(t *testing.T, wantCounts []int, wantMean, wantSD float64, sets ...*Set) {
	t.Helper()
	counts, mean, sd := figures(sets...)
	if !slices.Equal(counts, wantCounts) {
		t.Errorf("label counts %v, want %v", counts, wantCounts)
	}
	// The figures are given to four decimals.
	if !(math.Abs(mean-wantMean) <= 0.5e-4) || !(math.Abs(sd-wantSD) <= 0.5e-4) {
		t.Errorf("mean %.6f and sd %.6f, want %v and %v", mean, sd, wantMean, wantSD)
	}
}

var t10kCounts = []int{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009}

func TestT10k(t *testing.T) {
	train, test, err := Open("mnist-t10k", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if train.Len() != 8000 || test.Len() != 2000 || train.Classes() != 10 || !slices.Equal(train.Shape(), []int{28, 28, 1}) {
		t.Errorf("%d + %d examples of shape %v, %d classes", train.Len(), test.Len(), train.Shape(), train.Classes())
	}
	checkFigures(t, t10kCounts, 0.1325, 0.3105, train, test)

	// The split is part of every result: these rows must not change.
	if got, want := test.rows[:8], []int{14, 21, 23, 32, 33, 39, 49, 50}; !slices.Equal(got, want) {
		t.Errorf("the test set begins with the rows %v, want %v", got, want)
	}
	all := slices.Concat(train.rows, test.rows)
	slices.Sort(all)
	if len(slices.Compact(all)) != 10000 {
		t.Error("training and test set overlap")
	}
}

// The full MNIST is tested where `make data` has put it.
func TestMNIST(t *testing.T) {
	root := os.Getenv("AVIARY_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "data")
	}
	if _, err := os.Stat(filepath.Join(root, "mnist")); err != nil {
		t.Skip("no MNIST; make data fetches it")
	}
	t.Setenv("AVIARY_DATA", root)
	train, test, err := Open("mnist", Options{})
	if err != nil {
		t.Fatal(err)
	}
	checkFigures(t, []int{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949}, 0.1307, 0.3081, train)
	checkFigures(t, t10kCounts, 0.1325, 0.3105, test)
}
