package copier

import (
	"context"
	"slices"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
)

// announced carries out p between announcing what it will create in the
// destination and withdrawing that. What an earlier copy announced need not be
// announced again, and is withdrawn with the rest. A copy that is cut off leaves
// its announcement: so at every moment each stray of a copy is known as one.
//
// A stray that nobody announced is somebody else's, and stays so until it was
// found to have the right bytes and counts.
func (j *job) announced(ctx context.Context, p Plan) error {
	known := archive.Listing{Announcements: p.announced}
	var names []string
	for _, it := range p.Items {
		if name := j.target(it.Manifest).Name; it.State == Missing && !known.Incoming(name) {
			names = append(names, name)
		}
	}
	announced, err := j.to.Announce(ctx, p.From, names)
	if err != nil {
		return err
	}
	leftOut := len(j.result.LeftOut)
	if err := j.run(ctx, p.Items); err != nil {
		return err
	}
	if leftOut < len(j.result.LeftOut) { // found damaged, and perhaps a stray
		return nil
	}
	for _, a := range append(announced, p.announced...) {
		if j.finished(a, p) {
			j.withdraw(ctx, a)
		}
	}
	return nil
}

// finished reports whether nothing that a announced is a stray, now that all of p
// has been copied.
func (j *job) finished(a archive.Announcement, p Plan) bool {
	copied := map[string]bool{}
	for _, it := range p.Items {
		copied[j.target(it.Manifest).Name] = true
	}
	return !slices.ContainsFunc(p.strays, func(name string) bool { return !copied[name] && slices.Contains(a.Names, name) })
}

// withdraw does not fail a copy that is complete: what stays names snapshots that
// count.
func (j *job) withdraw(ctx context.Context, a archive.Announcement) {
	if err := j.to.Withdraw(ctx, a); err != nil {
		j.Log.Warn("the announcement of a finished copy stays, the next copy tries to remove it", "error", err)
	}
}
