package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// electionFlags say who may let etcd serve. Without an owner id nobody asks.
type electionFlags struct {
	owner    string
	dataDir  string
	stateDir string
	implicit bool
	timing   server.Timing
}

func (f *electionFlags) flags(fs *pflag.FlagSet) {
	f.timing = server.DefaultTiming()
	fs.StringVar(&f.owner, "owner-id", "",
		"`name` of this deployment, another one for each: takes part in owner election, and lets etcd run only as the owner of the store")
	fs.StringVar(&f.dataDir, "data-dir", "", "etcd's data `dir`; needed with --owner-id")
	fs.StringVar(&f.stateDir, "state-dir", "", "`dir` for what a restart must remember; default: the data dir with .ferry appended, if that is on its volume")
	fs.BoolVar(&f.implicit, "implicit-fencing", true,
		"stop etcd when the store could not be read for a lease; without it a destination needs --force to go on without this one")
	fs.DurationVar(&f.timing.Poll, "poll-period", f.timing.Poll, "time between two reads of the sync object")
	fs.DurationVar(&f.timing.Read, "read-timeout", f.timing.Read, "time for one of them")
	fs.DurationVar(&f.timing.Lease, "lease", f.timing.Lease, "time for which etcd may serve after the start of a good read")
	fs.DurationVar(&f.timing.Grace, "kill-grace", f.timing.Grace, "time for etcd to end after SIGTERM")
	fs.DurationVar(&f.timing.Kill, "kill-budget", f.timing.Kill, "time in which etcd is gone for certain, the grace included")
	fs.DurationVar(&f.timing.Watchdog, "watchdog", f.timing.Watchdog,
		"time after which the kubelet stops an etcd whose /livez/etcd does not answer; as its liveness probe is set")
	fs.DurationVar(&f.timing.Heartbeat, "heartbeat", f.timing.Heartbeat, "time between two signs of life during a final snapshot")
	fs.DurationVar(&f.timing.Release, "release-timeout", f.timing.Release, "time to store the rest and release the store when told to stop")
}

func (f *electionFlags) given() bool { return f.owner != "" }

// state returns the folder for what a restart must remember.
func (f *electionFlags) state() string {
	if f.stateDir != "" {
		return f.stateDir
	}
	return filepath.Clean(f.dataDir) + ".ferry"
}

func (f *electionFlags) check() error {
	if !f.given() {
		if f.dataDir+f.stateDir != "" {
			return errors.New("--data-dir and --state-dir are for owner election: give --owner-id too")
		}
		return nil
	}
	errs := []error{f.timing.Check()}
	if f.dataDir == "" {
		errs = append(errs, errors.New("--data-dir is missing: with --owner-id say where etcd has its data, so that it can be stopped for certain"))
	}
	return errors.Join(errs...)
}

// election returns what holds the right to serve, and what closes it. S makes one
// attempt a call.
func (f *electionFlags) election(
	ctx context.Context, e *etcdFlags, s store.Store, a *archive.Archive, log *slog.Logger,
) (*server.Election, func(), error) {
	stateDir := f.state()
	if f.stateDir == "" {
		if err := checkBeside(f.dataDir, stateDir); err != nil {
			return nil, nil, err
		}
	}
	own := e.config
	own.Endpoints = own.Endpoints[:1]
	beside, err := etcd.Dial(ctx, own)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := e.dial(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, beside.Close())
	}
	m := server.NewLocalMember(f.dataDir, beside, cluster)
	m.WorkDir, m.Grace, m.KillWait = filepath.Join(stateDir, server.WorkFolder), f.timing.Grace, f.timing.Kill-f.timing.Grace
	m.Log = log
	el := server.NewElection(m, s, a)
	el.Log = log
	el.ID, el.Timing, el.Implicit, el.StateDir = f.owner, f.timing, f.implicit, stateDir
	el.Timing.Tick = min(el.Timing.Tick, f.timing.Lease/ticksOfLease)
	el.Tool = buildVersion()
	return el, func() { _ = errors.Join(beside.Close(), cluster.Close()) }, nil
}

// checkBeside makes sure that stateDir goes and comes with the data dir.
func checkBeside(dataDir, stateDir string) error {
	data, err := existing(dataDir)
	if err != nil {
		return err
	}
	state, err := existing(stateDir)
	if err != nil {
		return err
	}
	var own, beside unix.Stat_t
	if err := errors.Join(unix.Stat(data, &own), unix.Stat(state, &beside)); err != nil {
		return fmt.Errorf("look at the filesystems of %s and %s: %w", dataDir, stateDir, err)
	}
	if own.Dev != beside.Dev {
		return fmt.Errorf("the state dir %s is not on the volume of %s, and a restart without it forgets who may serve: "+
			"mount the volume one level above the data dir, or give a --state-dir that is there whenever the data dir is", stateDir, dataDir)
	}
	return nil
}

// ticksOfLease is how often at least a lease is looked at.
const ticksOfLease = 20
