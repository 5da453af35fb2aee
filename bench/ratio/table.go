package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/aviary-audit/aviary/internal/atomicfile"
	"github.com/aviary-audit/aviary/kernels"
)

// result is one line of the table. Numbers that are not known are left out.
type result struct {
	Name    string `json:"name"`
	Threads int    `json:"threads"`
	Clock   clock  `json:"clock"`
	Speed   bool   `json:"speed"` // the ratio is theirs/ours
	// Absolute: there is no ratio; the target is for Ours, in seconds or MB.
	Absolute bool    `json:"absolute,omitempty"`
	Ours     float64 `json:"ours,omitempty"`
	Peer     string  `json:"peer,omitempty"` // the fastest
	Theirs   float64 `json:"theirs,omitempty"`
	Ratio    float64 `json:"ratio,omitempty"` // median of the rounds'
	Best     float64 `json:"best,omitempty"`  // that of the best turns of either side: far from Ratio where the machine was busy
	Target   float64 `json:"target,omitempty"`
	Verdict  verdict `json:"verdict"`
	Why      string  `json:"why,omitempty"` // what is missing

	Rounds []float64           `json:"rounds,omitempty"` // the ratio of each
	Turns  map[string][]figure `json:"turns,omitempty"`
	Left   map[string]string   `json:"left_out,omitempty"` // peers, and why
}

type verdict string

const (
	met      verdict = "met"
	notMet   verdict = "NOT MET"
	noTarget verdict = "-"
	missing  verdict = "missing"
)

// judge fills in the ratio. Of the peers the one with the lowest median counts.
func (r *result) judge(ours *contestant, theirs []*contestant) {
	r.Turns, r.Left = map[string][]figure{}, map[string]string{}
	var best *contestant
	for _, c := range theirs {
		r.Turns[c.name] = c.turns
		if c.err != nil {
			r.Left[c.name] = c.err.Error()
			continue
		}
		if best == nil || c.median(r.Clock) < best.median(r.Clock) {
			best = c
		}
	}
	r.Verdict = missing
	r.Turns[ours.name] = ours.turns
	if ours.err != nil {
		r.Why = ours.err.Error()
		return
	}
	r.Ours = ours.median(r.Clock)
	if r.Absolute {
		r.Ratio = r.Ours
		r.Verdict = r.verdict()
		return
	}
	if best == nil {
		r.Why = "no peer"
		for _, c := range theirs {
			r.Why = c.err.Error()
		}
		return
	}
	r.Peer, r.Theirs = best.name, best.median(r.Clock)
	ratio := func(ours, theirs float64) float64 {
		if r.Speed {
			return theirs / ours
		}
		return ours / theirs
	}
	for i := range ours.turns {
		r.Rounds = append(r.Rounds, ratio(ours.turns[i].on(r.Clock), best.turns[i].on(r.Clock)))
	}
	r.Ratio, r.Best = median(r.Rounds), ratio(ours.best(r.Clock), best.best(r.Clock))
	r.Verdict = r.verdict()
}

func (r *result) verdict() verdict {
	switch {
	case r.Target == 0:
		return noTarget
	case r.Speed && r.Ratio >= r.Target, !r.Speed && r.Ratio <= r.Target:
		return met
	}
	return notMet // also for NaN
}

func (c *contestant) on(k clock) (xs []float64) {
	for _, t := range c.turns {
		xs = append(xs, t.on(k))
	}
	return xs
}

func (c *contestant) median(k clock) float64 { return median(c.on(k)) }
func (c *contestant) best(k clock) float64   { return slices.Min(c.on(k)) }

// table is all that a run found.
type table struct {
	Command  string            `json:"command"`
	Started  time.Time         `json:"started"`
	Finished time.Time         `json:"finished"`
	Revision string            `json:"revision"`
	CPU      string            `json:"cpu"`
	Features string            `json:"features"`
	Device   string            `json:"device"`
	Load     [2]string         `json:"load"` // before and after: 1, 5, 15 minutes
	Versions map[string]string `json:"versions"`
	Audit    string            `json:"audit_command"`
	Craft    string            `json:"craft_command"`
	Rows     []result          `json:"rows"`
}

