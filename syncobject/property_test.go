package syncobject

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// Whatever anybody does in whatever order, of whatever generation, what the
// protocol promises of the object holds.
func TestAnyStepsKeepThePromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o Object
		if rapid.Bool().Draw(t, "bare") {
			s := rapid.SampledFrom([]Status{Initial, Ready, Done}).Draw(t, "status")
			o = Object{Status: s, SchemaVersion: 1, Generation: 1}
		}
		o = stamped(o)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s := rapid.SampledFrom(steps[:columns+1]).Draw(t, "step")
			g := o.Generation + rapid.SampledFrom([]int64{0, 0, 0, 0, -1, 1}).Draw(t, "generation")
			next, err := s.do(o, g)
			if err != nil {
				if !reflect.DeepEqual(next, o) {
					t.Fatalf("%s is refused (%v) but changes the object", s.name, err)
				}
				continue
			}
			next = stamped(next)
			promises(t, o, next)
			if again, err := s.do(next, g); err != nil || !reflect.DeepEqual(again, next) {
				t.Fatalf("%s again: %v, from %+v\nto %+v", s.name, err, next, again)
			}
			o = next
		}
	})
}

// stamped does what a File does, without the noise.
func stamped(o Object) Object {
	if o.Absent() {
		return o
	}
	o.SchemaVersion = 1
	if o.OperationID == "" {
		o.OperationID = "stamped"
	}
	return o
}

func promises(t *rapid.T, was, is Object) {
	t.Helper()
	rules := map[string]bool{
		"an object stays":                      was.Absent() || !is.Absent(),
		"generations go up by one":             is.Generation == was.Generation || is.Generation == was.Generation+1,
		"a new one only when none is pending":  is.Generation == was.Generation || !was.Pending(),
		"a new one is pending and undecided":   is.Generation == was.Generation || is.Status == Initial && is.Pending() && is.Decision.By == "",
		"what is resolved stays so":            was.ObservedGeneration <= is.ObservedGeneration,
		"the owner changes only by succession": was.Owner.ID == "" || is.Owner.ID == was.Owner.ID || is.Outcome == Completed || is.Outcome == Superseded,
		"epochs go up":                         is.Owner.Epoch >= was.Owner.Epoch,
		"a new owner has a new epoch":          was.Owner.ID == "" || reflect.DeepEqual(is.Owner, was.Owner) || is.Owner.Epoch > was.Owner.Epoch,
		"at most one is the owner":             owners(is) <= 1 || is.Owner.ID == "",
		"nobody owns what is pending":          !is.Pending() || owners(is) == 0,
		"no source loses silently":             is.Decision.By != Source || !is.Decision.Lossy && is.Snapshots.Final,
	}
	if is.Generation == was.Generation && !was.Absent() {
		rules["a decision stands (I4)"] = was.Status == Initial && was.Pending() || sameDecision(was, is)
		rules["an outcome stands"] = was.Outcome == "" || is.Outcome == was.Outcome || is.Outcome == Superseded
		rules["a claim stands"] = was.Destination.ID == "" || is.Destination.ID == was.Destination.ID
		rules["Initial is left by a decision"] = was.Status == is.Status || was.Status != Initial || !was.Pending() ||
			is.Decision.By != "" && len(is.Snapshots.Items) > 0
	}
	for rule, holds := range rules {
		if !holds {
			t.Errorf("%s: from %+v\nto %+v", rule, was, is)
		}
	}
	roundTrip(t, is)
}

func sameDecision(a, b Object) bool {
	return reflect.DeepEqual(a.Decision, b.Decision) && reflect.DeepEqual(a.Snapshots, b.Snapshots)
}

func owners(o Object) (n int) {
	for _, me := range []string{"a", "b", "c"} {
		if Judge(&o, me, 0) == Own {
			n++
		}
	}
	return n
}

func roundTrip(t interface{ Fatalf(string, ...any) }, o Object) {
	if o.Absent() {
		return
	}
	data, err := o.Encode()
	if err != nil {
		t.Fatalf("encode %+v: %v", o, err)
	}
	back, err := Parse(data)
	if err != nil {
		t.Fatalf("parse %s: %v", data, err)
	}
	if again, err := back.Encode(); err != nil || !bytes.Equal(again, data) {
		t.Fatalf("%s\nbecomes %s: %v", data, again, err)
	}
}

// A→B→A→B: two containers, each handed over to the other deployment, with a
// forced round. At the end of every round exactly one deployment owns.
func TestBackAndForth(t *testing.T) {
	var ca, cb Object
	a, b := Holder{ID: "a", Lineage: "first"}, Holder{ID: "b"}
	for round := range int64(5) {
		handOver(t, &ca, &cb, a, &b, round == 2)
		if Judge(&ca, "a", 0) != Ceded || cb.Absent() == false && Judge(&cb, "b", 0) != Own {
			t.Fatalf("round %d, there: %v, %v", round, Judge(&ca, "a", 0), Judge(&cb, "b", 0))
		}
		handOver(t, &cb, &ca, b, &a, round == 3)
		if Judge(&cb, "b", 0) != Ceded || Judge(&ca, "a", 0) != Own {
			t.Fatalf("round %d, back: %v, %v", round, Judge(&ca, "a", 0), Judge(&cb, "b", 0))
		}
		if ca.Owner.Epoch != 2*(round+1) || cb.Owner.Epoch != ca.Owner.Epoch || cb.Generation != round+1 {
			t.Fatalf("round %d: epochs %d and %d, generation %d", round, ca.Owner.Epoch, cb.Owner.Epoch, cb.Generation)
		}
		a = ca.Owner
	}
}

// handOver hands the container src of from over into dst, and makes to its owner.
func handOver(t *testing.T, src, dst *Object, from Holder, to *Holder, forced bool) {
	t.Helper()
	do := func(o *Object, next Object, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, stamped(next))
		*o = stamped(next)
	}
	next, err := src.Claim(Claim{ID: to.ID, Owner: from, At: t0})
	do(src, next, err)
	g := src.Generation
	if forced {
		next, err = src.Force(g, to.ID, set(50), Forcing{Reason: "W is over"})
		do(src, next, err)
	} else {
		next, err = src.Report(g, from, SourceReport{Phase: Fenced})
		do(src, next, err)
		next, err = src.Publish(g, from, set(100), t0)
		do(src, next, err)
	}
	to.Epoch, to.Lineage = max(src.Owner.Epoch, dst.Owner.Epoch)+1, src.Lineage()
	next, err = src.Commit(g, *to)
	do(src, next, err)
	to.Epoch = src.Owner.Epoch
	next, err = dst.Adopt(*to)
	do(dst, next, err)
}
