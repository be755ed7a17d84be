package main

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// policyFlags say which snapshots to keep.
type policyFlags struct{ policy snapshot.Policy }

func (p *policyFlags) flags(fs *pflag.FlagSet) {
	fs.IntVar(&p.policy.KeepLast, "keep-last", 0, "keep the newest `N` full snapshots")
	fs.IntVar(&p.policy.KeepHourly, "keep-hourly", 0, "keep the newest full snapshot of each of the newest `N` hours that have one")
	fs.IntVar(&p.policy.KeepDaily, "keep-daily", 0, "the same for days, in UTC")
	fs.IntVar(&p.policy.KeepWeekly, "keep-weekly", 0, "the same for weeks")
	fs.DurationVar(&p.policy.DeltaRetention, "delta-retention", 0,
		"keep deltas of kept snapshots for this long, so that any revision can be restored; 0: as long as their full snapshot")
}

func (p *policyFlags) check() error {
	if min(p.policy.KeepLast, p.policy.KeepHourly, p.policy.KeepDaily, p.policy.KeepWeekly) < 0 || p.policy.DeltaRetention < 0 {
		return errors.New("--keep-last, --keep-hourly, --keep-daily, --keep-weekly and --delta-retention must not be below 0")
	}
	return nil
}

// empty reports whether the policy says nothing.
func (p *policyFlags) empty() bool { return p.policy == snapshot.Policy{} }
