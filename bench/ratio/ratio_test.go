package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary play a peer: PEER says which.
func TestMain(m *testing.M) {
	if kind := os.Getenv("PEER"); kind != "" {
		playPeer(kind)
		return
	}
	os.Exit(m.Run())
}

// playPeer answers as bench/peers/timing.py does, with times from nowhere.
func playPeer(kind string) {
	if kind == "broken" {
		fmt.Fprintln(os.Stderr, "Traceback\nModuleNotFoundError: planted")
		return
	}
	fmt.Println(`{"versions": {"fake": "1"}, "rows": ["good", "bad", "nan", "gemm/nn-256x256x10/numpy"]}`)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var ask struct{ Name string }
		if err := json.Unmarshal(in.Bytes(), &ask); err != nil {
			fmt.Println(`{"error": "cannot read the request"}`)
			continue
		}
		switch ask.Name {
		case "bad":
			fmt.Println(`{"name": "bad", "error": "planted"}`)
		case "nan":
			fmt.Println(`{"name": "nan", "seconds": {}, "cpu_seconds": {}}`)
		default:
			fmt.Printf(`{"name": %q, "seconds": {"min": 0.5}, "cpu_seconds": {"min": 0.25}, "max_rss_mb": 7}`+"\n", ask.Name)
		}
	}
}

func self(t *testing.T) string {
	t.Helper()
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPeer(t *testing.T) {
	t.Setenv("PEER", "good")
	p, err := startPeer(context.Background(), self(t), "script", "data", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if !p.has("good") || p.has("other") || p.versions["fake"] != "1" {
		t.Errorf("rows %v, versions %v", p.rows, p.versions)
	}
	if f, err := p.measure("good", 1); err != nil || f != (figure{Wall: 0.5, CPU: 0.25, MB: 7}) {
		t.Errorf("figure %+v, error %v", f, err)
	}
	if _, err := p.measure("bad", 1); err == nil || !strings.Contains(err.Error(), "planted") {
		t.Errorf("a peer's error became %v", err)
	}
	if f, err := p.measure("nan", 1); err == nil {
		t.Errorf("an answer without times became %+v", f)
	}

	t.Setenv("PEER", "broken")
	if _, err := startPeer(context.Background(), self(t), "script", "data", 1); err == nil ||
		!strings.Contains(err.Error(), "ModuleNotFoundError: planted") {
		t.Errorf("a peer that does not start: %v", err)
	}
	if _, err := startPeer(context.Background(), "no/such/python", "script", "data", 1); err == nil ||
		!strings.Contains(err.Error(), "make peers") {
		t.Errorf("no Python: %v", err)
	}
}

// turns is a contestant that has had turns of the given seconds.
func turns(name string, seconds ...float64) *contestant {
	c := &contestant{name: name}
	for _, s := range seconds {
		c.turns = append(c.turns, figure{Wall: s, CPU: s, MB: s})
	}
	return c
}

func TestJudge(t *testing.T) {
	failed := turns("gone")
	failed.err = errSlow
	for name, c := range map[string]struct {
		res     result
		ours    *contestant
		theirs  []*contestant
		ratio   float64
		peer    string
		verdict verdict
	}{
		// The median of 1/4, 2/4 and 8/4; one disturbed round changes nothing.
		"time met":     {result{Target: 0.5}, turns("a", 1, 2, 8), []*contestant{turns("b", 4, 4, 4)}, 0.5, "b", met},
		"time not met": {result{Target: 0.49}, turns("a", 1, 2, 8), []*contestant{turns("b", 4, 4, 4)}, 0.5, "b", notMet},
		"speed met":    {result{Target: 2, Speed: true}, turns("a", 1, 2, 8), []*contestant{turns("b", 4, 4, 4)}, 2, "b", met},
		"speed not":    {result{Target: 2.1, Speed: true}, turns("a", 1, 2, 8), []*contestant{turns("b", 4, 4, 4)}, 2, "b", notMet},
		"fastest":      {result{Target: 1}, turns("a", 3), []*contestant{turns("b", 4), turns("c", 2), failed}, 1.5, "c", notMet},
		"no target":    {result{}, turns("a", 3), []*contestant{turns("b", 4)}, 0.75, "b", noTarget},
		"NaN":          {result{Target: 1}, turns("a", math.NaN()), []*contestant{turns("b", 4)}, math.NaN(), "b", notMet},
		"no peer":      {result{Target: 1}, turns("a", 3), []*contestant{failed}, 0, "", missing},
		"not ours":     {result{Target: 1}, failed, []*contestant{turns("b", 4)}, 0, "", missing},
		"memory":       {result{Target: 600, Clock: memory, Absolute: true}, turns("a", 500, 700, 550), nil, 550, "", met},
		"more memory":  {result{Target: 600, Clock: memory, Absolute: true}, turns("a", 601), nil, 601, "", notMet},
		"own time":     {result{Target: 1, Absolute: true}, turns("a", 0.5, 0.7, 9), nil, 0.7, "", met},
		"own too long": {result{Target: 1, Absolute: true}, turns("a", 1.1), nil, 1.1, "", notMet},
	} {
		res := c.res
		res.judge(c.ours, c.theirs)
		same := res.Ratio == c.ratio || math.IsNaN(res.Ratio) && math.IsNaN(c.ratio)
		if !same || res.Peer != c.peer || res.Verdict != c.verdict {
			t.Errorf("%s: ratio %v, peer %q, %s; expected %v, %q, %s",
				name, res.Ratio, res.Peer, res.Verdict, c.ratio, c.peer, c.verdict)
		}
		if res.Verdict == missing && res.Why == "" {
			t.Errorf("%s: missing without a reason", name)
		}
	}
}

// TestNoRowIsDropped measures one real row with a peer, without it, and counts
// lines: what is missing must be seen.
func TestNoRowIsDropped(t *testing.T) {
	o := options{rounds: 1, slice: time.Millisecond, threads: []int{1}, only: regexp.MustCompile("nn-256x256x10|one audit"),
		python: self(t), aviary: "no/such/aviary", data: "data", out: t.TempDir()}
	for _, c := range []struct {
		peer          string
		lines, absent int
	}{{"good", 3, 2}, {"broken", 3, 3}} {
		t.Setenv("PEER", c.peer)
		tab := newTable(o)
		results, err := measureAll(context.Background(), o, 1, tab)
		if err != nil {
			t.Fatal(err)
		}
		tab.Rows = results
		tab.finish()
		if got := strings.Count(tab.text(), "missing: "); len(results) != c.lines || got != c.absent {
			t.Errorf("%s peer: %d rows, %d of them missing, expected %d and %d:\n%s",
				c.peer, len(results), got, c.lines, c.absent, tab.text())
		}
		if err := tab.write(o.out); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(o.out, "*"))
		if err != nil || len(files) != 2 {
			t.Errorf("files %v, error %v", files, err)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		xs   []float64
		want float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}, {[]float64{7}, 7}} {
		if got := median(c.xs); got != c.want {
			t.Errorf("median of %v is %v, expected %v", c.xs, got, c.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing is %v", got)
	}
}
