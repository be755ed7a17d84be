package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

func newCopyopCommand(a *app) *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "copyop",
		Short: "Start, watch and stop a hand-over, through the source's sidecar",
		Long: `copyop speaks to the server of the source. A hand-over is wanted by initiate, or
by a destination (etcd-ferry copy); it can be aborted until it is decided, and
reclaimed by an operator until the destination has committed it.`,
	}, newInitiateCommand(a), newStatusCommand(a), newAbortCommand(a), newReclaimCommand(a))
}

// copyopCommand is one call of a source's server.
type copyopCommand struct {
	remote    remoteFlags
	output    output
	method    string
	path      string
	operation string // --operation-id, for initiate
	fresh     bool   // for status
	sure      bool   // --yes, for reclaim
	needsSure bool
}

func newInitiateCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "initiate --server URL",
		Short: "Ask the source to hand its etcd over",
		Long: `initiate asks the source to stop its etcd, to store a final snapshot, and to say
that it is ready. It may be repeated: what is pending already stays as it is.
Nobody serves from then on until a destination has taken over, or until abort.`,
		Example: `  etcd-ferry copyop initiate --server http://127.0.0.1:8080`,
	}, &copyopCommand{method: http.MethodPost, path: "copyop/initiate"})
}

func newStatusCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:     "status --server URL",
		Short:   "Show how far a hand-over is, and who is the owner",
		Example: `  etcd-ferry copyop status --server http://127.0.0.1:8080 --fresh -o json`,
	}, &copyopCommand{method: http.MethodGet, path: "copyop/status"})
}

func newAbortCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "abort --server URL",
		Short: "Take a hand-over back that is not decided yet",
		Long: `abort lets the source serve again. It is refused, with exit code 3, once it is
decided what is handed over; from then on there is only reclaim.`,
	}, &copyopCommand{method: http.MethodPost, path: "copyop/abort"})
}

func newReclaimCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "reclaim --server URL --yes",
		Short: "Take a hand-over back that is decided, and not committed",
		Long: `reclaim gives the container back to the source although its final snapshot is
published. It wins or loses against the destination's commit, never both: if the
destination was faster, it is refused with exit code 3; else the destination
withdraws with exit code 5.`,
	}, &copyopCommand{method: http.MethodPost, path: "copyop/reclaim", needsSure: true})
}

func (c *copyopCommand) flags(fs *pflag.FlagSet) {
	c.remote.flags(fs)
	c.output.flags(fs)
	switch {
	case c.path == "copyop/initiate":
		fs.StringVar(&c.operation, "operation-id", "", "`name` for the operation, to tell it from another; default: a new one")
	case c.method == http.MethodGet:
		fs.BoolVar(&c.fresh, "fresh", false, "let the server read the store now")
	case c.needsSure:
		fs.BoolVar(&c.sure, "yes", false, "do it: the destination loses what it has copied")
	}
}

func (c *copyopCommand) check() error {
	errs := []error{c.remote.check(), c.output.check()}
	if c.needsSure && !c.sure {
		errs = append(errs, errors.New("reclaim ends the hand-over for the destination: look at copyop status first, then give --yes"))
	}
	return errors.Join(errs...)
}

func (c *copyopCommand) run(ctx context.Context, e *env) error {
	remote, err := c.remote.open()
	if err != nil {
		return err
	}
	if c.method == http.MethodGet {
		return c.status(ctx, e, remote)
	}
	var body any
	if c.operation != "" {
		body = map[string]string{"operationID": c.operation}
	}
	var o syncobject.Object
	if _, err := remote.call(ctx, c.method, c.path, body, &o); err != nil {
		return err
	}
	return c.output.print(e.out, operation{&o})
}

func (c *copyopCommand) status(ctx context.Context, e *env, remote *remote) error {
	path := c.path
	if c.fresh {
		path += "?fresh=true"
	}
	var p server.Progress
	code, err := remote.call(ctx, c.method, path, nil, &p)
	if err != nil {
		return err
	}
	if err := c.output.print(e.out, progress(p)); err != nil {
		return err
	}
	if code == http.StatusServiceUnavailable {
		return fmt.Errorf("the server has not read the store lately, this is what it knew %s ago: %s",
			time.Duration(p.Age*float64(time.Second)).Round(time.Second), p.LastError)
	}
	return nil
}

// operation is a sync object, for people and machines.
type operation struct{ *syncobject.Object }

func (o operation) MarshalJSON() ([]byte, error) { return json.Marshal(o.Object) }

func (o operation) table(w io.Writer) {
	row(w, "OPERATION", "GENERATION", "STATUS", "PENDING", "OUTCOME", "SOURCE", "DESTINATION", "REVISION", "LOSSY")
	row(w, o.OperationID, fmt.Sprint(o.Generation), string(o.Status), fmt.Sprint(o.Pending()), orDash(string(o.Outcome)),
		orDash(string(o.Source.Phase)), orDash(o.Destination.ID), fmt.Sprint(o.Snapshots.ThroughRevision), fmt.Sprint(o.Decision.Lossy))
}

// progress is what a server says of itself and of the hand-over.
type progress server.Progress

func (p progress) table(w io.Writer) {
	row(w, "ROLE", "LEASE", "AGE", "REASON")
	row(w, string(p.Role), seconds(time.Duration(p.LeaseRemaining*float64(time.Second))),
		seconds(time.Duration(p.Age*float64(time.Second))), orDash(p.Reason))
	if p.Object != nil {
		row(w)
		operation{p.Object}.table(w)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
