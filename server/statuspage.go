package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server/page"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// page answers the status page, with what is known or found out within seconds.
func (d *Daemon) page(w http.ResponseWriter, r *http.Request) {
	if err := d.drawn.Answer(w, d.state(r.Context())); err != nil {
		d.Log.Error("the status page cannot be shown", "error", err)
		fail(w, http.StatusInternalServerError, "page", err)
	}
}

func (d *Daemon) state(ctx context.Context) page.State {
	stored := make(chan glance, 1)
	go func() { stored <- d.look.of(ctx, d.archive) }() // it ends with ctx, or by itself
	healthy := d.healthy(ctx)
	values := valuesOf(d.Metrics)
	s := page.State{
		Now: time.Now(), Version: d.Version, Name: d.archive.String(), Kind: "server",
		Backup: backup(<-stored, d.archive.String(), values), Etcd: etcdState(d.etcd.Endpoint(), values),
		Verification: verification(values),
		Links: []page.Link{
			{Path: "/snapshots", Text: "Snapshots"}, {Path: "/metrics", Text: "Metrics"}, {Path: "/openapi.yaml", Text: "HTTP interface"},
		},
	}
	if d.Election == nil {
		s.Verdict = plainVerdict(healthy)
	} else {
		e := d.Election.Status()
		s.Name = d.Election.ID
		s.Lease = d.lease(e)
		s.Verdict = verdictOf(e, healthy)
		s.Notes = electionNotes(e, s.Lease)
		if e.Object != nil {
			s.HandOver = page.NewHandOver(asSeenHere(e))
		}
		s.Links = append(s.Links, page.Link{Path: "/copyop/status", Text: "Hand-over"}, page.Link{Path: "/owner", Text: "Owner"})
	}
	s.Notes = append(s.Notes, etcdNotes(s.Etcd)...)
	s.Notes = append(s.Notes, backupNotes(s.Backup)...)
	return s
}

// asSeenHere is the sync object with what this source knows to be further: it is read
// once in a poll period.
func asSeenHere(e Status) syncobject.Object {
	o := *e.Object
	if !o.Pending() || o.Status != syncobject.Initial {
		return o
	}
	switch p := o.Source.Phase; {
	case p == syncobject.FenceFailed, p == syncobject.SnapshotFailed: // they are more than a role tells
	case e.Role == Publishing, e.Role == Ceded: // it is done, and the next read shows it
		o.Source.Phase = syncobject.Publishing
	case e.Role == Snapshotting:
		o.Source.Phase = syncobject.Snapshotting
	case e.Role == Fencing && p == "":
		o.Source.Phase = syncobject.Fencing
	}
	return o
}

// sentence makes one of a reason.
func sentence(reason string) string {
	if reason == "" {
		return ""
	}
	return strings.ToUpper(reason[:1]) + reason[1:] + "."
}

func plainVerdict(healthy error) page.Verdict {
	if healthy != nil {
		return page.Verdict{Level: page.Bad, Title: "etcd does not answer", Text: sentence(healthy.Error())}
	}
	return page.Verdict{Level: page.Good, Title: "etcd serves", Text: "It answers, and is backed up. There is no owner election here: nothing keeps it from serving."}
}

func verdictOf(e Status, healthy error) page.Verdict {
	switch {
	case e.Reason == "" && healthy == nil:
		return page.Verdict{Level: page.Good, Title: "etcd serves", Text: "This deployment is the owner, its lease is valid, and etcd answers."}
	case e.Reason == "":
		return page.Verdict{Level: page.Bad, Title: "etcd may serve, and does not answer", Text: sentence(healthy.Error())}
	case e.Role == Ceded:
		return page.Verdict{Level: page.Quiet, Title: "Handed over: etcd does not serve here", Text: sentence(e.Reason)}
	case e.Role == Released:
		return page.Verdict{Level: page.Quiet, Title: "Stopped: etcd does not serve here", Text: sentence(e.Reason)}
	case e.Role == Fencing, e.Role == Snapshotting, e.Role == Publishing:
		return page.Verdict{Level: page.Wait, Title: "Being handed over: etcd does not serve", Text: sentence(e.Reason)}
	default:
		return page.Verdict{Level: page.Bad, Title: "etcd may not serve", Text: sentence(e.Reason)}
	}
}

func (d *Daemon) lease(e Status) *page.Lease {
	return &page.Lease{
		Role: string(e.Role), Reason: e.Reason, Remaining: max(0, e.Remaining), Length: d.Election.Timing.Lease, Endless: !d.Election.Implicit,
		Known: e.Known, Read: e.Age, Owner: d.Election.ID, Epoch: e.Holder.Epoch, Lineage: e.Holder.Lineage, Member: e.Member, Members: e.Members,
	}
}

