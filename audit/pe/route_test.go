package pe

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/aviary-audit/aviary/audit/records"
	"github.com/aviary-audit/aviary/kernels"
)

func cpu(t testing.TB, threads int) kernels.Device {
	t.Helper()
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// matrix is n rows of draws.
func matrix(n, d int, draw func() float32) *records.Matrix {
	m := &records.Matrix{D: d, X: make([]float32, n*d)}
	for i := range m.X {
		m.X[i] = draw()
	}
	return m
}

// naive takes all distances.
func naive(q, bank *records.Matrix, slot []int32, k int) *Nearest {
	out := &Nearest{K: k}
	for i := range q.Len() {
		var all []candidate
		for j := range bank.Len() {
			all = append(all, candidate{sqDist(q.Row(i), bank.Row(j)), Bank{bank, slot}.slot(int32(j))})
		}
		slices.SortFunc(all, candidate.compare)
		for _, c := range all[:k] {
			out.Slot, out.Dist = append(out.Slot, c.slot), append(out.Dist, c.dist)
		}
	}
	return out
}

func sameNearest(t *testing.T, what string, got, want *Nearest) {
	t.Helper()
	if got.K != want.K || len(want.Slot) == 0 || !slices.Equal(got.Slot, want.Slot) || !slices.Equal(got.Dist, want.Dist) {
		t.Errorf("%s: %d and %d entries, which differ", what, len(got.Slot), len(want.Slot))
	}
}

// draws are kinds of numbers, from smooth ones to those that tie everywhere, or
// whose differences float32 products lose.
func draws(r *rand.Rand) map[string]func() float32 {
	return map[string]func() float32{
		"normal": func() float32 { return float32(r.NormFloat64()) },
		"grid":   func() float32 { return float32(r.IntN(3)) },
		"bits":   func() float32 { return float32(r.IntN(2)) },
		"far":    func() float32 { return 1000 + float32(r.IntN(5))/1024 },
		"tiny":   func() float32 { return float32(r.NormFloat64()) * 1e-25 },
		"huge":   func() float32 { return float32(r.NormFloat64()) * 1e19 },
		"zero":   func() float32 { return 0 },
	}
}

func TestRoute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	devices := []kernels.Device{cpu(t, 1), cpu(t, 2), kernels.Reference()}
	for name, draw := range draws(r) {
		for _, s := range []struct{ n, p, d, k int }{{1, 1, 1, 1}, {40, 20, 3, 5}, {700, 300, 8, 5}, {30, 2500, 5, 9}, {20, 100, 64, 64}, {7, 12, 2, 12}} {
			q, b := matrix(s.n, s.d, draw), matrix(s.p, s.d, draw)
			if s.p > 10 {
				copy(b.Row(7), b.Row(3)) // a duplicate
				copy(q.Row(s.n-1), b.Row(3))
			}
			var slot []int32
			if s.p%20 == 0 {
				for i := range s.p {
					slot = append(slot, int32(3*i+1))
				}
			}
			want := naive(q, b, slot, s.k)
			for _, dev := range devices {
				if dev.ElemBits() == 64 && s.n*s.p > 50_000 {
					continue
				}
				got, err := Route(t.Context(), dev, q, Bank{b, slot}, s.k, nil)
				if err != nil {
					t.Fatal(name, err)
				}
				sameNearest(t, name, got, want)
			}
		}
	}
}

// TestRouteMustLookAgain: where bytes, or float32, are not enough, the candidates
// that the device found lack some of the nearest: the case that bounds are for.
func TestRouteMustLookAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	spiky := func() float32 { // one large number makes the steps of bytes coarse
		if r.IntN(16) == 0 {
			return float32(r.IntN(2)*200 - 100)
		}
		return float32(r.NormFloat64())
	}
	far := func() float32 { return 1000 + float32(r.IntN(5))/1024 }
	for name, draw := range map[string]func() float32{"bytes": spiky, "floats": far} {
		q, b := matrix(200, 16, draw), matrix(500, 16, draw)
		ro, err := newRouter(cpu(t, 1), Bank{X: b}, 5, 200)
		if err != nil {
			t.Fatal(err)
		}
		defer ro.free()
		bounds := func(i int) queryBound { return ro.floatBound.of(math.Sqrt(sqNorm(q.Row(i))), 0) }
		find := func() error { return ro.findByFloats(q.X) }
		if name == "bytes" {
			for i := range q.Len() {
				ro.query.set(i, q.Row(i), ro.turn, make([]float64, q.D))
			}
			bounds, find = ro.byteQuery, func() error { return ro.findByBytes(q.Len()) }
		}
		if err := find(); err != nil {
			t.Fatal(err)
		}
		want, wrong, unsure := naive(q, b, nil, 5), 0, 0
		slots, dists := make([]int32, 5), make([]float64, 5)
		for i := range q.Len() {
			// Nothing but the list's own order, as if its scores were exact.
			trusting := queryBound{square: bounds(i).square}
			ro.settle(q.Row(i), i, trusting, slots, dists)
			differs := !slices.Equal(slots, want.Slot[5*i:5*i+5])
			sure := ro.settle(q.Row(i), i, bounds(i), slots, dists)
			if sure && !slices.Equal(slots, want.Slot[5*i:5*i+5]) {
				t.Errorf("%s: record %d: certain of slots that are wrong", name, i)
			}
			if differs {
				wrong++
			}
			if !sure {
				unsure++
			}
		}
		if wrong == 0 || unsure == 0 {
			t.Errorf("%s: %d of 200 wrong without a bound, %d unsure with it: nothing was tested", name, wrong, unsure)
		}
		got, err := Route(t.Context(), cpu(t, 2), q, Bank{X: b}, 5, nil)
		if err != nil {
			t.Fatal(err)
		}
		sameNearest(t, name, got, want)
	}
}

