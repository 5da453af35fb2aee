package pe

import (
	"context"
	"runtime"
	"sync"
)

// Run says which blocks of a simulation are to be done, and what is known.
type Run struct {
	Done map[int]Counts                  // blocks that were done before
	Keep func(block int, c Counts) error // is told of each new block, one at a time
	// Shards, if above 1, leaves only blocks ≡ Shard modulo Shards to this process.
	Shard, Shards int
}

// blocks adds up the counts of blocks 0 to n-1 of this shard. The sum does not
// depend on the order in which they finish.
func (r Run) blocks(ctx context.Context, n int, do func(block int) Counts) (Counts, error) {
	var sum Counts
	var todo []int
	for b := range n {
		if r.Shards > 1 && b%r.Shards != r.Shard {
			continue
		}
		if c, done := r.Done[b]; done {
			sum.FP, sum.TP = sum.FP+c.FP, sum.TP+c.TP
			continue
		}
		todo = append(todo, b)
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
				sum.FP, sum.TP = sum.FP+c.FP, sum.TP+c.TP
				if r.Keep != nil && failed == nil {
					failed = r.Keep(b, c)
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return sum, failed
}
