package main

import (
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// figure is what one turn gave: the best run's times in seconds, and, of a
// process of its own, its peak memory.
type figure struct {
	Wall float64 `json:"wall"`
	CPU  float64 `json:"cpu"`
	MB   float64 `json:"mb,omitempty"`
}

// on is the figure by a clock.
func (f figure) on(c clock) float64 {
	switch c {
	case cpuClock:
		return f.CPU
	case memory:
		return f.MB
	}
	return f.Wall
}

// clock says what is compared.
type clock string

const (
	cpuClock  clock = "cpu"
	wallClock clock = "wall"
	memory    clock = "peak memory"
)

func clockFor(threads int) clock {
	if threads == 1 {
		return cpuClock
	}
	return wallClock
}

// slice runs f again and again for about d, and at least three times.
func slice(f func() error, d time.Duration) (figure, error) { return repeat(f, d, 3) }

// repeat is slice with another least number of times.
func repeat(f func() error, d time.Duration, least int) (figure, error) {
	best := figure{Wall: math.Inf(1), CPU: math.Inf(1)}
	for start, n := time.Now(), 0; n < least || time.Since(start) < d; n++ {
		wall, cpu := time.Now(), cpuNow()
		if err := f(); err != nil {
			return figure{}, err
		}
		best.Wall = min(best.Wall, time.Since(wall).Seconds())
		best.CPU = min(best.CPU, cpuNow()-cpu)
	}
	return best, nil
}

// cpuNow is the CPU time of this process, all threads, in seconds.
func cpuNow() float64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		return math.NaN()
	}
	return float64(t.Sec) + float64(t.Nsec)/1e9
}

// median of xs; NaN of none.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
