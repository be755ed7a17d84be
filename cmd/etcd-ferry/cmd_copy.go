package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

type copyCommand struct {
	source     storeFlags
	store      storeFlags
	recipients recipientFlags
	identities identityFlags
	output     output

	manual    bool
	selection copier.Selection
	since     string
	reencrypt bool
	dryRun    bool
	bandwidth bytesize
	parallel  int

	handing handOverFlags
}

func newCopyCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "copy --source-store URL --store URL (--owner-id ID | --manual)",
		Short: "Take over an etcd from another store, or copy its snapshots",
		Long: `With --owner-id copy takes over an etcd: it claims the source store, waits until the
etcd there has stopped and its last snapshot is stored, copies exactly that, checks
every byte, and makes the owner id the owner. A server with that owner id restores it
from --store and serves. If the source does not answer within --wait this side decides
without it: what the source did not store is lost then, and the exit code says so. A
hand-over that is interrupted is finished by running it again.

With --manual copy only copies, whoever serves: it brings snapshots from one store to
another as they are, checks every byte, and lets a copy count only when it is right
and what it continues is there. It never overwrites or removes anything. One that is
interrupted is finished by running it again: what has arrived is not sent again.
Without other flags everything that can be restored is copied; --dry-run shows what
would be.

Encrypted snapshots are copied without their keys. With --reencrypt they are opened
with --identities-file, and packed for the keys in --recipients-file; what is in the
destination already stays as it is, for whomever it was encrypted.`,
		Example: `  etcd-ferry copy --source-store s3://old/etcd --store s3://new/etcd --owner-id new
  etcd-ferry copy --source-store file:///var/backups/etcd --store file:///mnt/other --manual
  etcd-ferry copy --source-store file:///var/backups/etcd --store file:///mnt/other --manual \
    --latest --bandwidth 50MiB`,
	}, &copyCommand{source: storeFlags{source: true}})
}

func (c *copyCommand) flags(fs *pflag.FlagSet) {
	c.source.flags(fs)
	c.store.flags(fs)
	c.recipients.flags(fs)
	c.identities.flags(fs)
	c.output.flags(fs)
	fs.BoolVar(&c.manual, "manual", false, "only copy, without handing etcd over")
	fs.BoolVar(&c.selection.Latest, "latest", false, "with --manual: copy the newest chain only")
	fs.StringVar(&c.since, "since", "", "with --manual: copy what it takes to restore any state from this `time` on, as 2006-01-02T15:04:05Z")
	fs.StringVar(&c.selection.Lineage, "lineage", "", "with --manual: copy this `history` of those that list shows; default: all")
	fs.BoolVar(&c.reencrypt, "reencrypt", false, "encrypt the copies for --recipients-file")
	fs.BoolVar(&c.dryRun, "dry-run", false, "with --manual: print what would be copied, do nothing")
	fs.Var(&c.bandwidth, "bandwidth", "bytes to read in a second, from both stores together; a copy is read back; 0: as many as possible")
	fs.IntVar(&c.parallel, "parallel", copier.DefaultParallel, "copy `N` objects at a time")
	c.handing.flags(fs)
}

func (c *copyCommand) check() error {
	errs := []error{c.source.check(), c.store.check(), c.output.check(), c.checkSelection()}
	errs = append(errs, c.checkMode())
	if c.source.url != "" && sameStore(c.source.url, c.store.url) {
		errs = append(errs, errors.New("--source-store and --store are the same: copy to another store"))
	}
	if c.parallel < 1 {
		errs = append(errs, errors.New("--parallel must be above 0"))
	}
	switch {
	case c.reencrypt && c.recipients.file == "":
		errs = append(errs, errors.New("--reencrypt needs --recipients-file: say for whom"))
	case !c.reencrypt && c.recipients.file+c.identities.file != "":
		errs = append(errs, errors.New("--recipients-file and --identities-file go with --reencrypt: without it snapshots are copied as they are"))
	}
	return errors.Join(errs...)
}

