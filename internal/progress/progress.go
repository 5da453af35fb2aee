// Package progress tells on stderr how far a long job is and when it will be
// done: one line that is redrawn on a terminal, or a plain line every few
// seconds elsewhere.
//
// It is our own because the bar libraries read the clock themselves, so that
// they cannot be tested, and count the work before a resume as done now, so
// that their ETA is wrong.
package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	lineEvery   = 5 * time.Second        // elsewhere
	barWidth    = 20                     // columns; a whole line has fewer than 80
	labelWidth  = 24                     // columns, on a terminal
)

// Progress writes about one job at a time. It may be used from several
// goroutines.
type Progress struct {
	w        io.Writer
	terminal bool
	quiet    bool
	now      func() time.Time

	mu      sync.Mutex
	running bool
	label   string
	total   int
	done    int
	started time.Time
	drawn   time.Time // when a line was last written
	// Speed is measured from here, see Set.
	base     int
	baseTime time.Time
	baseSet  bool
}

// New makes a Progress that writes to w, which should be stderr. terminal says
// whether w redraws a line after \r. If quiet, nothing is ever written.
func New(w io.Writer, terminal, quiet bool) *Progress {
	return &Progress{w: w, terminal: terminal, quiet: quiet, now: time.Now}
}

// Start begins a job of total steps; 0 if their number is not known. A job
// that is still running is ended as by Done.
func (p *Progress) Start(label string, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
	now := p.now()
	p.running, p.label, p.total, p.done = true, label, total, 0
	p.started, p.drawn, p.base, p.baseTime, p.baseSet = now, now, 0, now, false
	if p.terminal {
		p.draw(now)
	}
}

// Set says that done steps of the job are done.
//
// The ETA takes the speed since Start; but if the first Set is for more than
// one step, the job has been resumed, and the speed is taken from that Set on.
func (p *Progress) Set(done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return
	}
	now := p.now()
	if !p.baseSet {
		p.baseSet = true
		if done > 1 {
			p.base, p.baseTime = done, now
		}
	}
	p.done = done
	every := lineEvery
	if p.terminal {
		every = redrawEvery
	}
	if now.Sub(p.drawn) >= every {
		p.draw(now)
	}
}

// Done ends the job and writes a last line about it. Without a job it does
// nothing.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
}

// Note writes a line of text without spoiling the progress line.
func (p *Progress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(text, true)
	if p.running && p.terminal {
		p.draw(p.now())
	}
}

func (p *Progress) finish() {
	if !p.running {
		return
	}
	p.running = false
	took := round(p.now().Sub(p.started))
	if p.done < p.total {
		p.write(fmt.Sprintf("%s: stopped at %d of %d after %s", p.label, p.done, p.total, took), true)
		return
	}
	p.write(fmt.Sprintf("%s: done in %s", p.label, took), true)
}

func (p *Progress) draw(now time.Time) {
	p.drawn = now
	if p.total <= 0 {
		p.write(fmt.Sprintf("%s: %d, %s so far", p.label, p.done, round(now.Sub(p.started))), !p.terminal)
		return
	}
	done := min(max(p.done, 0), p.total)
	percent := 100 * done / p.total // rounded down: 100 means done
	eta := "?"
	if left, ok := p.left(now); ok {
		eta = round(left).String()
	}
	if !p.terminal {
		p.write(fmt.Sprintf("%s: %d %% (%d of %d), ETA %s", p.label, percent, p.done, p.total, eta), true)
		return
	}
	full := barWidth * done / p.total
	bar := strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
	p.write(fmt.Sprintf("%s %s %3d %%  ETA %s", fit(p.label), bar, percent, eta), false)
}

// left is the time that the rest takes at the speed so far.
func (p *Progress) left(now time.Time) (time.Duration, bool) {
	steps, took := p.done-p.base, now.Sub(p.baseTime)
	if steps <= 0 || took <= 0 {
		return 0, false
	}
	rest := max(p.total-p.done, 0)
	return time.Duration(float64(took) / float64(steps) * float64(rest)), true
}

// write writes a line, over the present one on a terminal. Progress is no
// reason to fail, so that errors are dropped.
func (p *Progress) write(text string, end bool) {
	if p.quiet {
		return
	}
	if p.terminal {
		text = "\r\x1b[K" + text // back to the start, and clear
	}
	if end {
		text += "\n"
	}
	io.WriteString(p.w, text)
}

// fit cuts or pads a label to labelWidth columns.
func fit(label string) string {
	r := []rune(label)
	if len(r) > labelWidth {
		return string(r[:labelWidth-1]) + "…"
	}
	return label + strings.Repeat(" ", labelWidth-len(r))
}

// round drops the digits that nobody reads.
func round(d time.Duration) time.Duration {
	switch {
	case d < time.Second:
		return d.Round(10 * time.Millisecond)
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
