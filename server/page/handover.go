package page

import (
	"fmt"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// NewHandOver says step by step how far the newest hand-over of a container is, and
// what each step waits for. There must have been one.
func NewHandOver(o syncobject.Object) *HandOver {
	h := &HandOver{
		Title: "Hand-over in progress", Level: Wait,
		Text:  fmt.Sprintf("Generation %d, operation %s.", o.Generation, o.OperationID),
		Steps: []Step{wanted(o), claimed(o), fenced(o), final(o), decided(o), copied(o), taken(o)},
	}
	switch {
	case o.Pending():
		return h
	case o.Outcome == syncobject.Aborted:
		h.Title, h.Level = "The last hand-over was taken back", Quiet
		h.Text += " Nothing was handed over."
		for i, s := range h.Steps {
			if s.Stage != Done {
				h.Steps[i].Stage, h.Steps[i].Text = Skipped, ""
			}
		}
	case o.Outcome == syncobject.Superseded:
		h.Title, h.Level = "The last hand-over from here is completed, and the container was handed back", Quiet
	case o.Decision.Lossy:
		h.Title, h.Level = "The last hand-over is completed, and may have lost writes", Bad
	default:
		h.Title, h.Level = "The last hand-over is completed", Quiet
	}
	return h
}

func wanted(o syncobject.Object) Step {
	return Step{Title: "Wanted", Stage: Done, Text: "of " + name(o.Owner.ID), At: string(o.CreatedAt)}
}

func claimed(o syncobject.Object) Step {
	s := Step{Title: "Claimed by a destination"}
	if o.Destination.ID == "" {
		s.Stage, s.Text = Now, "waits for etcd-ferry copy to be started where it shall go; nobody serves meanwhile"
		return s
	}
	s.Stage, s.Text, s.At = Done, "by "+name(o.Destination.ID), string(o.Destination.ClaimedAt)
	return s
}

// withoutSource reports whether the destination has decided, and not the source.
func withoutSource(o syncobject.Object) bool { return o.Decision.By == syncobject.Destination }

func fenced(o syncobject.Object) Step {
	s := Step{Title: "etcd stopped"}
	switch p := o.Source.Phase; {
	case p.Closed():
		s.Stage, s.Text = Done, "no write is acknowledged any more"
	case p == syncobject.FenceFailed:
		s.Stage, s.Text = Failed, "the source cannot stop its etcd: "+because(o)+". Stop it by hand"
	case withoutSource(o):
		s.Stage, s.Text = Skipped, "the source did not say so in time"
	case o.Status != syncobject.Initial:
		s.Stage = Done
	case p == syncobject.Fencing:
		s.Stage, s.Text = Now, "waits for etcd to end"+members(o)
	default:
		s.Stage, s.Text = Now, "waits for the source's server to see that it is wanted"
	}
	return s
}

func members(o syncobject.Object) string {
	if o.Source.Members < 2 {
		return ""
	}
	return fmt.Sprintf(": %d of %d members", len(o.Source.FencedMembers), o.Source.Members)
}

func final(o syncobject.Object) Step {
	s := Step{Title: "Final snapshot stored"}
	switch p := o.Source.Phase; {
	case withoutSource(o):
		s.Stage, s.Text = Skipped, "the newest that was stored before is taken instead"
	case o.Status != syncobject.Initial || p == syncobject.Publishing:
		s.Stage = Done
	case p == syncobject.SnapshotFailed:
		s.Stage, s.Text = Failed, because(o)+". It is tried again"
	case p == syncobject.Snapshotting, p == syncobject.Fenced:
		s.Stage, s.Text = Now, "waits for the database to be read and stored"
		if o.Source.Heartbeat != "" {
			s.Text, s.At = s.Text+"; last sign of life", string(o.Source.Heartbeat)
		}
	default:
		s.Stage, s.Text = Next, "waits for etcd to be stopped"
	}
	return s
}

func because(o syncobject.Object) string {
	if o.Source.Error == "" {
		return "it does not say why"
	}
	return o.Source.Error
}

func decided(o syncobject.Object) Step {
	s := Step{Title: "Decided what is handed over"}
	switch {
	case o.Status == syncobject.Initial && o.Source.Phase == syncobject.Publishing:
		s.Stage, s.Text = Now, "waits for the store to take it"
	case o.Status == syncobject.Initial:
		s.Stage, s.Text = Next, "waits for the final snapshot"
	case o.Decision.Lossy:
		s.Stage, s.At = Done, string(o.Decision.At)
		s.Text = fmt.Sprintf("by the destination, without the source: writes after revision %s may be missing", number(o.Snapshots.ThroughRevision))
	default:
		s.Stage, s.At = Done, string(o.Decision.At)
		s.Text = fmt.Sprintf("everything up to revision %s", number(o.Snapshots.ThroughRevision))
	}
	return s
}

func copied(o syncobject.Object) Step {
	s := Step{Title: "Copied, every byte checked"}
	switch {
	case o.Status == syncobject.Done, o.Destination.Phase == syncobject.Committing:
		s.Stage = Done
	case o.Status != syncobject.Ready:
		s.Stage, s.Text = Next, "what is stored already is copied meanwhile"
	case o.Destination.ID == "":
		s.Stage, s.Text = Next, "waits for a destination"
	default:
		s.Stage, s.Text = Now, "waits for the copy to end"
	}
	return s
}

func taken(o syncobject.Object) Step {
	s := Step{Title: "Taken over"}
	switch {
	case o.Status == syncobject.Done:
		s.Stage, s.Text, s.At = Done, "the owner is "+name(o.Destination.ID), string(o.UpdatedAt)
	case o.Destination.Phase == syncobject.Committing:
		s.Stage, s.Text = Now, "waits for the store to take it"
	default:
		s.Stage, s.Text = Next, "waits for the copy"
	}
	return s
}

func name(id string) string {
	if id == "" {
		return "an unnamed owner"
	}
	return id
}