func newTable(o options) *table {
	m := measurer{opts: o, threads: 1}
	return &table{
		Command: "go run ./bench/ratio " + strings.Join(os.Args[1:], " "),
		Started: time.Now().UTC().Truncate(time.Second), Revision: revision(), CPU: cpuName(),
		Features: kernels.CPUFeatures(), Load: [2]string{load(), ""},
		Versions: map[string]string{"go": runtime.Version()},
		Audit:    strings.Join(m.auditCommand("DIR"), " "),
		Craft:    strings.Join(m.craftCommand("DIR"), " "),
	}
}

func (t *table) finish() {
	t.Finished, t.Load[1] = time.Now().UTC().Truncate(time.Second), load()
}

// text is the table for a terminal, and inside a Markdown file.
func (t *table) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "row\tthreads\tclock\tours\tpeer\ttheirs\tratio\tbest\ttarget\t")
	counts := map[verdict]int{}
	for _, r := range t.Rows {
		counts[r.Verdict]++
		unit := func(x float64) string {
			switch {
			case x == 0:
				return "-"
			case r.Clock == memory:
				return fmt.Sprintf("%.0f MB", x)
			case x >= 1:
				return fmt.Sprintf("%.2f s", x)
			}
			return fmt.Sprintf("%.3f ms", 1000*x)
		}
		ratio, best, target := "-", "-", "-"
		if !r.Absolute && r.Ratio != 0 {
			ratio, best = fmt.Sprintf("%.3f", r.Ratio), fmt.Sprintf("%.3f", r.Best)
		}
		if r.Target != 0 {
			sign := "≤"
			if r.Speed {
				sign = "≥"
			}
			target = fmt.Sprintf("%s %g", sign, r.Target)
			if r.Absolute {
				target = "≤ " + unit(r.Target)
			}
		}
		note := string(r.Verdict)
		if r.Why != "" {
			note += ": " + r.Why
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.Threads, r.Clock,
			unit(r.Ours), dash(strings.TrimPrefix(r.Peer, r.Name+"/")), unit(r.Theirs), ratio, best, target, note)
	}
	w.Flush()
	fmt.Fprintf(&b, "\n%d targets met, %d not met, %d rows missing\n", counts[met], counts[notMet], counts[missing])
	return b.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func (t *table) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Aviary against its peers, %s\n\n", t.Started.Format("2006-01-02 15:04 MST"))
	fmt.Fprintf(&b, "* command: `%s`, revision %s\n* machine: %s (%s); load %s before, %s after\n* our device: %s\n",
		strings.TrimSpace(t.Command), t.Revision, t.CPU, t.Features, t.Load[0], t.Load[1], t.Device)
	for _, name := range slices.Sorted(maps.Keys(t.Versions)) {
		fmt.Fprintf(&b, "* %s: %s\n", name, t.Versions[name])
	}
	fmt.Fprintf(&b, "* the audit: `%s`\n* the crafting: `%s`\n\n", t.Audit, t.Craft)
	b.WriteString("Ours and the peers take turns; a round's figure is the best run of a turn, the ratio the median over rounds; " +
		"\"best\" compares the best turns of all, and is far from it where the machine was busy. " +
		"Ratios with a target of ≥, and those of accounting, are speeds (theirs/ours in time, more is better), all others are times (ours/theirs, less is better). " +
		"One thread: CPU time. More: wall time. Of several peers the fastest counts. Every turn is in the JSON beside this file.\n\n")
	fmt.Fprintf(&b, "```\n%s```\n", t.text())
	return b.String()
}

// write puts the table in folder, as Markdown and JSON.
func (t *table) write(folder string) error {
	if err := atomicfile.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name := filepath.Join(folder, t.Started.Format("2006-01-02")+"-"+slug(t.CPU))
	data, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(name+".json", 0o644, append(data, '\n')); err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(name+".md", 0o644, []byte(t.markdown())); err != nil {
		return err
	}
	fmt.Println("written to", name+".md and .json")
	return nil
}

func slug(s string) string {
	return strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(s), "-"), "-")
}

func revision() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// cpuName is what the machine calls its processor.
func cpuName() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	words := strings.Fields(string(text))
	return strings.Join(words[:min(3, len(words))], " ")
}
