package browser

import (
	"fmt"
	"math"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/server/page"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

var now = time.Date(2026, 11, 21, 3, 7, 42, 0, time.UTC)

const lineage = "6f1c9c0e-5c1e-4b53-9a0f-0d5a3f5f2f11"

// stored is what a day brings: a full each six hours, and a delta whenever there was
// anything new, less of it at night.
func stored() []snapshot.Manifest {
	var all []snapshot.Manifest
	revision := int64(41_250_000)
	for at := now.Add(-26 * time.Hour); at.Before(now); at = at.Add(20 * time.Second) {
		hour := float64(at.Hour()) + float64(at.Minute())/60
		busy := 0.15 + math.Pow(math.Sin(math.Pi*hour/24), 4)
		if at.Hour() == 17 {
			busy *= 3
		}
		next := revision + int64(busy*750)
		m := snapshot.Manifest{Kind: snapshot.Delta, First: revision + 1, Last: next, Time: at, StoredSize: int64(busy * 53_000), Lineage: lineage}
		if at.Hour()%6 == 0 && at.Minute() == 0 && at.Second() < 20 {
			m = snapshot.Manifest{Kind: snapshot.Full, First: next, Last: next, Time: at, StoredSize: 82 << 20, Lineage: lineage}
		}
		all, revision = append(all, m), next
	}
	return all
}

func serving() page.State {
	all := stored()
	last := all[len(all)-1]
	return page.State{
		Now: now, Version: "v0.1.0", Name: "a", Kind: "server",
		Verdict: page.Verdict{Level: page.Good, Title: "etcd serves", Text: "This deployment is the owner, its lease is valid, and etcd answers."},
		Lease: &page.Lease{
			Role: "Owner", Remaining: 114 * time.Second, Length: 2 * time.Minute, Known: true, Read: 6 * time.Second,
			Owner: "a", Epoch: 3, Lineage: lineage, Member: "8e9e05c52164694d", Members: 3,
		},
		Etcd:         &page.Etcd{Endpoint: "http://127.0.0.1:2379", Revision: last.Last + 214, Size: 1_480 << 20, InUse: 611 << 20, Quota: 8 << 30},
		Verification: &page.Verification{},
		Backup: &page.Backup{
			Where: "s3://etcd-a/main", Age: 4 * time.Second, Chart: page.NewChart(all, now), Recent: page.Recent(all),
			Fulls: 22, Deltas: 6_480, Bytes: 5_800 << 20, Running: true, LagKnown: true, LagRevisions: 214, LagSeconds: 7.4, WaitingBytes: 18_200,
			Windows: []page.Window{
				{First: 38_000_118, Last: last.Last, From: now.Add(-14 * 24 * time.Hour), To: last.Time, Exact: true, Lineage: lineage},
				{First: 12_400_000, Last: 37_411_902, From: now.Add(-40 * 24 * time.Hour), To: now.Add(-15 * 24 * time.Hour), Exact: true, Lineage: "0b3f77aa-8f1e-4f7e-8ac1-30d2ad3a9c10"},
			},
		},
		HandOver: page.NewHandOver(object(func(o *syncobject.Object) {
			o.Status, o.Outcome, o.ObservedGeneration = syncobject.Done, syncobject.Completed, o.Generation
			o.Source.Phase, o.Decision.By = syncobject.Publishing, syncobject.Source
			o.Destination.Phase = syncobject.Finished
		})),
		Links: []page.Link{
			{Path: "/snapshots", Text: "Snapshots"},
			{Path: "/metrics", Text: "Metrics"},
			{Path: "/openapi.yaml", Text: "HTTP interface"},
			{Path: "/copyop/status", Text: "Hand-over"},
			{Path: "/owner", Text: "Owner"},
		},
	}
}

func object(change func(*syncobject.Object)) syncobject.Object {
	o := syncobject.Object{
		Status: syncobject.Initial, OperationID: "move-to-b-2026-11", Generation: 3, ObservedGeneration: 2,
		Owner: syncobject.Holder{ID: "a", Epoch: 3}, CreatedAt: syncobject.At(now.Add(-time.Minute)), UpdatedAt: syncobject.At(now),
		Source:      syncobject.SourceState{Phase: syncobject.Snapshotting, Heartbeat: syncobject.At(now.Add(-4 * time.Second)), Members: 3},
		Destination: syncobject.DestinationState{ID: "b", ClaimedAt: syncobject.At(now.Add(-58 * time.Second)), Phase: syncobject.Waiting},
	}
	o.Snapshots.ThroughRevision = 41_923_114
	o.Decision.At = syncobject.At(now.Add(-20 * time.Second))
	change(&o)
	return o
}

func handingOver() page.State {
	s := serving()
	s.Verdict = page.Verdict{Level: page.Wait, Title: "Being handed over: etcd does not serve", Text: "A hand-over is wanted."}
	s.Lease.Role, s.Lease.Reason = "Snapshotting", "a hand-over is wanted"
	s.HandOver = page.NewHandOver(object(func(*syncobject.Object) {}))
	s.Backup.Running, s.Backup.LagRevisions = false, 0
	return s
}

func trouble() page.State {
	s := serving()
	s.Verdict = page.Verdict{Level: page.Bad, Title: "etcd may not serve", Text: "The lease is over: the store has not been read for too long."}
	s.Lease.Role, s.Lease.Remaining, s.Lease.Read = "SelfFenced", 0, 9*time.Minute
	s.Lease.Reason = "the lease is over: the store has not been read for too long"
	s.Notes = []page.Note{
		{Level: page.Bad, Text: "The store cannot be read: s3://etcd-a/main: GetObject: operation error S3: GetObject, https response error StatusCode: 403, RequestID: 17A0F3C2D9B1E4A8, api error InvalidAccessKeyId: the access key id you provided does not exist in our records", Advice: "One good read is enough for etcd to be let in again. Repair the store, the network or the credential."},
		{Level: page.Bad, Text: "The backup has made no progress for three delta periods.", Advice: "The log says why."},
		{Level: page.Wait, Text: "2 of the stored snapshots are damaged.", Advice: "Take a full now."},
	}
	s.Backup.Stalled, s.Backup.FullDue = true, true
	s.Backup.Error = "the store has not answered in time"
	s.Backup.Age = 9 * time.Minute
	s.HandOver = page.NewHandOver(object(func(o *syncobject.Object) {
		o.Status, o.Outcome, o.ObservedGeneration = syncobject.Done, syncobject.Completed, o.Generation
		o.Source.Phase, o.Decision = "", syncobject.Decision{By: syncobject.Destination, Forced: true, Lossy: true, At: syncobject.At(now)}
	}))
	return s
}

// beginning is a server that nobody has written to yet, without owner election.
func beginning() page.State {
	return page.State{
		Now: now, Version: "v0.1.0", Name: "file:///var/backups/etcd", Kind: "server",
		Verdict:      page.Verdict{Level: page.Bad, Title: "etcd does not answer", Text: "etcd at http://127.0.0.1:2379: connection refused"},
		Etcd:         &page.Etcd{Endpoint: "http://127.0.0.1:2379"},
		Verification: &page.Verification{}, Backup: &page.Backup{Where: "file:///var/backups/etcd", LagKnown: true, Running: true},
		Links: []page.Link{{Path: "/metrics", Text: "Metrics"}},
	}
}

func copying() page.State {
	return page.State{
		Now: now, Version: "v0.1.0", Name: "b", Kind: "copy",
		Verdict: page.Verdict{Level: page.Wait, Title: "Waiting for the source", Text: "It is to stop its etcd and to store the rest. Without it this side may decide in 542 s, which may lose writes."},
		HandOver: page.NewHandOver(object(func(o *syncobject.Object) {
			o.Source.Phase, o.Source.FencedMembers = syncobject.Fencing, []string{"m1"}
		})),
		Links: []page.Link{{Path: "/copyop/status", Text: "Hand-over"}},
	}
}

// verifying is what a verify mode shows whose last one was well.
func verifying() page.State {
	return page.State{
		Now: now, Version: "v0.1.0", Name: "s3://etcd-a/main", Kind: "verify",
		Verdict:      page.Verdict{Level: page.Good, Title: "What is stored can be restored", Text: "The last verification has found nothing wrong."},
		Verification: &page.Verification{Known: true, Result: "ok", At: now.Add(-time.Hour), Revision: 41_000_123, Seconds: 612},
		Links:        []page.Link{{Path: "/metrics", Text: "Metrics"}},
	}
}

// hostile has what somebody else has written in every field.
func hostile() page.State {
	const evil = `"><script>window.owned=1</script><img src=x onerror=window.owned=1>` + "'\u202e"
	s := trouble()
	s.Name, s.Version, s.Verdict.Title, s.Verdict.Text, s.Lease.Reason, s.Lease.Owner, s.Lease.Lineage = evil, evil, evil, evil, evil, evil, evil
	s.Etcd.Endpoint, s.Backup.Where, s.Backup.Error, s.Verification = evil, evil, evil, &page.Verification{Known: true, Result: evil}
	s.Notes[0].Text, s.Notes[1].Advice = evil, fmt.Sprint(evil, evil)
	s.HandOver = page.NewHandOver(object(func(o *syncobject.Object) {
		o.OperationID, o.Owner.ID, o.Destination.ID, o.CreatedAt, o.Source.Error = evil, evil, evil, evil, evil
		o.Source.Phase = syncobject.SnapshotFailed
	}))
	return s
}

func states() map[string]page.State {
	return map[string]page.State{
		"serving": serving(), "handover": handingOver(), "trouble": trouble(), "beginning": beginning(), "copy": copying(), "verify": verifying(),
		"hostile": hostile(),
	}
}
