package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/server/defrag"
)

// upkeepFlags say when etcd is defragmented.
type upkeepFlags struct {
	schedule string
	share    float64
	minSize  bytesize
}

func (f *upkeepFlags) flags(fs *pflag.FlagSet) {
	f.minSize = defrag.DefaultMinSize
	fs.StringVar(&f.schedule, "defrag-schedule", "",
		"when to defragment etcd's members, one at a time, as the five fields of `cron` in UTC; the sidecar beside the leader does it; empty: never")
	fs.Float64Var(&f.share, "defrag-free-share", defrag.DefaultShare, "defragment a member when this share of its database is not in use")
	fs.Var(&f.minSize, "defrag-min-size", "do not defragment a database below this size")
}

func (f *upkeepFlags) check() error {
	var errs []error
	if _, err := parseSchedule(f.schedule); err != nil {
		errs = append(errs, fmt.Errorf("--defrag-schedule %q: %w", f.schedule, err))
	}
	if f.share <= 0 || f.share >= 1 {
		errs = append(errs, errors.New("--defrag-free-share must be above 0 and below 1"))
	}
	return errors.Join(errs...)
}

func (f *upkeepFlags) given() bool { return f.schedule != "" }

// kept is a backup, and the upkeep that goes on as long as it runs: beside the leader,
// as long as this deployment is the owner.
type kept struct {
	server.Backup
	upkeep func(context.Context)
}

// Run implements server.Backup.
func (k kept) Run(ctx context.Context) {
	var g errgroup.Group
	g.Go(func() error { k.Backup.Run(ctx); return nil })
	g.Go(func() error { k.upkeep(ctx); return nil })
	_ = g.Wait() // there are no errors
}

func (f *upkeepFlags) beside(b server.Backup, d *defrag.Defragmenter) server.Backup {
	d.Share, d.MinSize = f.share, int64(f.minSize)
	at, _ := parseSchedule(f.schedule) // check has
	return kept{b, func(ctx context.Context) { d.Run(ctx, at) }}
}
