package scoreio

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/aviary-audit/aviary/audit"
	"github.com/aviary-audit/aviary/internal/npz"
)

// WriteCanaries writes canary sets of one shape as an npz file with the arrays
//
//	images  [m, shape of an example...] float32
//	labels  [m] int64
//	removed [m] int64: index in the training data of the example that the
//	        canary displaces, -1 for none
//	set     [m] int64: number of the set
//
// where m counts the canaries of all sets.
func WriteCanaries(w io.Writer, sets ...*audit.CanarySet) error {
	arrays, err := CanaryArrays(sets...)
	if err != nil {
		return err
	}
	return npz.Write(w, arrays...)
}

// CanaryArrays are the arrays that WriteCanaries writes, for files that hold
// more.
func CanaryArrays(sets ...*audit.CanarySet) ([]npz.Named, error) {
	if len(sets) == 0 {
		return nil, fmt.Errorf("canaries: no sets to write")
	}
	size := sets[0].Size
	var images []float32
	var labels, removed, number []int64
	for _, s := range sets {
		if !slices.Equal(s.Size, size) {
			return nil, fmt.Errorf("canaries: set %d has examples of shape %v, expected %v as in set %d", s.Set, s.Size, size, sets[0].Set)
		}
		if len(s.X) != s.Len()*product(size) || len(s.Removed) != s.Len() {
			return nil, fmt.Errorf("canaries: set %d has %d pixels and %d displaced examples for %d canaries of shape %v", s.Set, len(s.X), len(s.Removed), s.Len(), size)
		}
		images = append(images, s.X...)
		for i, y := range s.Y {
			labels = append(labels, int64(y))
			removed = append(removed, int64(s.Removed[i]))
			number = append(number, int64(s.Set))
		}
	}
	m := []int{len(labels)}
	return []npz.Named{
		{Name: "images", Array: npz.Array{Shape: slices.Concat(m, size), Data: images}},
		{Name: "labels", Array: npz.Array{Shape: m, Data: labels}},
		{Name: "removed", Array: npz.Array{Shape: m, Data: removed}},
		{Name: "set", Array: npz.Array{Shape: m, Data: number}},
	}, nil
}

// ReadCanaries reads a file as WriteCanaries writes it, and checks it against
// the training data d that the canaries are for: shape, labels, displaced
// examples (in range, none twice in a set), finite pixels, and no more canaries
// in a set than there are examples. Without the array set all canaries are in
// set 0. The sets come in ascending order of their numbers; method becomes
// their Method.
func ReadCanaries(path string, d audit.Dataset, method string) ([]*audit.CanarySet, error) {
	images, err := readImages(path, d.Shape())
	if err != nil {
		return nil, err
	}
	c, err := openColumns(path)
	if err != nil {
		return nil, err
	}
	defer c.close()
	size := product(d.Shape())
	c.rows = len(images) / size
	if !c.npz.Has("removed") {
		return nil, fmt.Errorf("%s: no array \"removed\", expected one with the index of the training example that each canary displaces, -1 for none", path)
	}
	labels, removed := c.integers("labels"), c.integers("removed")
	number := make([]int, c.rows)
	if c.npz.Has("set") {
		number = c.whole("set")
	}
	if c.err != nil {
		return nil, c.err
	}
	bySet := map[int]*audit.CanarySet{}
	displaced := map[[2]int]int{} // (set, index in d) → canary
	for i, s := range number {
		if err := checkCanary(path, i, images[i*size:(i+1)*size], labels[i], removed[i], d); err != nil {
			return nil, err
		}
		if r := removed[i]; r >= 0 {
			if j, twice := displaced[[2]int{s, r}]; twice {
				return nil, fmt.Errorf("%s: canaries %d and %d of set %d both displace example %d, expected it once", path, j, i, s, r)
			}
			displaced[[2]int{s, r}] = i
		}
		set := bySet[s]
		if set == nil {
			set = &audit.CanarySet{Method: method, Set: s, Size: d.Shape(), K: d.Classes()}
			bySet[s] = set
		}
		set.X = append(set.X, images[i*size:(i+1)*size]...)
		set.Y = append(set.Y, int32(labels[i]))
		set.Removed = append(set.Removed, removed[i])
	}
	sets := make([]*audit.CanarySet, 0, len(bySet))
	for s, set := range bySet {
		if set.Len() > d.Len() {
			return nil, fmt.Errorf("%s: set %d has %d canaries, expected at most the %d training examples", path, s, set.Len(), d.Len())
		}
		sets = append(sets, set)
	}
	slices.SortFunc(sets, func(a, b *audit.CanarySet) int { return a.Set - b.Set })
	return sets, nil
}

// readImages reads the array images and checks that it holds examples of this
// shape. A last dimension of 1, one channel, may be left out.
func readImages(path string, shape []int) ([]float32, error) {
	r, err := npz.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	a, err := r.Array("images")
	if err != nil {
		return nil, err
	}
	images, err := npz.Of[float32](a)
	if err != nil {
		return nil, fmt.Errorf("%s: array images: %w", path, err)
	}
	fits := len(a.Shape) > 0 && (slices.Equal(a.Shape[1:], shape) ||
		len(shape) > 1 && shape[len(shape)-1] == 1 && slices.Equal(a.Shape[1:], shape[:len(shape)-1]))
	if !fits {
		return nil, fmt.Errorf("%s: array images: shape is %v, expected %v as in the training data", path, a.Shape, append([]string{"m"}, words(shape)...))
	}
	if a.Shape[0] == 0 {
		return nil, fmt.Errorf("%s: array images: no canaries", path)
	}
	return images, nil
}

func checkCanary(path string, i int, pixels []float32, label, removed int, d audit.Dataset) error {
	if label < 0 || label >= d.Classes() {
		return fmt.Errorf("%s: canary %d: label is %d, expected 0 to %d", path, i, label, d.Classes()-1)
	}
	if removed < -1 || removed >= d.Len() {
		return fmt.Errorf("%s: canary %d: removed is %d, expected an example from 0 to %d, or -1 for none", path, i, removed, d.Len()-1)
	}
	for j, p := range pixels {
		if v := float64(p); math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: canary %d: pixel %d is %v, expected a finite number", path, i, j, p)
		}
	}
	return nil
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func words(shape []int) []string {
	w := make([]string, len(shape))
	for i, d := range shape {
		w[i] = strconv.Itoa(d)
	}
	return w
}
