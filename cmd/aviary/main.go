// Command aviary audits how much a trained model gives away of what it was
// trained on.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker; see the Makefile.
var version = "unknown"

func main() {
	// The first Ctrl-C ends the work cleanly; a second one ends the process.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
