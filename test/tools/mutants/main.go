// Mutants breaks the hand-over on purpose, one rule at a time, and sees that the
// tests notice. Each mutant is a change of the code that looks harmless and loses
// writes or makes two owners; the tests that are named beside it have to fail. The
// tree is not changed: go builds with an overlay.
//
// It prints what caught each mutant, and exits with 1 if one survives, does not
// compile, or is not found in the code any more.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	only := flag.String("only", "", "regular expression: only the mutants with such names")
	flag.Parse()
	err := hunt(ctx, *only, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// hunt runs the tests of each mutant and prints a table. The error names those
// that were not caught.
func hunt(ctx context.Context, only string, out io.Writer) error {
	names, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return err
	}
	const row = "%-42s  %7v  %s\n"
	fmt.Fprintf(out, row, "mutant", "seconds", "caught by")
	var errs []error
	for _, m := range all() {
		if !names.MatchString(m.name) {
			continue
		}
		began := time.Now()
		caught, err := m.try(ctx, root)
		by := strings.Join(caught, " ")
		if err != nil {
			by = "NOT CAUGHT"
			errs = append(errs, fmt.Errorf("%s: %w (%s)", m.name, err, m.danger))
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Fprintf(out, row, m.name, fmt.Sprintf("%.1f", time.Since(began).Seconds()), by)
	}
	return errors.Join(errs...)
}
