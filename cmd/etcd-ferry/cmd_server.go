package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/server/defrag"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// defaultFullSchedule keeps the deltas of a restore to a quarter of a day.
const defaultFullSchedule = "0 */6 * * *"

type serverCommand struct {
	store  storeFlags
	keys   recipientFlags
	etcd   etcdFlags
	policy policyFlags
	owner  electionFlags
	boot   bootstrapFlags
	access accessFlags
	upkeep upkeepFlags

	listen       string
	fullSchedule string
	deltaPeriod  time.Duration
	deltaLimit   bytesize
	deltaShare   float64
	prunePeriod  time.Duration
}

func newServerCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "server --store URL",
		Short: "Back up etcd for as long as it runs",
		Long: `server stores every change of etcd in the store, in deltas between scheduled full
snapshots, and answers HTTP: a page for people at /, /healthz, /livez, /metrics,
/snapshots, /snapshot/latest, and POST /snapshot/full and /snapshot/delta from this
machine; /openapi.yaml describes it all.
It goes on through any trouble with etcd or the store until it is told to stop.

Nothing is ever removed from the store unless a --keep flag says what to keep.

With --owner-id it takes part in owner election: etcd, whose container's entrypoint is
"etcd-ferry gate", is let run only as long as this deployment is found to be the owner
of the store, and is stopped when a hand-over is wanted or the store could not be read
for a lease. Name the member beside this process first in --etcd-endpoints.`,
		Example: `  etcd-ferry server --store file:///var/backups/etcd --keep-hourly 24 --keep-daily 7`,
	}, &serverCommand{etcd: requiredEtcd()})
}

func (c *serverCommand) flags(fs *pflag.FlagSet) {
	c.store.flags(fs)
	c.keys.flags(fs)
	c.etcd.flags(fs)
	c.policy.flags(fs)
	c.owner.flags(fs)
	c.boot.flags(fs)
	c.access.flags(fs)
	c.upkeep.flags(fs)
	c.deltaLimit = snapshotter.DefaultDeltaLimit
	fs.StringVar(&c.listen, "listen", server.DefaultListen, "`address` to answer HTTP on")
	fs.StringVar(&c.fullSchedule, "full-schedule", defaultFullSchedule,
		"when to take full snapshots, as the five fields of `cron` in UTC; empty: only when one is needed")
	fs.DurationVar(&c.deltaPeriod, "delta-period", snapshotter.DefaultDeltaPeriod, "time between two deltas")
	fs.Var(&c.deltaLimit, "delta-limit", "packed events that wait in memory; a delta is cut early at this size")
	fs.Float64Var(&c.deltaShare, "delta-share", snapshotter.DefaultDeltaShare,
		"take a full snapshot when the deltas since the last one exceed this multiple of its stored size")
	fs.DurationVar(&c.prunePeriod, "prune-period", snapshotter.DefaultPrunePeriod, "time between two prunings")
}

func (c *serverCommand) check() error {
	errs := []error{c.store.check(), c.etcd.check(), c.policy.check(), c.owner.check(), c.boot.check(), c.access.check(), c.upkeep.check(), checkListen(c.listen)}
	if _, err := parseSchedule(c.fullSchedule); err != nil {
		errs = append(errs, fmt.Errorf("--full-schedule %q: %w", c.fullSchedule, err))
	}
	if c.deltaPeriod <= 0 || c.prunePeriod <= 0 {
		errs = append(errs, errors.New("--delta-period and --prune-period must be above 0"))
	}
	if c.deltaLimit <= 0 || c.deltaShare <= 0 {
		errs = append(errs, errors.New("--delta-limit and --delta-share must be above 0"))
	}
	return errors.Join(errs...)
}

// parseSchedule returns nil for no schedule.
func parseSchedule(fields string) (snapshotter.Schedule, error) {
	if fields == "" {
		return nil, nil
	}
	s, err := cron.ParseStandard(fields)
	if err != nil {
		return nil, fmt.Errorf("want five fields, such as %s: %w", defaultFullSchedule, err)
	}
	if s.Next(time.Now()).IsZero() {
		return nil, errors.New("there is no such day")
	}
	return utc{s}, nil
}

// utc makes a schedule independent of the zone that a time comes in.
type utc struct{ cron.Schedule }

func (s utc) Next(after time.Time) time.Time { return s.Schedule.Next(after.UTC()) }

func (c *serverCommand) run(ctx context.Context, e *env) error {
	m := newMetrics()
	once, retried, err := c.store.both(m)
	if err != nil {
		return err
	}
	a := archive.New(retried)
	if err := c.keys.apply(a); err != nil {
		return err
	}
	c.etcd.config.Metrics, c.etcd.config.Log = m.etcd(), e.log
	client, err := c.etcd.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	backup := c.backup(client, a, e.log, m)
	s := backup(syncobject.Holder{}, nil)
	d := server.New(client, a, s)
	d.Listen, d.Log, d.Metrics = c.listen, e.log, m.handler()
	c.access.apply(d, m.web())
	if c.owner.given() {
		el, done, err := c.owner.election(context.WithoutCancel(ctx), &c.etcd, once, a, e.log)
		if err != nil {
			return err
		}
		defer done()
		el.Metrics = m.election()
		if !strings.HasPrefix(c.store.url, "gs:") { // GCS alone wants writes of one name to be apart
			el.Pace = 0
		}
		el.Backup = backup
		b, err := c.boot.bootstrap(a, c.owner.dataDir, el, m)
		if err != nil {
			return err
		}
		el.Prepare, el.Check = b.Prepare, b.Check
		d.Election = el
	}
	return d.Run(ctx)
}

// backup returns what makes snapshotters, one for each time that this deployment
// is the owner, and has the defragmentation beside them, if that is asked for.
func (c *serverCommand) backup(client *etcd.Client, a *archive.Archive, log *slog.Logger, m *metrics,
) func(syncobject.Holder, func(string)) server.Backup {
	taken, defragmented := m.snapshotter(), m.defrag()
	return func(h syncobject.Holder, located func(string)) server.Backup {
		s := snapshotter.New(client, a)
		c.configure(s)
		s.Log, s.Metrics = log, taken
		s.Epoch, s.Lineage, s.Located = h.Epoch, h.Lineage, located
		if !c.upkeep.given() {
			return s
		}
		d := defrag.New(client)
		d.Hold, d.Log, d.Metrics = s.Apart, log, defragmented
		return c.upkeep.beside(s, d)
	}
}

func (c *serverCommand) configure(s *snapshotter.Snapshotter) {
	s.DeltaPeriod, s.DeltaLimit, s.DeltaShare = c.deltaPeriod, int(c.deltaLimit), c.deltaShare
	s.Policy, s.PrunePeriod = c.policy.policy, c.prunePeriod
	s.Tool = buildVersion()
	s.FullSchedule, _ = parseSchedule(c.fullSchedule) // check has
}
