package main

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"github.com/aviary-audit/aviary/audit/onerun"
	"github.com/aviary-audit/aviary/internal/progress"
)

// talk tells people on stderr how far an audit is: a bar on a terminal, plain
// lines elsewhere, and a line for every audit that is done.
type talk struct {
	w        io.Writer
	line     *progress.Progress
	running  bool // the line is there
	training bool // some model has begun to train
	finished int  // audits
	total    int
	stage    string // of crafting, "" before any
}

func newTalk(w io.Writer, quiet bool) *talk {
	return &talk{w: w, line: newLine(w, quiet)}
}

// newLine tells progress on w, which redraws it if it is a terminal.
func newLine(w io.Writer, quiet bool) *progress.Progress {
	f, isFile := w.(*os.File)
	return progress.New(w, isFile && term.IsTerminal(int(f.Fd())), quiet)
}

func (t *talk) progress(p onerun.Progress) {
	if p.Note != "" {
		fmt.Fprintf(t.w, "aviary: note: %s\n", p.Note) // even if quiet
		return
	}
	if p.Stage != "audit" {
		return
	}
	t.training = t.training || !p.Reused
	t.finished, t.total = p.Done, p.Total
	if p.Steps > 0 { // all audits have as many steps, or nearly
		if !t.running {
			t.line.Start("training", p.Total*p.Steps)
			t.running = true
		}
		t.line.Set(p.Done*p.Steps + p.Step)
	}
	if p.Run == nil {
		return
	}
	before := ""
	if p.Reused {
		before = ", done before"
	}
	t.line.Note(fmt.Sprintf("audit %d of %d: %s set %d audit %d: AUC %.3f, TPR at 5 %% FPR %.3f%s",
		p.Done, p.Total, p.Method, p.Set, p.Audit, p.Run.AUC, p.Run.TPR, before))
}

// craft is told how much of one stage of one set is done.
func (t *talk) craft(set int, stage string, done, total int) {
	if label := fmt.Sprintf("set %d: %s", set, stage); label != t.stage {
		t.line.Start(label, total)
		t.stage = label
	}
	t.line.Set(done)
}

func (t *talk) done() { t.line.Done() }
