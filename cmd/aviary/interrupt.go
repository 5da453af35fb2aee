package main

import (
	"context"
	"errors"
	"io"
	"time"
)

// interruptible does work that does not look at ctx, or seldom. When ctx ends
// it is given up: nobody waits for it, and the program is about to end. So it
// must write nothing.
func interruptible[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := work()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, &failure{exitRun, errors.New("interrupted"), ""}
	}
}

// patience is how long work may take without a word.
const patience = 2 * time.Second

// slowly tells people how far work of total steps is, once it has taken long;
// step says that one more is done, and end that all is over.
func slowly(w io.Writer, label string, total int) (step, end func()) {
	line := newLine(w, false)
	timer := time.AfterFunc(patience, func() { line.Start(label, total) })
	done := 0
	step = func() {
		done++
		line.Set(done)
	}
	return step, func() {
		timer.Stop()
		line.Done()
	}
}
