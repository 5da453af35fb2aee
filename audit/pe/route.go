package pe

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/kernels"
)

const (
	queryBlock = 8192 // records routed at once
	// MaxK is the largest number of votes of a record.
	MaxK = 64
)

// found is how many candidates the device finds where k are wanted: rounding to
// bytes reorders them, and those that may be among the k are to be in the list.
func found(k int) int { return min(2*k+17, kernels.MaxTopK) }

// Bank is candidates and the slots that they are in.
type Bank struct {
	X    *records.Matrix
	Slot []int32 // of each row, ascending; nil: the row's number
}

func (b Bank) slot(row int32) int32 {
	if b.Slot == nil {
		return row
	}
	return b.Slot[row]
}

// Route finds the k nearest candidates of each record by Euclidean distance;
// equal ones by slot. Distances are those of sqDist, exact to the last bit on
// every device. The device finds more than k candidates by scores that are
// rounded, to bytes at first; where that could have hidden a nearer one it does so
// again in float32, and where that could, all distances of the record are taken.
// Records are read in blocks, and no matrix of records by candidates exists.
// told, if not nil, hears the number of records done.
func Route(ctx context.Context, dev kernels.Device, queries records.Vectors, bank Bank, k int, told func(done int)) (*Nearest, error) {
	if err := checkRoute(queries, bank, k); err != nil {
		return nil, err
	}
	r, err := newRouter(dev, bank, k, min(queries.Len(), queryBlock))
	if err != nil {
		return nil, err
	}
	defer r.free()
	n := queries.Len()
	out := &Nearest{K: k, Slot: make([]int32, n*k), Dist: make([]float64, n*k)}
	x := make([]float32, min(n, queryBlock)*queries.Dim())
	for from := 0; from < n; from += queryBlock {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rows := min(queryBlock, n-from)
		block := x[:rows*queries.Dim()]
		if err := queries.Read(from, block); err != nil {
			return nil, err
		}
		if err := r.route(block, from, out); err != nil {
			return nil, err
		}
		if told != nil {
			told(from + rows)
		}
	}
	return out, nil
}

func checkRoute(queries records.Vectors, bank Bank, k int) error {
	p := bank.X.Len()
	switch {
	case queries.Dim() != bank.X.Dim():
		return fmt.Errorf("pe: records have %d dimensions and candidates %d: were they embedded by different encoders?", queries.Dim(), bank.X.Dim())
	case queries.Dim() > kernels.MaxTopKDim:
		return fmt.Errorf("pe: vectors of %d dimensions, expected at most %d", queries.Dim(), kernels.MaxTopKDim)
	case k < 1 || k > MaxK || k > p:
		return fmt.Errorf("pe: k: %d, expected 1 to %d, and at most the %d candidates", k, MaxK, p)
	case bank.Slot != nil && len(bank.Slot) != p:
		return fmt.Errorf("pe: %d slots for %d candidates", len(bank.Slot), p)
	}
	for i := 1; i < len(bank.Slot); i++ {
		if bank.Slot[i] <= bank.Slot[i-1] {
			return fmt.Errorf("pe: slot %d follows slot %d, expected them to ascend", bank.Slot[i], bank.Slot[i-1])
		}
	}
	for i := range p {
		if err := finiteRow("candidates", i, bank.X.Row(i)); err != nil {
			return err
		}
	}
	return nil
}

// router holds a bank on a device.
type router struct {
	dev     kernels.Device
	bank    *distinct
	k, wide int // wanted, and found by the device
	turn    rotation
	bytes   *byteRows // the bank, turned
	query   *byteRows // a block of records, likewise
	noBytes bool      // they decide too little: float32 comes first

	floatBound, byteBound bound
	mems                  []kernels.Mem
	b, half               kernels.Mem // candidates [P, D], and -|b|²/2
	b8, scale8, half8     kernels.Mem // the same of bytes
	q, q8, qScale         kernels.Mem // a block of records
	score, slot           kernels.Mem // lists [block, wide]
	hostScore             []float32
	hostSlot              []int32
}

