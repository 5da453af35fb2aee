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
	spare      = 8    // candidates beyond k that the device finds
	// MaxK is the largest number of votes of a record.
	MaxK = 64
)

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
// every device: the device's float32 products find k and a few more, and where
// its rounding could have hidden a nearer one, all distances of that record are
// taken. Records are read in blocks, and no matrix of records by candidates
// exists. told, if not nil, hears the number of records done.
func Route(ctx context.Context, dev kernels.Device, queries records.Vectors, bank Bank, k int, told func(done int)) (*Nearest, error) {
	if err := checkRoute(queries, bank, k); err != nil {
		return nil, err
	}
	r, err := newRouter(dev, bank, k)
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
	dev       kernels.Device
	bank      Bank
	k, wide   int     // wanted, and found by the device
	norm      float64 // of the longest candidate
	mems      []kernels.Mem
	b, half   kernels.Mem // candidates [P, D], and -|b|²/2
	q         kernels.Mem // a block of records
	score     kernels.Mem
	slot      kernels.Mem
	hostScore []float64
	hostSlot  []int32
}

func newRouter(dev kernels.Device, bank Bank, k int) (*router, error) {
	p, d := bank.X.Len(), bank.X.Dim()
	r := &router{dev: dev, bank: bank, k: k, wide: min(k+spare, p)}
	half := make([]float64, p)
	for i := range p {
		s := 0.0
		for _, v := range bank.X.Row(i) {
			s += float64(v) * float64(v)
		}
		half[i] = -s / 2
		r.norm = math.Max(r.norm, math.Sqrt(s))
	}
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
	r.q = alloc(kernels.Elem, queryBlock*d)
	r.score, r.slot = alloc(kernels.Elem, queryBlock*r.wide), alloc(kernels.Int32, queryBlock*r.wide)
	if err != nil {
		r.free()
		return nil, err
	}
	dev.UploadF32(r.b, bank.X.X)
	dev.UploadF64(r.half, half)
	r.hostScore, r.hostSlot = make([]float64, queryBlock*r.wide), make([]int32, queryBlock*r.wide)
	return r, dev.Sync()
}

func (r *router) free() {
	for _, m := range r.mems {
		r.dev.Free(m)
	}
}

// route finds the nearest of a block of records, the first of which is number
// first.
func (r *router) route(x []float32, first int, out *Nearest) error {
	d, p := r.bank.X.Dim(), r.bank.X.Len()
	rows := len(x) / d
	score, slot := r.score.Slice(0, rows*r.wide), r.slot.Slice(0, rows*r.wide)
	q := r.q.Slice(0, rows*d)
	r.dev.UploadF32(q, x)
	r.dev.TopK(score, slot, q, r.b, r.half, kernels.TopK{Queries: rows, Bank: p, Dim: d, K: r.wide})
	if err := r.dev.DownloadF64(r.hostScore[:rows*r.wide], score); err != nil {
		return err
	}
	if err := r.dev.DownloadInts(r.hostSlot[:rows*r.wide], slot); err != nil {
		return err
	}
	return parallel(rows, func(i int) error {
		row := x[i*d : (i+1)*d]
		if err := finiteRow("records", first+i, row); err != nil {
			return err
		}
		at := (first + i) * r.k
		r.exact(row, r.hostSlot[i*r.wide:(i+1)*r.wide], r.hostScore[(i+1)*r.wide-1], out.Slot[at:at+r.k], out.Dist[at:at+r.k])
		return nil
	})
}

// candidate is one that may be among the nearest.
type candidate struct {
	dist float64
	slot int32
}

func (c candidate) compare(o candidate) int {
	switch {
	case before(c.dist, c.slot, o.dist, o.slot):
		return -1
	case before(o.dist, o.slot, c.dist, c.slot):
		return 1
	}
	return 0
}

// exact orders the rows that the device found, whose scores q·b - |b|²/2 are all
// at least least as the device computed them, by their exact distances, and takes
// all rows if one that was not found could be nearer than the k-th.
//
// In float32 with u = 2⁻²⁴ a sum of D products is off by at most D·u·|q||b| and
// higher orders (Higham 2002, section 3.1); the bias and its addition round
// once more each. So a candidate that was not found has a score of at most
// least + E, E = 1.01 (D+3) u (|q||b| + |b|²/2), and a squared distance of at
// least |q|² - 2 (least + E). Sums in float64 are off by (D+2) 2⁻⁵³ of their
// terms, likewise.
func (r *router) exact(q []float32, found []int32, least float64, slots []int32, dists []float64) {
	var list [MaxK + spare]candidate
	c := list[:0]
	for _, row := range found {
		if row >= 0 {
			c = append(c, candidate{sqDist(q, r.bank.X.Row(int(row))), r.bank.slot(row)})
		}
	}
	slices.SortFunc(c, candidate.compare)
	p := r.bank.X.Len()
	if len(c) < r.wide || r.wide < p && !r.certain(q, least, c[r.k-1].dist) {
		all := make([]candidate, p)
		for row := range all {
			all[row] = candidate{sqDist(q, r.bank.X.Row(row)), r.bank.slot(int32(row))}
		}
		slices.SortFunc(all, candidate.compare)
		c = all
	}
	for i := range slots {
		slots[i], dists[i] = c[i].slot, c[i].dist
	}
}

// certain says whether none that was not found can have a distance of at most
// dist.
func (r *router) certain(q []float32, least, dist float64) bool {
	square := 0.0
	for _, v := range q {
		square += float64(v) * float64(v)
	}
	d := float64(len(q))
	size := math.Sqrt(square)*r.norm + r.norm*r.norm/2
	if !(size < math.MaxFloat32/4) {
		return false
	}
	tiny := d * 0x1p-149 // of products that vanish
	off := 1.01*(d+3)*0x1p-24*size + tiny
	off64 := 1.01 * (d + 3) * 0x1p-53 * (square + r.norm*r.norm) * 4
	return square-2*(least+off)-off64 > dist
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