// TestBounds: no score is further off than its bound, and the bound of bytes is
// not looser than a few times what occurs.
func TestBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for name, draw := range draws(r) {
		if name == "huge" || name == "tiny" { // where the device's numbers end
			continue
		}
		q, b := matrix(50, 37, draw), matrix(100, 37, draw)
		ro, err := newRouter(cpu(t, 1), Bank{X: b}, 64, 50)
		if err != nil {
			t.Fatal(err)
		}
		defer ro.free()
		for i := range q.Len() {
			ro.query.set(i, q.Row(i), ro.turn, make([]float64, q.D))
		}
		for _, level := range []struct {
			find  func() error
			bound func(i int) queryBound
		}{
			{func() error { return ro.findByBytes(q.Len()) }, ro.byteQuery},
			{func() error { return ro.findByFloats(q.X) }, func(i int) queryBound { return ro.floatBound.of(math.Sqrt(sqNorm(q.Row(i))), 0) }},
		} {
			if err := level.find(); err != nil {
				t.Fatal(err)
			}
			worst := 0.0
			for i := range q.Len() {
				bound := level.bound(i)
				for j, row := range ro.hostSlot[i*ro.wide : (i+1)*ro.wide] {
					off := math.Abs(bound.square - 2*float64(ro.hostScore[i*ro.wide+j]) - sqDist(q.Row(i), b.Row(int(row))))
					if !(off <= bound.off) {
						t.Fatalf("%s: record %d, row %d: off by %v, bound %v", name, i, row, off, bound.off)
					}
					worst = max(worst, off/bound.off)
				}
			}
			if name == "normal" && worst < 0.001 {
				t.Errorf("%s: errors are at most %.2g of their bound", name, worst)
			}
		}
	}
}

// TestRouteIsCertain: on embeddings of length 1, nearly every record is settled
// by bytes, and all by floats.
func TestRouteIsCertain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	unit := func(n int) *records.Matrix {
		m := matrix(n, 384, draws(r)["normal"])
		for i := range n {
			norm := math.Sqrt(sqNorm(m.Row(i)))
			for j := range m.Row(i) {
				m.Row(i)[j] /= float32(norm)
			}
		}
		return m
	}
	q, b := unit(300), unit(3000)
	ro, err := newRouter(cpu(t, 2), Bank{X: b}, 5, 300)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.free()
	for i := range q.Len() {
		ro.query.set(i, q.Row(i), ro.turn, make([]float64, q.D))
	}
	slots, dists := make([]int32, 5), make([]float64, 5)
	unsettled := func(bound func(i int) queryBound) (n int) {
		for i := range q.Len() {
			if !ro.settle(q.Row(i), i, bound(i), slots, dists) {
				n++
			}
		}
		return n
	}
	if err := ro.findByBytes(300); err != nil {
		t.Fatal(err)
	}
	if n := unsettled(ro.byteQuery); n > 30 {
		t.Errorf("%d of 300 records are not settled by bytes", n)
	}
	if err := ro.findByFloats(q.X); err != nil {
		t.Fatal(err)
	}
	if n := unsettled(func(i int) queryBound { return ro.floatBound.of(math.Sqrt(sqNorm(q.Row(i))), 0) }); n > 0 {
		t.Errorf("%d of 300 records are not settled by floats", n)
	}
}

// TestRouteCopies: of many copies of few candidates the lowest slots count, and
// no record needs all distances for them.
func TestRouteCopies(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 1))
	q, b := matrix(60, 8, draws(r)["normal"]), matrix(3000, 8, draws(r)["normal"])
	for i := 40; i < b.Len(); i++ {
		copy(b.Row(i), b.Row(i*7%40))
	}
	got, err := Route(t.Context(), cpu(t, 2), q, Bank{X: b}, 5, nil)
	if err != nil {
		t.Fatal(err)
	}
	sameNearest(t, "copies", got, naive(q, b, nil, 5))
	d := newDistinct(Bank{X: b}, 5)
	if d.x.Len() != 40 || len(d.slots) != 40 || len(d.slots[0]) != 5 {
		t.Errorf("%d different rows of 40, %d slots", d.x.Len(), len(d.slots[0]))
	}
}

