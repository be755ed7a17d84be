package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
)

type snapshotCommand struct {
	kind   snapshot.Kind
	store  storeFlags
	keys   recipientFlags
	etcd   etcdFlags
	output output
}

func newSnapshotCommand(a *app) *cobra.Command {
	full := a.command(&cobra.Command{
		Use:   "full --store URL",
		Short: "Store the whole database of etcd",
		Long: `full streams etcd's database into the store, reads it back, and prints what it
stored. The snapshot holds everything acknowledged before the call.`,
	}, newSnapshotAction(snapshot.Full))
	delta := a.command(&cobra.Command{
		Use:   "delta --store URL",
		Short: "Store what has changed in etcd since the last snapshot",
		Long: `delta stores all changes acknowledged before the call that are not stored yet, and
prints the last snapshot it stored. If there is nothing to add to, because there
is no full snapshot, etcd has compacted the changes, or its data was replaced, it
takes a full one instead.`,
	}, newSnapshotAction(snapshot.Delta))
	return a.group(&cobra.Command{Use: "snapshot", Short: "Take one snapshot of a running etcd now"}, full, delta)
}

func newSnapshotAction(kind snapshot.Kind) *snapshotCommand {
	return &snapshotCommand{kind: kind, etcd: requiredEtcd()}
}

func (c *snapshotCommand) flags(fs *pflag.FlagSet) {
	c.store.flags(fs)
	c.keys.flags(fs)
	c.etcd.flags(fs)
	c.output.flags(fs)
}

func (c *snapshotCommand) check() error {
	return errors.Join(c.store.check(), c.etcd.check(), c.output.check())
}

func (c *snapshotCommand) run(ctx context.Context, e *env) error {
	a, err := c.store.open(newMetrics())
	if err != nil {
		return err
	}
	if err := c.keys.apply(a); err != nil {
		return err
	}
	client, err := c.etcd.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	report, stop := e.progress(ctx, "snapshot")
	s := snapshotter.New(client, a)
	s.Log, s.Tool, s.Progress = e.log, buildVersion(), report
	m, err := c.take(ctx, s)
	stop()
	if err != nil {
		return c.etcd.explain(ctx, err)
	}
	if m.Name == "" {
		return c.output.print(e.out, taken{})
	}
	return c.output.print(e.out, taken{&m})
}

func (c *snapshotCommand) take(ctx context.Context, s *snapshotter.Snapshotter) (snapshot.Manifest, error) {
	if c.kind == snapshot.Full {
		return s.Full(ctx)
	}
	return s.Delta(ctx)
}

// taken is the snapshot that was stored; none if there was nothing new.
type taken struct{ *snapshot.Manifest }

func (t taken) table(w io.Writer) {
	m := t.Manifest
	if m == nil {
		fmt.Fprintln(w, "nothing new: everything in etcd is stored already")
		return
	}
	row(w, "SNAPSHOT", "REVISIONS", "EVENTS", "STORED", "PLAIN")
	row(w, m.Name, revisions(*m), events(*m), bytesize(m.StoredSize), bytesize(m.PlainSize))
}

// revisions writes the range of a snapshot. Of a full it is the lower bound.
func revisions(m snapshot.Manifest) string {
	if m.Kind == snapshot.Full {
		return fmt.Sprint(m.First)
	}
	return fmt.Sprintf("%d-%d", m.First, m.Last)
}

// events writes how many events a snapshot holds, if it is one that holds events.
func events(m snapshot.Manifest) string {
	if m.Kind == snapshot.Full {
		return "-"
	}
	return count(m.Events)
}
