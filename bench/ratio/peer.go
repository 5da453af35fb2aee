package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// peer is a Python process that answers requests for a row; see
// bench/peers/timing.py. It sleeps between requests.
type peer struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Scanner
	stderr   bytes.Buffer
	rows     []string
	versions map[string]any
}

// reply is a line of a peer.
type reply struct {
	Name    string `json:"name"`
	Seconds struct {
		Min float64 `json:"min"`
	} `json:"seconds"`
	CPUSeconds struct {
		Min float64 `json:"min"`
	} `json:"cpu_seconds"`
	MB       float64        `json:"max_rss_mb"`
	Error    string         `json:"error"`
	Versions map[string]any `json:"versions"`
	Rows     []string       `json:"rows"`
}

// startPeer starts a script that serves rows.
func startPeer(ctx context.Context, python, script, data string, threads int) (*peer, error) {
	if _, err := os.Stat(python); err != nil {
		return nil, fmt.Errorf("no %s: make peers sets it up", python)
	}
	p := &peer{cmd: exec.CommandContext(ctx, python, script, "--serve", "--threads", strconv.Itoa(threads), "--data", data)}
	p.cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	p.cmd.Stderr = &p.stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	hello, err := p.read()
	if err != nil {
		p.close()
		return nil, fmt.Errorf("%s did not start: %w", script, err)
	}
	p.rows, p.versions = hello.Rows, hello.Versions
	return p, nil
}

func (p *peer) has(row string) bool { return slices.Contains(p.rows, row) }

// measure asks for one turn.
func (p *peer) measure(row string, seconds float64) (figure, error) {
	line, err := json.Marshal(map[string]any{"name": row, "seconds": seconds})
	if err != nil {
		return figure{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return figure{}, fmt.Errorf("%s: %w", row, err)
	}
	r, err := p.read()
	if err != nil {
		return figure{}, fmt.Errorf("%s: %w", row, err)
	}
	switch {
	case r.Error != "":
		return figure{}, fmt.Errorf("%s: %s", row, r.Error)
	case r.Name != row:
		return figure{}, fmt.Errorf("%s: the answer is for %q", row, r.Name)
	case !(r.Seconds.Min > 0 && r.CPUSeconds.Min > 0):
		return figure{}, fmt.Errorf("%s: no time in the answer", row)
	}
	return figure{Wall: r.Seconds.Min, CPU: r.CPUSeconds.Min, MB: r.MB}, nil
}

func (p *peer) read() (reply, error) {
	var r reply
	if !p.out.Scan() {
		if err := p.out.Err(); err != nil {
			return r, err
		}
		return r, errors.New("the process ended: " + lastLine(p.stderr.String()))
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		return r, fmt.Errorf("answer %q: %w", p.out.Text(), err)
	}
	return r, nil
}

func (p *peer) close() {
	p.in.Close() // ends it
	p.cmd.Wait()
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}
