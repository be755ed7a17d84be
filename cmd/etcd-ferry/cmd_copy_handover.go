package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// handOverFlags are those of copy mode.
type handOverFlags struct {
	owner         string
	wait, maxWait time.Duration
	force         bool
	noForce       bool
	again         bool
	listen        string
	tls           tlsFlags
	exit          bool

	poll, read, heartbeat, precopy, slack time.Duration
	clockError                            float64

	given func() []string // of these flags, by name
}

func (f *handOverFlags) flags(fs *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&f.owner, "owner-id", "", "`name` of the deployment that takes over, another one for each")
	own.DurationVar(&f.wait, "wait", syncobject.DefaultForceAfter, "time for the source to answer, from the claim on; then this side decides without it, which may lose writes")
	own.DurationVar(&f.maxWait, "max-wait", copier.DefaultMaxWait, "time for a source that is fenced and shows that it lives")
	own.BoolVar(&f.force, "force", false, "decide after --wait also if nothing says that the source stops by itself: it must surely not serve")
	own.BoolVar(&f.noForce, "no-force", false, "never decide without the source")
	own.BoolVar(&f.again, "again", false, "begin another hand-over after the last one of this owner id was aborted or reclaimed")
	own.StringVar(&f.listen, "listen", "", "`address` to answer /healthz, /livez, /copyop/status, /metrics and a page for people on; when done this goes on until told to stop, unless --exit")
	f.tls.flags(own)
	own.BoolVar(&f.exit, "exit", false, "end when done, also with --listen")
	own.DurationVar(&f.poll, "poll-period", syncobject.DefaultPoll, "time between two reads of the sync object")
	own.DurationVar(&f.read, "read-timeout", syncobject.DefaultRead, "time for one of them")
	own.DurationVar(&f.heartbeat, "heartbeat-timeout", copier.DefaultHeartbeatTimeout, "time for which a fenced source lives after a sign of life")
	own.DurationVar(&f.precopy, "precopy-period", copier.DefaultPrecopy, "time between two copies of what is new, while waiting")
	own.DurationVar(&f.slack, "store-slack", syncobject.DefaultSlack, "time for the store in what --wait must exceed")
	own.Float64Var(&f.clockError, "clock-error", syncobject.DefaultClockError, "share by which clocks may be too fast or too slow, in what --wait must exceed")
	fs.AddFlagSet(own)
	f.given = func() []string {
		var names []string
		own.VisitAll(func(flag *pflag.Flag) {
			if flag.Changed {
				names = append(names, "--"+flag.Name)
			}
		})
		return names
	}
}

func (f *handOverFlags) check() error {
	var errs []error
	if f.owner == "" {
		errs = append(errs, errors.New("--owner-id is missing: name the deployment that takes over, or give --manual to copy only"))
	}
	if f.force && f.noForce {
		errs = append(errs, errors.New("--force and --no-force exclude each other: give one"))
	}
	if f.poll <= 0 || f.read <= 0 || f.heartbeat <= 0 || f.precopy <= 0 || f.wait < 0 || f.maxWait < 0 || f.slack < 0 {
		errs = append(errs, errors.New("times must be above 0"))
	}
	if f.listen != "" {
		errs = append(errs, checkListen(f.listen))
	}
	errs = append(errs, f.tls.check())
	return errors.Join(errs...)
}

func (f *handOverFlags) apply(h *copier.HandOver) {
	h.Wait, h.MaxWait, h.Poll, h.Read, h.HeartbeatTimeout = f.wait, f.maxWait, f.poll, f.read, f.heartbeat
	h.Precopy, h.Slack, h.ClockError, h.Again = f.precopy, f.slack, f.clockError, f.again
	h.Boot, h.Tool = server.SystemClock{}.Boot, buildVersion()
	switch {
	case f.force:
		h.Force = copier.ForceAnyway
	case f.noForce:
		h.Force = copier.ForceNever
	}
}

// handOver is copy mode.
func (c *copyCommand) handOver(ctx context.Context, e *env) error {
	m := newMetrics()
	from, err := c.source.container(m)
	if err != nil {
		return err
	}
	to, err := c.store.container(m)
	if err != nil {
		return err
	}
	if err := c.keys(from.Archive, to.Archive); err != nil {
		return err
	}
	h := copier.NewHandOver(c.handing.owner, from, to)
	c.handing.apply(h)
	h.Log, h.Metrics = e.log, m.handOver()
	h.Copier.Reencrypt, h.Copier.Bandwidth, h.Copier.Parallel, h.Copier.Log = c.reencrypt, int64(c.bandwidth), c.parallel, e.log
	h.Progress = func(ctx context.Context) (func(done, total int64), func()) { return e.progress(ctx, "copy") }
	run := func(ctx context.Context) error {
		out, err := h.Run(ctx)
		if err != nil {
			return err
		}
		return errors.Join(c.output.print(e.out, handedOver{out}), out.Err())
	}
	if c.handing.listen == "" {
		return run(ctx)
	}
	return c.handing.beside(ctx, server.NewCopyMode(h), run, e, m)
}

// beside answers HTTP while run goes on, and after it.
func (f *handOverFlags) beside(ctx context.Context, s *server.CopyMode, run func(context.Context) error, e *env, m *metrics) error {
	s.Log, s.Metrics, s.Web, s.Name, s.Version = e.log, m.handler(), m.web(), f.owner, buildVersion()
	l, err := f.tls.listen(ctx, f.listen, e.log, s.Web)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	var lossy error
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.Serve(ctx, l) })
	g.Go(func() error {
		err := run(ctx)
		if errors.Is(err, copier.ErrLossy) {
			lossy, err = err, nil
		}
		if err != nil || f.exit {
			stop()
		}
		return err
	})
	err = g.Wait()
	stop()
	return errors.Join(err, lossy)
}

// container returns the store for a hand-over.
func (s *storeFlags) container(m *metrics) (copier.Container, error) {
	once, retried, err := s.both(m)
	if err != nil {
		return copier.Container{}, err
	}
	return copier.Container{Archive: archive.New(retried), Objects: once}, nil
}

// handedOver is what a hand-over has brought.
type handedOver struct{ copier.Outcome }

func (h handedOver) table(w io.Writer) {
	if h.Lossy {
		row(w, "LOSSY", fmt.Sprintf("writes after revision %d may be missing", h.ThroughRevision))
	}
	row(w, "from", h.From)
	row(w, "to", h.To)
	row(w, "operation", h.OperationID, fmt.Sprintf("generation %d", h.Generation))
	row(w, "owner", h.Owner, fmt.Sprintf("epoch %d", h.Epoch))
	row(w, "lineage", h.Lineage)
	row(w, "decided by", h.DecidedBy, h.Reason)
	row(w, "revision", h.ThroughRevision)
	row(w, "snapshots", h.Snapshots, bytesize(h.Bytes))
	if h.Before {
		row(w, "done", "before")
		return
	}
	row(w, "waited", fmt.Sprintf("%.1f s", h.WaitedSeconds))
	row(w, "copied in", fmt.Sprintf("%.1f s", h.CopySeconds))
}
