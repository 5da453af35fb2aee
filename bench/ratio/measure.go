package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/aviary-audit/aviary/bench"
	"github.com/aviary-audit/aviary/kernels"
)

// slowRounds are the rounds of the rows that take seconds.
const slowRounds = 3

// droppedAt is how much slower than the fastest peer of the first round a peer
// may be to be measured further.
const droppedAt = 1.3

// measurer measures with one number of threads.
type measurer struct {
	opts    options
	threads int
	dev     kernels.Device
	makers  map[string]func() (*bench.Work, error)
	peers   []*peer
	absent  []string // why peers are missing
	audits  []figure // of the audit's row, for the row of its memory
}

// measureAll measures all rows that are asked for, in order.
func measureAll(ctx context.Context, o options, threads int, t *table) ([]result, error) {
	dev, err := kernels.CPU(kernels.CPUOptions{Threads: threads})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	m := &measurer{opts: o, threads: threads, dev: dev, makers: works(dev, threads)}
	t.Device = dev.Name()
	for _, script := range []string{"bench/peers/gemm_peers.py", "bench/peers/torch_mlp.py", "bench/peers/torch_ibis.py", "bench/peers/accounting_peers.py", "bench/peers/routing_peers.py", "bench/peers/encoder_peers.py"} {
		p, err := startPeer(ctx, o.python, script, o.data, threads)
		if err != nil {
			if why := err.Error(); !slices.Contains(m.absent, why) {
				m.absent = append(m.absent, why)
			}
			continue
		}
		defer p.close()
		m.peers = append(m.peers, p)
		for name, v := range p.versions {
			t.Versions[name] = fmt.Sprint(v)
		}
	}
	var results []result
	for _, r := range rows() {
		if !o.only.MatchString(r.name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fmt.Fprintf(os.Stderr, "%d threads: %s\n", threads, r.name)
		results = append(results, m.measure(ctx, r))
	}
	return results, nil
}

// contestant is one side of a row: take gives the figure of one turn.
type contestant struct {
	name  string
	take  func() (figure, error)
	turns []figure
	err   error
}

// measure plays the rounds of a row. What cannot be measured is in the result,
// as missing.
func (m *measurer) measure(ctx context.Context, r row) result {
	res := result{Name: r.name, Threads: m.threads, Clock: clockFor(m.threads), Target: r.target, Speed: r.speed, Absolute: r.absolute || r.memory}
	if r.memory {
		res.Clock = memory
	}
	var free []func()
	defer func() {
		for _, f := range free {
			f()
		}
	}()
	find := func(name string) *contestant {
		c := &contestant{name: name}
		var f func()
		if c.take, f, c.err = m.contestant(ctx, name); f != nil {
			free = append(free, f)
		}
		return c
	}
	ours := find(r.ours)
	var theirs []*contestant
	for _, p := range r.peers {
		theirs = append(theirs, find(p))
	}
	rounds := m.opts.rounds
	if r.slow {
		rounds = min(rounds, slowRounds)
	}
	if r.memory && len(m.audits) > 0 { // the audits of the row before will do
		ours.turns, rounds = m.audits, 0
	}
	for round := range rounds {
		for _, c := range append([]*contestant{ours}, theirs...) {
			if c.err != nil {
				continue
			}
			f, err := c.take()
			if err != nil {
				c.err = err
				continue
			}
			c.turns = append(c.turns, f)
		}
		if round == 0 {
			dropSlow(theirs, res.Clock)
		}
	}
	if r.ours == audit {
		m.audits = ours.turns
	}
	res.judge(ours, theirs)
	return res
}

// dropSlow takes peers out that are far from the fastest.
func dropSlow(cs []*contestant, c clock) {
	best := math.Inf(1)
	for _, p := range cs {
		if p.err == nil {
			best = min(best, p.turns[0].on(c))
		}
	}
	for _, p := range cs {
		if p.err == nil && p.turns[0].on(c) > droppedAt*best {
			p.err = errSlow
		}
	}
}

var errSlow = errors.New("slower than another peer")

// contestant finds what a name stands for, ready to run.
func (m *measurer) contestant(ctx context.Context, name string) (take func() (figure, error), free func(), err error) {
	if command := m.commands()[name]; command != nil {
		if _, err := os.Stat(m.opts.aviary); err != nil {
			return nil, nil, err
		}
		return func() (figure, error) { return m.process(ctx, command) }, nil, nil
	}
	if maker := m.makers[name]; maker != nil {
		w, err := maker()
		if err != nil {
			return nil, nil, err
		}
		if w.Long { // as peers' long rows
			return func() (figure, error) { return repeat(w.Run, 0, 1) }, w.Free, nil
		}
		if err := w.Run(); err != nil { // warm
			return nil, w.Free, err
		}
		return func() (figure, error) { return slice(w.Run, m.opts.slice) }, w.Free, nil
	}
	for _, p := range m.peers {
		if p.has(name) {
			return func() (figure, error) { return p.measure(name, m.opts.slice.Seconds()) }, nil, nil
		}
	}
	if len(m.absent) > 0 {
		return nil, nil, errors.New(strings.Join(m.absent, "; "))
	}
	return nil, nil, fmt.Errorf("no peer has %s: make peers says what is missing", name)
}

// commands are the arguments of whole commands, given a folder to write to.
func (m *measurer) commands() map[string]func(dir string) []string {
	return map[string]func(string) []string{audit: m.auditCommand, craft: m.craftCommand}
}

// auditCommand is one audit of the default recipe, from the
// digits' file to the report.
func (m *measurer) auditCommand(dir string) []string {
	return []string{m.opts.aviary, "audit", "--data", m.opts.data, "--arch", "mlp:784-256-10", "--epochs", "7",
		"--canaries", "mislabeled", "--num-canaries", "1000", "--sets", "1", "--audits", "1",
		"--threads", strconv.Itoa(m.threads), "--quiet", "--out", filepath.Join(dir, "run")}
}

// craftCommand is the crafting of one canary set by the default recipe, from the
// digits' file to the page with pictures.
func (m *measurer) craftCommand(dir string) []string {
	return []string{m.opts.aviary, "craft", "--method", "ibis", "--data", m.opts.data, "--arch", "mlp:784-256-10", "--sets", "1",
		"--threads", strconv.Itoa(m.threads), "--quiet", "--out", filepath.Join(dir, "canaries.npz")}
}

// process runs a command of ours once.
func (m *measurer) process(ctx context.Context, command func(dir string) []string) (figure, error) {
	dir, err := os.MkdirTemp("", "aviary-bench-")
	if err != nil {
		return figure{}, err
	}
	defer os.RemoveAll(dir)
	args := command(dir)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return figure{}, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, lastLine(string(out)))
	}
	f := figure{Wall: time.Since(start).Seconds()}
	f.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		f.MB = float64(usage.Maxrss) / 1024 // Linux counts in kB
	}
	return f, nil
}