// TestRotation: distances stay, and one large number is spread.
func TestRotation(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for _, d := range []int{1, 2, 3, 4, 37, 64, 384} {
		m := matrix(3, d, draws(r)["normal"])
		turn := newRotation(m)
		a, b := make([]float64, d), make([]float64, d)
		turn.apply(a, m.Row(0))
		turn.apply(b, m.Row(1))
		s := 0.0
		for j := range a {
			s += (a[j] - b[j]) * (a[j] - b[j])
		}
		if want := sqDist(m.Row(0), m.Row(1)); !(math.Abs(s-want) <= 1e-14*float64(d+1)*want) {
			t.Errorf("%d dimensions: distance %v, turned %v", d, want, s)
		}
	}
	spike := &records.Matrix{D: 384, X: make([]float32, 384)}
	turn := newRotation(spike)
	spike.X[5] = 1
	y := make([]float64, 384)
	turn.apply(y, spike.X)
	if top := max(slices.Max(y), -slices.Min(y)); top > .07 {
		t.Errorf("a spike of 1 is still %v", top)
	}
}

func TestSqDist4(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	m := matrix(5, 37, draws(r)["normal"])
	for i, d := range sqDist4(m.Row(0), m.Row(1), m.Row(2), m.Row(3), m.Row(4)) {
		if d != sqDist(m.Row(0), m.Row(i+1)) {
			t.Errorf("vector %d: other bits", i)
		}
	}
}

// TestMerge: merging equals routing to both, with ties.
func TestMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	dev := cpu(t, 2)
	for name, draw := range draws(r) {
		for range 6 {
			q, b := matrix(50, 4, draw), matrix(60, 4, draw)
			k := 1 + r.IntN(6)
			var survivors, probes Bank
			survivors.X, probes.X = &records.Matrix{D: 4}, &records.Matrix{D: 4}
			few := 1 + r.IntN(8)
			chosen := map[int]bool{}
			for _, i := range r.Perm(60)[:few] {
				chosen[i] = true
			}
			for i := range 60 {
				to := &survivors
				if chosen[i] {
					to = &probes
				}
				to.X.X, to.Slot = append(to.X.X, b.Row(i)...), append(to.Slot, int32(i))
			}
			s, err := Route(t.Context(), dev, q, survivors, k, nil)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Route(t.Context(), dev, q, probes, min(k, few), nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Merge(k, s, p)
			if err != nil {
				t.Fatal(err)
			}
			sameNearest(t, name, got, naive(q, b, nil, k))
		}
	}
	a := naive(matrix(3, 2, draws(r)["normal"]), matrix(4, 2, draws(r)["normal"]), nil, 2)
	if _, err := Merge(5, a, a); err == nil {
		t.Error("5 of 2 + 2: no error")
	}
	if _, err := Merge(2, a, naive(matrix(2, 2, draws(r)["normal"]), matrix(4, 2, draws(r)["normal"]), nil, 2)); err == nil {
		t.Error("lists of different records: no error")
	}
}

func TestRouteRefuses(t *testing.T) {
	dev := cpu(t, 1)
	r := rand.New(rand.NewPCG(5, 1))
	ok := matrix(20, 3, draws(r)["normal"])
	bad := matrix(20, 3, draws(r)["normal"])
	bad.Row(17)[2] = float32(math.NaN())
	for want, call := range map[string]func() error{
		"different encoders": func() error {
			_, err := Route(t.Context(), dev, ok, Bank{X: matrix(9, 4, draws(r)["normal"])}, 1, nil)
			return err
		},
		"k: 21":           func() error { _, err := Route(t.Context(), dev, ok, Bank{X: ok}, 21, nil); return err },
		"k: 0":            func() error { _, err := Route(t.Context(), dev, ok, Bank{X: ok}, 0, nil); return err },
		"records: row 17": func() error { _, err := Route(t.Context(), dev, bad, Bank{X: ok}, 2, nil); return err },
		"candidates: row": func() error { _, err := Route(t.Context(), dev, ok, Bank{X: bad}, 2, nil); return err },
		"2 slots for 20":  func() error { _, err := Route(t.Context(), dev, ok, Bank{ok, []int32{1, 2}}, 2, nil); return err },
		"expected them to ascend": func() error {
			_, err := Route(t.Context(), dev, ok, Bank{ok, make([]int32, 20)}, 2, nil)
			return err
		},
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Route(ctx, dev, ok, Bank{X: ok}, 2, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
