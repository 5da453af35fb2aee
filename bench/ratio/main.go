// Command ratio measures Aviary against its peers, side by side, and prints one
// table of ratios with their targets. `make bench` runs it.
//
// Ours and the peers take turns, a slice of time each, for several rounds, so
// that whatever else the machine does meets all of them. The figure of a round
// is the best run of the slice; the ratio of a row is the median of the rounds'
// ratios. With one thread the clock is the process's CPU time, which neighbours
// disturb least; with more it is the wall clock, since CPU time cannot see how
// well threads share the work. Both are in the JSON.
//
// The peers are numpy's OpenBLAS, torch, Opacus, scipy, faiss, transformers and onnxruntime, in the environment of `make peers`.
// Each is optional: what cannot be measured stays in the table, as missing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type options struct {
	rounds  int
	slice   time.Duration
	threads []int
	only    *regexp.Regexp
	python  string
	aviary  string
	data    string
	out     string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	opts, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, opts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ratio:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	f := flag.NewFlagSet("ratio", flag.ExitOnError)
	o := options{}
	var threads, only string
	f.IntVar(&o.rounds, "rounds", 7, "`rounds` of taking turns")
	f.DurationVar(&o.slice, "slice", 150*time.Millisecond, "`time` of one turn")
	f.StringVar(&threads, "threads", "1,2", "`numbers` of threads")
	f.StringVar(&only, "only", "", "measure only rows that match this regular `expression`, and write no file")
	f.StringVar(&o.python, "python", "bench/.venv/bin/python", "`program` of the peers")
	f.StringVar(&o.aviary, "aviary", "bin/aviary", "`program` of ours, for the whole audit")
	f.StringVar(&o.data, "data", "data/mnist", "`folder` of the 60,000 digits")
	f.StringVar(&o.out, "out", "bench/results", "`folder` for the table")
	f.Parse(args) // exits on errors
	for _, word := range strings.Split(threads, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-threads: %q is not a number of threads, as in 1,2", word)
		}
		o.threads = append(o.threads, n)
	}
	if o.rounds < 1 {
		return o, fmt.Errorf("-rounds is %d, expected at least 1", o.rounds)
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return o, fmt.Errorf("-only: %w", err)
	}
	if only != "" {
		o.out = ""
	}
	return o, nil
}

func run(ctx context.Context, o options) error {
	t := newTable(o)
	for _, threads := range o.threads {
		results, err := measureAll(ctx, o, threads, t)
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, results...)
	}
	t.finish()
	fmt.Print(t.text())
	if o.out == "" {
		return nil
	}
	return t.write(o.out)
}
