package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/delta"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

const (
	codeDone   = 0
	codeFailed = 1
)

// errUsage is what a usageError is.
var errUsage = errors.New("wrong usage")

// usageError is a complaint about the command line, the environment or the
// config file. Nothing was done.
type usageError struct{ error }

func (e usageError) Unwrap() []error { return []error{errUsage, e.error} }

// statusError is the exit status of a command that was run for the user, which has
// said itself what there was to say.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// exit is one exit code and the errors that lead to it.
type exit struct {
	code    int
	meaning string
	errors  []error
}

// exits are all exit codes. Of several that fit an error the first is taken;
// codeFailed is for all other errors.
var exits = []exit{
	{codeDone, "done", nil},
	{codeFailed, "failed", nil},
	{2, "wrong usage, nothing was done", []error{errUsage, copier.ErrUnsafe}},
	{3, "conflict: another destination has the hand-over, or it is too late", []error{syncobject.ErrConflict, errConflict}},
	{4, "not ready, and force was refused", []error{copier.ErrNotReady}},
	{5, "reclaimed by the source", []error{copier.ErrReclaimed}},
	{6, "done, but lossy", []error{copier.ErrLossy}},
	{7, "nothing to restore, or to compact", []error{snapshot.ErrNothing, snapshot.ErrWindow, restorer.ErrNoDeltas}},
	{8, "corrupt, or a gap in the history", []error{
		archive.ErrCorrupt, delta.ErrCorrupt, etcd.ErrTrailer, snapshot.ErrGap, delta.ErrGap, snapshot.ErrLineage,
	}},
}

func exitCode(err error) int {
	if err == nil {
		return codeDone
	}
	for _, e := range exits {
		for _, class := range e.errors {
			if errors.Is(err, class) {
				return e.code
			}
		}
	}
	return codeFailed
}

// exitHelp is the part of every help text that tells the exit codes.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("\nExit codes:\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, e := range exits {
		fmt.Fprintf(w, "  %d\t%s\n", e.code, e.meaning)
	}
	_ = w.Flush() // a strings.Builder never fails
	return b.String()
}
