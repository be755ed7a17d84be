package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, system{args: os.Args[1:], environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr})
	stop()
	os.Exit(code)
}

// system is what the outside gives a run, so that tests can be the outside.
type system struct {
	args, environ  []string
	stdout, stderr io.Writer
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, sys system) int {
	a := &app{system: sys}
	root := newRoot(a)
	root.SetArgs(sys.args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return codeDone
	}
	if status := statusError(0); errors.As(err, &status) {
		return int(status)
	}
	if !a.began { // cobra's own complaints have no type
		err = usageError{err}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("interrupted, %w: %w", cause, err)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(sys.stderr, "error: %s\n", strings.TrimSpace(line))
	}
	if errors.Is(err, errUsage) {
		fmt.Fprintf(sys.stderr, "see: %s --help\n", command.CommandPath())
	}
	return exitCode(err)
}
