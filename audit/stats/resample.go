package stats

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// Resampling is how often, and with which randomness, data are drawn anew.
// Draw number i has a random stream of its own, made of Seed and i, so that
// results do not depend on Threads.
type Resampling struct {
	Draws   int
	Seed    uint64
	Threads int // 0 for one per core
}

// run calls newWorker once per thread, and the function that it returns once
// per draw, with the draw's number and stream. It stops at the first error or
// once ctx is done.
func (r Resampling) run(ctx context.Context, newWorker func() func(i int, rng *rand.Rand) error) error {
	if r.Draws < 1 {
		return fmt.Errorf("stats: draws: %d, expected 1 or more", r.Draws)
	}
	if r.Threads < 0 {
		return fmt.Errorf("stats: threads: %d, expected 0 or more", r.Threads)
	}
	threads := r.Threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(threads, r.Draws) {
		wg.Go(func() {
			work := newWorker()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= r.Draws {
					return
				}
				if err := work(i, rand.New(rand.NewPCG(r.Seed, uint64(i)))); err != nil {
					cancel(fmt.Errorf("stats: draw %d: %w", i, err))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
