package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd/fence"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// examineHandOver looks whether this deployment can hold the right to serve, and
// give it away (HANDOVER §4, §5).
func (c *doctorCommand) examineHandOver(ctx context.Context) []finding {
	t := c.owner.timing
	bound := syncobject.DefaultTiming()
	bound.Lease, bound.Kill, bound.Watchdog = t.Lease, t.Kill, t.Watchdog
	found := []finding{
		judged("hand-over: lease", fmt.Sprintf("%s, read every %s", t.Lease, t.Poll), t.Check()),
		judged("hand-over: force", fmt.Sprintf("a destination waits %s, at least %s is safe", c.wait, bound.Bound()), bound.Check(c.wait)),
		judged("hand-over: clock", "it goes on while the machine sleeps", checkClock()),
	}
	if c.owner.dataDir == "" {
		found = append(found, unchecked("hand-over: signals", "give --data-dir"), unchecked("state dir: place", "give --data-dir"))
	} else {
		found = append(found, examineSignals(c.owner.dataDir))
		found = append(found, c.examineStateDir()...)
	}
	if c.store.url == "" {
		return append(found, unchecked("hand-over: owner", "give --store"), unchecked("hand-over: object", "give --store"))
	}
	return append(found, c.examineObjects(ctx)...)
}

func checkClock() error {
	if (server.SystemClock{}).Boot() == math.MaxInt64 {
		return errors.New("the kernel does not tell CLOCK_BOOTTIME, so every lease would be over: use another kernel")
	}
	_, err := server.BootID()
	return err
}

// examineSignals looks for the etcd that would have to be stopped.
func examineSignals(dataDir string) finding {
	const check = "hand-over: signals"
	if err := fence.New(dataDir).Probe(fence.Process{}); err != nil {
		return failed(check, err)
	}
	holder, err := fence.FindHolder(fence.DB(dataDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unchecked(check, "no etcd is seen on "+dataDir+": if it runs in another container, let them share the process namespace "+
			"(shareProcessNamespace: true) and the volume; otherwise start it, and run doctor again")
	case err != nil:
		return failed(check, err)
	}
	return fine(check, fmt.Sprintf("etcd is process %d, and may be stopped", holder.PID))
}

// examineStateDir looks whether what a restart must remember will be there.
func (c *doctorCommand) examineStateDir() []finding {
	stateDir := c.owner.state()
	const place, system = "state dir: place", "state dir: filesystem"
	there, err := existing(stateDir)
	if err == nil {
		err = checkWritable(there)
	}
	if err != nil {
		return []finding{failed(place, err)}
	}
	found := []finding{fine(place, stateDir)}
	if err := file.New(stateDir).Local(); err != nil {
		return append(found, failed(system, err))
	}
	if err := checkBeside(c.owner.dataDir, stateDir); err != nil && c.owner.stateDir == "" {
		return append(found, failed(system, err))
	} else if err != nil {
		return append(found, warning(system, err.Error()))
	}
	return append(found, fine(system, "local, and that of the data dir"))
}

// existing returns the nearest directory that exists, dir itself or above.
func existing(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		info, err = os.Stat(dir)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory: name another one", dir)
	}
	return dir, err
}

// examineObjects reads what the container says of its owner.
func (c *doctorCommand) examineObjects(ctx context.Context) []finding {
	once, _, err := c.store.both(newMetrics())
	if err != nil {
		return []finding{failed("hand-over: owner", err)}
	}
	owner, err := syncobject.NewOwnerFile(once).Read(ctx)
	object, objectErr := syncobject.NewFile(once).Read(ctx)
	return []finding{c.tellOwner(owner, err), c.tellObject(object, objectErr)}
}

func (c *doctorCommand) tellOwner(o syncobject.Owner, err error) finding {
	const check = "hand-over: owner"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fine(check, "nobody has held the container yet")
	case err != nil:
		return failed(check, err)
	}
	says := fmt.Sprintf("%s by %q in epoch %d, lineage %s", o.State, o.ID, o.Epoch, o.Lineage)
	if o.ID != c.owner.owner {
		return warning(check, says+": not by this deployment, whose etcd is not let in unless the container is handed to it")
	}
	return fine(check, says)
}

func (c *doctorCommand) tellObject(o syncobject.Object, err error) finding {
	const check = "hand-over: object"
	v := syncobject.JudgeRead(o, err, c.owner.owner, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fine(check, "no hand-over was ever wanted")
	case err != nil:
		return failed(check, err)
	}
	says := fmt.Sprintf("generation %d is %s", o.Generation, o.Status)
	if o.Outcome != "" {
		says += ", " + string(o.Outcome)
	}
	if o.Destination.ID != "" {
		says += fmt.Sprintf(", claimed by %q", o.Destination.ID)
	}
	if v == syncobject.Own {
		return fine(check, says)
	}
	return warning(check, says+": the etcd of this deployment is not let in ("+v.String()+")")
}