// checkMode looks for flags of the other mode.
func (c *copyCommand) checkMode() error {
	handing := c.handing.given()
	switch {
	case c.manual && len(handing) > 0:
		return fmt.Errorf("%s and --manual exclude each other: --manual hands nothing over", list(handing))
	case c.manual:
		return nil
	case c.selection != (copier.Selection{}) || c.since != "" || c.dryRun:
		return errors.New("--latest, --since, --lineage and --dry-run go with --manual: what is handed over is not to be chosen")
	}
	return c.handing.check()
}

// sameStore reports whether two URLs name one place, however they are written.
func sameStore(a, b string) bool {
	x, errX := url.Parse(a)
	y, errY := url.Parse(b)
	return errX == nil && errY == nil && x.Scheme == y.Scheme && x.Host == y.Host &&
		path.Clean("/"+x.Path) == path.Clean("/"+y.Path) && x.Query().Get("endpoint") == y.Query().Get("endpoint")
}

// checkSelection also reads the time.
func (c *copyCommand) checkSelection() error {
	if c.since == "" {
		return nil
	}
	if c.selection.Latest {
		return errors.New("--latest and --since exclude each other: give one")
	}
	var err error
	if c.selection.Since, err = time.Parse(time.RFC3339, c.since); err != nil {
		return fmt.Errorf("--since %q: want for example %s", c.since, time.Now().UTC().Format(time.RFC3339))
	}
	return nil
}

func (c *copyCommand) run(ctx context.Context, e *env) error {
	if !c.manual {
		return c.handOver(ctx, e)
	}
	from, to, err := c.open()
	if err != nil {
		return err
	}
	copies := copier.New(from, to)
	copies.Selection, copies.Reencrypt = c.selection, c.reencrypt
	copies.Bandwidth, copies.Parallel, copies.Log = int64(c.bandwidth), c.parallel, e.log
	plan, err := copies.Plan(ctx)
	if err != nil {
		return err
	}
	if c.dryRun {
		return errors.Join(c.output.print(e.out, plannedCopy{plan}), plan.Err())
	}
	report, stop := e.progress(ctx, "copy")
	copies.Progress = report
	done, doErr := copies.Do(ctx, plan)
	stop()
	return errors.Join(c.output.print(e.out, copied{done}), doErr)
}

// open returns both archives. What is re-encrypted is opened, and recognised
// after an interruption, with the same identities.
func (c *copyCommand) open() (from, to *archive.Archive, err error) {
	m := newMetrics()
	if from, err = c.source.open(m); err != nil {
		return nil, nil, err
	}
	if to, err = c.store.open(m); err != nil {
		return nil, nil, err
	}
	return from, to, c.keys(from, to)
}

func (c *copyCommand) keys(from, to *archive.Archive) error {
	return errors.Join(c.recipients.apply(to), c.identities.apply(from), c.identities.apply(to))
}

// plannedCopy is what a dry run found.
type plannedCopy struct{ copier.Plan }

func (p plannedCopy) table(w io.Writer) { fmt.Fprint(w, p.Plan) }

// copied is what was done.
type copied struct{ copier.Result }

func (c copied) table(w io.Writer) {
	row(w, "from", c.From)
	row(w, "to", c.To)
	row(w, "copied", fmt.Sprintf("%d snapshots", c.Copied), bytesize(c.CopiedBytes))
	row(w, "uploaded before", fmt.Sprintf("%d snapshots", c.Adopted), bytesize(c.AdoptedBytes))
	row(w, "there before", fmt.Sprintf("%d snapshots", c.There), bytesize(c.ThereBytes))
	for _, l := range c.LeftOut {
		row(w, "left out", l.Name, l.Reason)
	}
	row(w, "seconds", fmt.Sprintf("%.1f", c.Seconds))
}
