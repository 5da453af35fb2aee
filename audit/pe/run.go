package pe

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// Run says which blocks of a simulation are to be done, and what is known.
type Run struct {
	Done map[int][]Counts                  // blocks that were done before, by number
	Keep func(block int, c []Counts) error // is told of each new block, one at a time
	// Finish, if not nil, is called after the last block that was to be done.
	Finish func() error
	// Shards, if above 1, leaves only blocks ≡ Shard modulo Shards to this process.
	Shard, Shards int
}

// blocks adds up width counts of blocks 0 to n-1: those that are known, and those
// of this shard. The sum does not depend on the order in which they finish. trials
// adds up the sizes of the blocks that were counted.
func (r Run) blocks(ctx context.Context, n, width int, size func(block int) int, do func(block int) []Counts) (sum []Counts, trials int, err error) {
	sum = make([]Counts, width)
	add := func(b int, c []Counts) {
		for i, x := range c {
			sum[i].FP += x.FP
			sum[i].TP += x.TP
		}
		trials += size(b)
	}
	var todo []int
	for b := range n {
		if c, done := r.Done[b]; done {
			for _, x := range c {
				if x.FP < 0 || x.FP > size(b) || x.TP < 0 || x.TP > size(b) {
					return nil, 0, fmt.Errorf("pe: block %d of %d trials counts %d and %d", b, size(b), x.FP, x.TP)
				}
			}
			if len(c) != width {
				return nil, 0, fmt.Errorf("pe: block %d has counts for %d thresholds, expected %d", b, len(c), width)
			}
			add(b, c)
		} else if r.Shards <= 1 || b%r.Shards == r.Shard {
			todo = append(todo, b)
		}
	}
	var mu sync.Mutex
	var failed error
	next := 0
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(todo)) {
		wait.Go(func() {
			for {
				mu.Lock()
				if failed == nil {
					failed = ctx.Err()
				}
				if failed != nil || next == len(todo) {
					mu.Unlock()
					return
				}
				b := todo[next]
				next++
				mu.Unlock()
				c := do(b)
				mu.Lock()
				add(b, c)
				if r.Keep != nil && failed == nil {
					failed = r.Keep(b, c)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if r.Finish != nil { // even after an error: what was done is worth keeping
		if err := r.Finish(); failed == nil {
			failed = err
		}
	}
	return sum, trials, failed
}
