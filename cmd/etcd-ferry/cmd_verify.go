package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/server"
)

type verifyCommand struct {
	store   storeFlags
	keys    identityFlags
	live    etcdFlags
	output  output
	level   string
	tempDir string
	period  time.Duration
	listen  string
	tls     tlsFlags
}

func newVerifyCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "verify --store URL",
		Short: "Prove that what is stored can be restored",
		Long: `verify looks at everything in the store, to a level that includes those before it:
  manifest  manifests, sizes and gaps; reads little
  content   reads every stored byte and checks digests and formats
  restore   restores the newest state into a temporary directory, checks the
            database, and compares the hash of its keys with the one in the
            manifests, or of the live etcd if --etcd-endpoints is given

With --listen it does so each --period until it is told to stop, and answers /livez,
/metrics, which has the last result and revision, and a page for people at /.`,
	}, &verifyCommand{live: etcdFlags{
		name: "etcd-endpoints", usage: "`URLs` of the live etcd, to compare a trial restore with; default: none is asked",
	}})
}

func (c *verifyCommand) flags(fs *pflag.FlagSet) {
	c.store.flags(fs)
	c.keys.flags(fs)
	c.live.flags(fs)
	c.output.flags(fs)
	fs.StringVar(&c.level, "level", string(restorer.LevelRestore), "how deep to look: `level` manifest, content or restore")
	fs.DurationVar(&c.period, "period", server.DefaultVerifyPeriod, "with --listen: time between two verifications")
	fs.StringVar(&c.listen, "listen", "", "`address` to answer HTTP on, and to go on; default: verify once")
	c.tls.flags(fs)
	fs.StringVar(&c.tempDir, "temp-dir", "", "`dir` for a trial restore, with room for the database; default: the system's")
}

func (c *verifyCommand) check() error {
	errs := []error{c.store.check(), c.live.check(), c.output.check(), c.tls.check()}
	if !slices.Contains(restorer.Levels, restorer.Level(c.level)) {
		errs = append(errs, fmt.Errorf("--level %q: want manifest, content or restore", c.level))
	}
	if c.period <= 0 {
		errs = append(errs, errors.New("--period must be above 0"))
	}
	if c.listen != "" {
		errs = append(errs, checkListen(c.listen))
	}
	return errors.Join(errs...)
}

func (c *verifyCommand) run(ctx context.Context, e *env) error {
	m := newMetrics()
	a, err := c.store.open(m)
	if err != nil {
		return err
	}
	if err := c.keys.apply(a); err != nil {
		return err
	}
	v := restorer.NewVerifier(a)
	v.Level, v.TempDir = restorer.Level(c.level), c.tempDir
	if c.live.given() {
		client, err := c.live.dial(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		v.Live = client
	}
	if c.listen != "" {
		return c.again(ctx, e, server.NewVerifyMode(v.Verify), a, m)
	}
	return c.once(ctx, e, v)
}

// again verifies each period.
func (c *verifyCommand) again(ctx context.Context, e *env, mode *server.VerifyMode, a *archive.Archive, m *metrics) error {
	mode.Period, mode.Log, mode.Metrics, mode.Results = c.period, e.log, m.handler(), m.verification()
	mode.Web, mode.Name, mode.Version = m.web(), a.String(), buildVersion()
	l, err := c.tls.listen(ctx, c.listen, e.log, mode.Web)
	if err != nil {
		return err
	}
	return mode.Run(ctx, l)
}

func (c *verifyCommand) once(ctx context.Context, e *env, v *restorer.Verifier) error {
	began := time.Now()
	report, stop := e.progress(ctx, "verify")
	v.Progress = report
	found, err := v.Verify(ctx)
	stop()
	if err != nil {
		return c.live.explain(ctx, err)
	}
	result := verified{found, time.Since(began).Seconds()}
	return errors.Join(c.output.print(e.out, result), result.err())
}

// verified is what verification found.
type verified struct {
	restorer.Report
	Seconds float64 `json:"seconds"`
}

// err is nil if all is well. It does not repeat what the report says.
func (v verified) err() error {
	if len(v.Findings) == 0 {
		return nil
	}
	return findings{v.Report}
}

type findings struct{ report restorer.Report }

func (f findings) Error() string {
	if len(f.report.Findings) == 1 {
		return "verification found 1 problem, see the report"
	}
	return fmt.Sprintf("verification found %d problems, see the report", len(f.report.Findings))
}

func (f findings) Unwrap() error { return f.report.Err() }

func (v verified) table(w io.Writer) {
	row(w, "level", v.Level)
	row(w, "snapshots", v.Snapshots)
	row(w, "read", bytesize(v.Bytes))
	row(w, "seconds", fmt.Sprintf("%.1f", v.Seconds))
	for _, window := range v.Windows {
		row(w, "restorable", window)
	}
	if t := v.Trial; t != nil {
		row(w, "trial restore", fmt.Sprintf("revision %d in %.1f s, hash %08x", t.Result.Revision, t.Seconds, t.HashKV.Hash))
		against := "nothing to compare the hash with: give --etcd-endpoints"
		if t.Compared != "" {
			against = "the same hash as " + t.Compared
		}
		row(w, "compared", against)
	}
	for _, copying := range v.Unfinished {
		row(w, "unfinished", copying)
	}
	for _, f := range v.Findings {
		row(w, "problem", f.Problem)
	}
	if len(v.Findings) == 0 {
		row(w, "verdict", "all is well")
	}
}