// newRouter makes one for up to block records at once.
func newRouter(dev kernels.Device, bank Bank, k, block int) (*router, error) {
	different := newDistinct(bank, k)
	x := different.x
	p, d := x.Len(), x.Dim()
	words := byteWords(d)
	r := &router{dev: dev, bank: different, k: k, wide: min(found(k), p), turn: newRotation(x)}
	r.bytes, r.query = newByteRows(p, d), newByteRows(block, d)
	half, half8 := make([]float64, p), make([]float64, p)
	scratch := make([]float64, d)
	for i := range p {
		r.bytes.set(i, x.Row(i), r.turn, scratch)
		square := sqNorm(x.Row(i))
		half[i], half8[i] = -square/2, -r.bytes.size[i]*r.bytes.size[i]/2
		r.floatBound.norm = math.Max(r.floatBound.norm, math.Sqrt(square))
	}
	r.floatBound.dim, r.byteBound.dim = d, d
	r.byteBound.norm, r.byteBound.off = slices.Max(r.bytes.size), slices.Max(r.bytes.off)
	var err error
	alloc := func(kind kernels.Kind, n int) kernels.Mem {
		if err != nil {
			return kernels.Mem{}
		}
		var m kernels.Mem
		if m, err = dev.Alloc(kind, n); err == nil {
			r.mems = append(r.mems, m)
		}
		return m
	}
	r.b, r.half = alloc(kernels.Elem, p*d), alloc(kernels.Elem, p)
	r.b8, r.scale8, r.half8 = alloc(kernels.Int32, p*words), alloc(kernels.Elem, p), alloc(kernels.Elem, p)
	r.q, r.q8, r.qScale = alloc(kernels.Elem, block*d), alloc(kernels.Int32, block*words), alloc(kernels.Elem, block)
	r.score, r.slot = alloc(kernels.Elem, block*r.wide), alloc(kernels.Int32, block*r.wide)
	if err != nil {
		r.free()
		return nil, err
	}
	dev.UploadF32(r.b, x.X)
	dev.UploadF64(r.half, half)
	dev.UploadInts(r.b8, r.bytes.words)
	dev.UploadF32(r.scale8, r.bytes.scale)
	dev.UploadF64(r.half8, half8)
	r.hostScore, r.hostSlot = make([]float32, block*r.wide), make([]int32, block*r.wide)
	return r, dev.Sync()
}

func (r *router) free() {
	for _, m := range r.mems {
		r.dev.Free(m)
	}
}

// route finds the nearest of a block of records, the first of which is number
// first. It uses x up.
func (r *router) route(x []float32, first int, out *Nearest) error {
	d := r.bank.x.Dim()
	row := func(i int) []float32 { return x[i*d : (i+1)*d] }
	rows := len(x) / d
	scratch := sync.Pool{New: func() any { y := make([]float64, d); return &y }}
	err := parallel(rows, func(i int) error {
		y := scratch.Get().(*[]float64)
		defer scratch.Put(y)
		if !r.query.set(i, row(i), r.turn, *y) {
			return finiteRow("records", first+i, row(i))
		}
		return nil
	})
	if err != nil {
		return err
	}
	place := func(i int) ([]int32, []float64) {
		at := (first + i) * r.k
		return out.Slot[at : at+r.k], out.Dist[at : at+r.k]
	}
	open := make([]bool, rows) // not certain yet
	if r.noBytes {
		for i := range open {
			open[i] = true
		}
	} else {
		if err := r.findByBytes(rows); err != nil {
			return err
		}
		parallel(rows, func(i int) error {
			slots, dists := place(i)
			open[i] = !r.settle(row(i), i, r.byteQuery(i), slots, dists)
			return nil
		})
	}
	// The records that are open move to the front of x.
	var which []int
	for i, o := range open {
		if o {
			copy(row(len(which)), row(i))
			which = append(which, i)
		}
	}
	if len(which) == 0 {
		return nil
	}
	r.noBytes = 2*len(which) > rows
	if err := r.findByFloats(x[:len(which)*d]); err != nil {
		return err
	}
	return parallel(len(which), func(i int) error {
		slots, dists := place(which[i])
		if !r.settle(row(i), i, r.floatBound.of(math.Sqrt(sqNorm(row(i))), 0), slots, dists) {
			r.takeAll(row(i), slots, dists)
		}
		return nil
	})
}