func electionNotes(e Status, l *page.Lease) []page.Note {
	var notes []page.Note
	if e.LastError != "" {
		n := page.Note{Level: page.Wait, Text: "The store cannot be read: " + e.LastError}
		switch {
		case l.Endless:
			n.Advice = "A hand-over would not be seen. Repair the store, the network or the credential."
		case l.Remaining > 0:
			n.Advice = fmt.Sprintf("etcd is stopped in %d s unless one read succeeds. Repair the store, the network or the credential.", int(l.Remaining.Seconds()))
		default:
			n.Level, n.Advice = page.Bad, "One good read is enough for etcd to be let in again. Repair the store, the network or the credential."
		}
		notes = append(notes, n)
	}
	if o := e.Object; o != nil && o.Pending() && o.Source.Error != "" {
		notes = append(notes, page.Note{
			Level: page.Bad, Text: "The hand-over does not go on: " + o.Source.Error,
			Advice: "It is tried again. To have etcd serve here again instead: etcd-ferry copyop abort",
		})
	}
	return notes
}

func etcdState(endpoint string, v values) *page.Etcd {
	e := &page.Etcd{
		Endpoint: endpoint, Revision: v.whole("etcd_ferry_etcd_revision"), Size: v.whole("etcd_ferry_etcd_database_bytes"),
		InUse: v.whole("etcd_ferry_etcd_database_in_use_bytes"), Quota: v.whole("etcd_ferry_etcd_quota_bytes"),
	}
	for _, alarm := range []string{"nospace", "corrupt"} {
		if v[`etcd_ferry_etcd_alarm{type="`+alarm+`"}`] > 0 {
			e.Alarms = append(e.Alarms, strings.ToUpper(alarm))
		}
	}
	return e
}

func etcdNotes(e *page.Etcd) []page.Note {
	var notes []page.Note
	for _, alarm := range e.Alarms {
		n := page.Note{Level: page.Bad, Text: "etcd has raised the alarm " + alarm + "."}
		if alarm == "NOSPACE" {
			n.Advice = "It refuses writes. Compact and defragment it, or raise its quota; then: etcdctl alarm disarm"
		} else {
			n.Advice = "Members hold different data. Do not restart them all; see operations.md."
		}
		notes = append(notes, n)
	}
	return notes
}

func backup(s glance, where string, v values) *page.Backup {
	now := time.Now()
	b := &page.Backup{
		Where: where, Chart: page.NewChart(s.Manifests, now), Recent: page.Recent(s.Manifests), Damaged: len(s.Problems),
		Running: v["etcd_ferry_backup_running"] > 0, LagSeconds: v["etcd_ferry_lag_seconds"], LagRevisions: v.whole("etcd_ferry_lag_revisions"),
		WaitingBytes: v.whole("etcd_ferry_waiting_bytes"), Stalled: v["etcd_ferry_stalled"] > 0,
		FullDue: v[`etcd_ferry_snapshot_required{kind="full"}`] > 0, DeltaDue: v[`etcd_ferry_snapshot_required{kind="delta"}`] > 0,
	}
	_, b.LagKnown = v["etcd_ferry_backup_running"]
	if s.err != nil {
		b.Error = s.err.Error()
	}
	if !s.at.IsZero() {
		b.Age = now.Sub(s.at)
	}
	for _, m := range s.Manifests {
		b.Bytes += m.StoredSize
		if m.Kind == snapshot.Full {
			b.Fulls++
		} else {
			b.Deltas++
		}
	}
	windows := snapshot.Windows(s.Manifests)
	for i := range windows { // the newest history is what one looks for
		w := windows[len(windows)-1-i]
		b.Windows = append(b.Windows, page.Window{First: w.First, Last: w.Last, From: w.From, To: w.To, Exact: w.Exact, Lineage: w.Lineage})
	}
	return b
}

func backupNotes(b *page.Backup) []page.Note {
	var notes []page.Note
	if b.Damaged > 0 {
		notes = append(notes, page.Note{
			Level: page.Bad, Text: fmt.Sprintf("%d of the stored snapshots are damaged.", b.Damaged),
			Advice: "Take a full now: etcd-ferry snapshot full, or POST /snapshot/full. /snapshots names what is damaged.",
		})
	}
	if b.Stalled {
		notes = append(notes, page.Note{
			Level: page.Bad, Text: "The backup has made no progress for three delta periods.",
			Advice: "The log says why. Look whether the store answers: etcd-ferry doctor --store " + b.Where,
		})
	}
	if b.Error != "" {
		notes = append(notes, page.Note{Level: page.Wait, Text: "The store could not be looked at: " + b.Error})
	}
	return notes
}

func verification(v values) *page.Verification {
	s := &page.Verification{
		Revision: v.whole("etcd_ferry_verified_revision"), Seconds: v["etcd_ferry_verification_duration_seconds"],
	}
	_, s.Known = v["etcd_ferry_verified_timestamp_seconds"]
	if at := v.whole("etcd_ferry_verified_timestamp_seconds"); at > 0 {
		s.At = time.Unix(at, 0)
	}
	for _, verdict := range verdicts() {
		if v[`etcd_ferry_verification_result{result="`+verdict+`"}`] > 0 {
			s.Result = verdict
		}
	}
	return s
}
