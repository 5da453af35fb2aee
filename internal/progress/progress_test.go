package progress

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// clock is a clock that tests turn by hand.
type clock struct{ t time.Time }

func (c *clock) now() time.Time       { return c.t }
func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }

func testProgress(terminal, quiet bool) (*Progress, *bytes.Buffer, *clock) {
	var out bytes.Buffer
	c := &clock{time.Unix(1000, 0)}
	p := New(&out, terminal, quiet)
	p.now = c.now
	return p, &out, c
}

func TestPlain(t *testing.T) {
	p, out, c := testProgress(false, false)
	p.Start("train", 200)
	for i := 1; i <= 200; i++ {
		c.pass(100 * time.Millisecond)
		p.Set(i)
	}
	p.Done()
	want := `train: 25 % (50 of 200), ETA 15s
train: 50 % (100 of 200), ETA 10s
train: 75 % (150 of 200), ETA 5s
train: 100 % (200 of 200), ETA 0s
train: done in 20s
`
	if out.String() != want {
		t.Errorf("got:\n%swant:\n%s", out, want)
	}
}

// The planted fault: work done before a resume must not count as speed. 900
// of 1000 steps "in no time" would promise the end at once.
func TestResumedETA(t *testing.T) {
	p, out, c := testProgress(false, false)
	p.Start("train", 1000)
	p.Set(900)
	c.pass(5 * time.Second)
	p.Set(910) // 2 steps a second, 90 to go
	if want := "train: 91 % (910 of 1000), ETA 45s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// A job of few long steps has an ETA after its first.
func TestLongSteps(t *testing.T) {
	p, out, c := testProgress(false, false)
	p.Start("audits", 10)
	c.pass(time.Minute)
	p.Set(1)
	if want := "audits: 10 % (1 of 10), ETA 9m0s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

func TestTerminal(t *testing.T) {
	p, out, c := testProgress(true, false)
	p.Start("a label that is much longer than its column", 1000)
	for i := 1; i <= 1000; i++ {
		c.pass(10 * time.Millisecond)
		p.Set(i)
	}
	p.Done()
	lines := strings.Split(out.String(), "\r\x1b[K")[1:]
	if len(lines) != 1+100+1 { // Start, ten a second, Done
		t.Errorf("%d lines, want 102", len(lines))
	}
	for _, line := range lines[:len(lines)-1] {
		if n := utf8.RuneCountInString(line); n >= 80 || strings.Contains(line, "\n") {
			t.Errorf("%d columns in %q", n, line)
		}
	}
	if want := "a label that is much lo… ██████████░░░░░░░░░░  50 %  ETA 5s"; lines[50] != want {
		t.Errorf("%q, want %q", lines[50], want)
	}
	if want := "a label that is much longer than its column: done in 10s\n"; lines[101] != want {
		t.Errorf("%q, want %q", lines[101], want)
	}
}

func TestNote(t *testing.T) {
	p, out, _ := testProgress(true, false)
	p.Start("job", 2)
	p.Note("something happened")
	if got := out.String(); !strings.Contains(got, "\r\x1b[Ksomething happened\n\r\x1b[Kjob") {
		t.Errorf("%q", got)
	}
}

func TestQuiet(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		p, out, c := testProgress(terminal, true)
		p.Start("job", 2)
		c.pass(time.Hour)
		p.Set(1)
		p.Note("note")
		p.Done()
		if out.Len() > 0 {
			t.Errorf("quiet, but wrote %q", out)
		}
	}
}

func TestStops(t *testing.T) {
	p, out, c := testProgress(false, false)
	p.Done() // no job
	p.Set(3) // no job
	p.Start("first", 4)
	c.pass(1500 * time.Millisecond)
	p.Set(3)
	p.Start("second", 0)
	c.pass(6 * time.Second)
	p.Set(12)
	p.Done()
	p.Done()
	want := "first: stopped at 3 of 4 after 1.5s\nsecond: 12, 6s so far\nsecond: done in 6s\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// Odd numbers give odd lines, not panics.
func TestOddNumbers(t *testing.T) {
	p, out, c := testProgress(true, false)
	p.Start("odd", 3)
	for _, done := range []int{-5, 7, 0} {
		c.pass(time.Second)
		p.Set(done)
	}
	p.Done()
	if out.Len() == 0 {
		t.Error("nothing was written")
	}
}

func TestGoroutines(t *testing.T) {
	p, _, _ := testProgress(true, false)
	p.Start("job", 1000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 100 {
				p.Set(i)
				p.Note("x")
			}
		})
	}
	wg.Wait()
	p.Done()
}