// findByBytes fills the lists of the first rows of query.
func (r *router) findByBytes(rows int) error {
	words := byteWords(r.bank.x.Dim())
	q, scale := r.q8.Slice(0, rows*words), r.qScale.Slice(0, rows)
	r.dev.UploadInts(q, r.query.words[:rows*words])
	r.dev.UploadF32(scale, r.query.scale[:rows])
	r.dev.TopKBytes(r.score.Slice(0, rows*r.wide), r.slot.Slice(0, rows*r.wide), q, r.b8, scale, r.scale8, r.half8, r.search(rows, 4*words))
	return r.download(rows)
}

// findByFloats fills the lists of x.
func (r *router) findByFloats(x []float32) error {
	d := r.bank.x.Dim()
	rows := len(x) / d
	q := r.q.Slice(0, len(x))
	r.dev.UploadF32(q, x)
	r.dev.TopK(r.score.Slice(0, rows*r.wide), r.slot.Slice(0, rows*r.wide), q, r.b, r.half, r.search(rows, d))
	return r.download(rows)
}

func (r *router) search(rows, dim int) kernels.TopK {
	return kernels.TopK{Queries: rows, Bank: r.bank.x.Len(), Dim: dim, K: r.wide}
}

func (r *router) download(rows int) error {
	if err := r.dev.DownloadF32(r.hostScore[:rows*r.wide], r.score.Slice(0, rows*r.wide)); err != nil {
		return err
	}
	return r.dev.DownloadInts(r.hostSlot[:rows*r.wide], r.slot.Slice(0, rows*r.wide))
}

// byteQuery is the bound for row i of query.
func (r *router) byteQuery(i int) queryBound { return r.byteBound.of(r.query.size[i], r.query.off[i]) }

// settle finds the k nearest among the candidates in list i by their exact
// distances, and says whether they are certain to be those of the whole bank.
func (r *router) settle(q []float32, i int, b queryBound, slots []int32, dists []float64) bool {
	rows, scores := r.hostSlot[i*r.wide:(i+1)*r.wide], r.hostScore[i*r.wide:(i+1)*r.wide]
	best := bestList{slots, dists, 0}
	for j := 0; j < len(rows); j += 4 {
		if best.full() && b.farther(scores[j], best.last()) {
			return true // and so are those that follow, and those that were not found
		}
		if slices.Contains(rows[j:min(j+4, len(rows))], -1) {
			return false // scores that are no numbers
		}
		r.take(&best, q, rows[j:min(j+4, len(rows))])
	}
	return r.wide == r.bank.x.Len() || b.farther(scores[len(scores)-1], best.last())
}

// takeAll finds the k nearest of the whole bank by their exact distances.
func (r *router) takeAll(q []float32, slots []int32, dists []float64) {
	best := bestList{slots, dists, 0}
	for j := int32(0); int(j) < r.bank.x.Len(); j += 4 {
		rows := []int32{j, j + 1, j + 2, j + 3}
		r.take(&best, q, rows[:min(4, r.bank.x.Len()-int(j))])
	}
}

// take puts up to four rows of the bank into the list.
func (r *router) take(best *bestList, q []float32, rows []int32) {
	x := r.bank.x
	if len(rows) < 4 {
		for _, row := range rows {
			best.putAll(sqDist(q, x.Row(int(row))), r.bank.slots[row])
		}
		return
	}
	d := sqDist4(q, x.Row(int(rows[0])), x.Row(int(rows[1])), x.Row(int(rows[2])), x.Row(int(rows[3])))
	for i, row := range rows {
		best.putAll(d[i], r.bank.slots[row])
	}
}

// parallel calls do for 0 to n-1 from several goroutines, and returns the error
// of the lowest i that has one.
func parallel(n int, do func(i int) error) error {
	const chunk = 16
	errs := make([]error, (n+chunk-1)/chunk)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(errs)) {
		wait.Go(func() {
			for {
				c := int(next.Add(1)) - 1
				if c >= len(errs) {
					return
				}
				for i := c * chunk; i < min(n, (c+1)*chunk) && errs[c] == nil; i++ {
					errs[c] = do(i)
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
