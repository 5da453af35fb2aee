// Command aviary audits how much a trained model gives away of what it was
// trained on.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// version is set by the linker; see the Makefile.
var version = "unknown"

func main() {
	// Most of the heap is a few large arrays that live as long as a run; the
	// usual slack, as much again, would double the memory for nothing.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25)
	}
	// The first Ctrl-C ends the work cleanly; a second one ends the process. So
	// does a terminal that is closed, unless nohup says not to mind.
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
