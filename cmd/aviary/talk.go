package main

import (
	"fmt"
	"io"

	"github.com/aviary-audit/aviary/audit/onerun"
)

// talk tells people on stderr how far an audit is.
type talk struct {
	w        io.Writer
	quiet    bool
	training bool // some model has begun to train
	finished int  // audits
	total    int
}

func newTalk(w io.Writer, quiet bool) *talk { return &talk{w: w, quiet: quiet} }

func (t *talk) progress(p onerun.Progress) {
	if p.Note != "" {
		fmt.Fprintf(t.w, "aviary: note: %s\n", p.Note)
		return
	}
	if p.Stage == "audit" {
		t.training = true
		t.finished, t.total = p.Done, p.Total
	}
	if t.quiet || p.Run == nil {
		return
	}
	again := ""
	if p.Reused {
		again = ", from before"
	}
	fmt.Fprintf(t.w, "audit %d of %d: %s set %d audit %d: AUC %.3f, TPR at 5 %% FPR %.3f%s\n",
		p.Done, p.Total, p.Method, p.Set, p.Audit, p.Run.AUC, p.Run.TPR, again)
}

func (t *talk) done() {}
