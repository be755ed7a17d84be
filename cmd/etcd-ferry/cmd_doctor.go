package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// defaultCheckTimeout is for one subject, such as a store or a member of etcd.
const defaultCheckTimeout = 30 * time.Second

type doctorCommand struct {
	source     storeFlags
	store      storeFlags
	recipients recipientFlags
	identities identityFlags
	etcd       etcdFlags
	output     output
	owner      electionFlags

	wait     time.Duration
	readOnly bool
	timeout  time.Duration
}

func newDoctorCommand(a *app) *cobra.Command {
	return a.command(&cobra.Command{
		Use:   "doctor [--store URL] [--etcd-endpoints URLs] [--data-dir dir]",
		Short: "Check what backup and restore rely on",
		Long: `doctor looks whether what the other commands take for granted is so: that the store
is there, may be used, and keeps its promises when several write at once; that etcd
is healthy, of a version that is supported, and lets itself be backed up; that a
restore has a place and room; that keys can be read; and with --owner-id, that the right
to serve can be held and handed over. Give it the flags that you
give the other commands. What no flag asks for is not checked, and says so.

In a store it creates, overwrites and removes one small object, named probe-…, unless
--read-only is given.`,
		Example: `  etcd-ferry doctor --store file:///var/backups/etcd --etcd-endpoints http://127.0.0.1:2379
  etcd-ferry doctor --store file:///var/backups/etcd --read-only --data-dir /var/lib/etcd -o json`,
	}, &doctorCommand{
		source: storeFlags{source: true},
		etcd:   etcdFlags{name: "etcd-endpoints", usage: "`URLs` of etcd's members, each of which is checked; default: none"},
	})
}

func (c *doctorCommand) flags(fs *pflag.FlagSet) {
	c.store.flags(fs)
	c.source.flags(fs)
	c.recipients.flags(fs)
	c.identities.flags(fs)
	c.etcd.flags(fs)
	c.output.flags(fs)
	c.owner.flags(fs)
	fs.Lookup("data-dir").Usage = "`dir` that a restore would make, and that etcd has; what is in it is left alone"
	fs.DurationVar(&c.wait, "wait", syncobject.DefaultForceAfter, "time after which a destination of --owner-id's hand-over decides alone")
	fs.BoolVar(&c.readOnly, "read-only", false, "write nothing to the stores, and so do not check what becomes of writes")
	fs.DurationVar(&c.timeout, "timeout", defaultCheckTimeout, "time for each store and each member of etcd to answer")
}

func (c *doctorCommand) check() error {
	errs := []error{c.etcd.check(), c.output.check()}
	for _, s := range []*storeFlags{&c.store, &c.source} {
		if s.url != "" {
			errs = append(errs, s.check())
		}
	}
	if c.timeout <= 0 {
		errs = append(errs, errors.New("--timeout must be above 0"))
	}
	asked := false
	for _, e := range c.examinations() {
		asked = asked || e.asked
	}
	if !asked {
		errs = append(errs, errors.New("nothing to check: give at least one of --store, --etcd-endpoints and --data-dir"))
	}
	return errors.Join(errs...)
}

// examination looks at one subject.
type examination struct {
	subject string
	asked   bool
	flag    string // that asks for it
	run     func(context.Context) []finding
}

// examinations are all that doctor can do, in the order in which it tells them.
func (c *doctorCommand) examinations() []examination {
	all := []examination{
		{"store", c.store.url != "", "--store", func(ctx context.Context) []finding { return c.examineStore(ctx, &c.store) }},
		{"source store", c.source.url != "", "--source-store", func(ctx context.Context) []finding { return c.examineStore(ctx, &c.source) }},
		{"recipients", c.recipients.file != "", "--recipients-file", c.examineRecipients},
		{"identities", c.identities.file != "", "--identities-file", c.examineIdentities},
	}
	for _, endpoint := range c.etcd.config.Endpoints {
		all = append(all, examination{"etcd", true, "", func(ctx context.Context) []finding { return c.examineEtcd(ctx, endpoint) }})
	}
	if !c.etcd.given() {
		all = append(all, examination{subject: "etcd", flag: "--" + c.etcd.name})
	}
	return append(all,
		examination{"data dir", c.owner.dataDir != "", "--data-dir", c.examineDataDir},
		examination{"hand-over", c.owner.given(), "--owner-id", c.examineHandOver})
}

func (c *doctorCommand) run(ctx context.Context, e *env) error {
	var d diagnosis
	for _, examination := range c.examinations() {
		if !examination.asked {
			d.Checks = append(d.Checks, unchecked(examination.subject, "give "+examination.flag))
			continue
		}
		d.Checks = append(d.Checks, c.examine(ctx, examination)...)
	}
	for _, f := range d.Checks {
		if f.Result == resultFailed {
			d.Failed++
		}
	}
	return errors.Join(c.output.print(e.out, d), d.err(), ctx.Err())
}

func (c *doctorCommand) examine(ctx context.Context, e examination) []finding {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return e.run(ctx)
}

// The results of a check.
const (
	resultOK        = "ok"
	resultWarning   = "warning"
	resultFailed    = "failed"
	resultUnchecked = "not checked"
)

// finding is an assumption, and whether it holds.
type finding struct {
	Check  string `json:"check"`
	Result string `json:"result"`
	Detail string `json:"detail,omitempty"` // what was found, or what to do
}

func fine(check, detail string) finding      { return finding{check, resultOK, detail} }
func warning(check, detail string) finding   { return finding{check, resultWarning, detail} }
func unchecked(check, detail string) finding { return finding{check, resultUnchecked, detail} }
func failed(check string, err error) finding { return finding{check, resultFailed, err.Error()} }

// judged is fine with a detail, unless there is an error.
func judged(check, detail string, err error) finding {
	if err != nil {
		return failed(check, err)
	}
	return fine(check, detail)
}

// diagnosis is all that doctor found.
type diagnosis struct {
	Checks []finding `json:"checks"`
	Failed int       `json:"failed"` // how many checks
}

func (d diagnosis) table(w io.Writer) {
	row(w, "CHECK", "RESULT", "")
	for _, f := range d.Checks {
		row(w, f.Check, f.Result, oneLine(f.Detail))
	}
}

// err does not repeat what the table says.
func (d diagnosis) err() error {
	if d.Failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed: do what they say, then run doctor again", d.Failed, len(d.Checks))
}
