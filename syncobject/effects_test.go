package syncobject

import (
	"errors"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestInitiateWrites(t *testing.T) {
	want := Object{Status: Initial, OperationID: "op", Generation: 1, Owner: srcA, CreatedAt: At(t0)}
	if got := reach(t, "initiate a op"); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

func TestClaimWrites(t *testing.T) {
	want := Object{
		Status: Initial, Generation: 1, Owner: srcA, CreatedAt: At(t0),
		Destination: DestinationState{ID: "b", ClaimedAt: At(t0), ForceAfter: Seconds(10 * time.Minute), Phase: Waiting},
	}
	got := reach(t, "claim b")
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	got, err := got.Claim(Claim{ID: "b", ForceAfter: time.Hour, At: t0.Add(time.Hour)})
	want.Destination.ForceAfter = Seconds(time.Hour)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with another W: %v, %+v", err, got)
	}
}

// A new generation keeps the owner, who has been at work all along, and nothing
// else of the old one.
func TestNewGenerationBeginsBlank(t *testing.T) {
	old := reach(t, "claim b", "report a", "publish a", "reclaim")
	got, err := old.Initiate(Request{Owner: srcA, At: t0.Add(time.Hour)})
	want := Object{
		Status: Initial, Generation: 2, ObservedGeneration: 1, Owner: srcA, CreatedAt: At(t0.Add(time.Hour)),
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %+v", err, got)
	}
}

func TestReportWrites(t *testing.T) {
	o := reach(t, "claim b")
	for _, r := range []SourceReport{
		{Phase: Fencing, Members: 3, Error: "slow"},
		{Phase: Fenced, Member: "m2", At: t0},
		{Member: "m1"},
		{Member: "m2"},
		{At: t0.Add(time.Minute), Error: strings.Repeat("é", 1000)},
	} {
		var err error
		if o, err = o.Report(1, srcA, r); err != nil {
			t.Fatal(err)
		}
	}
	want := SourceState{
		Phase: Fenced, Heartbeat: At(t0.Add(time.Minute)), Error: strings.Repeat("é", 512) + "…",
		FencedMembers: []string{"m1", "m2"}, Members: 3,
	}
	if !reflect.DeepEqual(o.Source, want) {
		t.Errorf("%+v", o.Source)
	}
}

func TestStepsDoNotShareMemory(t *testing.T) {
	o := reach(t, "claim b", "report a")
	before := []string{"m1", "m3"}
	o.Source.FencedMembers = append(make([]string, 0, 8), before...)
	if _, err := o.Report(1, srcA, SourceReport{Member: "m2"}); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(o.Source.FencedMembers, before) {
		t.Errorf("the old value has become %v", o.Source.FencedMembers)
	}
	mine := set(100)
	o, err := o.Publish(1, srcA, mine, t0)
	if err != nil {
		t.Fatal(err)
	}
	mine.Items[0].Name = "changed"
	if !reflect.DeepEqual(o.Snapshots.Items, set(100).Items) {
		t.Errorf("the set has become %v", o.Snapshots.Items)
	}
}

func TestDecisions(t *testing.T) {
	final := set(100)
	final.Final = true
	for _, c := range []struct {
		by   string
		want Decision
		set  Set
	}{
		{"publish a", Decision{By: Source, At: At(t0), Reason: "final snapshot behind the fence"}, final},
		{"force b", Decision{By: Destination, At: At(t0), Forced: true, Lossy: true, Reason: "W is over"}, set(80, 90)},
		{"take b", Decision{By: Destination, At: At(t0), Reason: "the source has released its container"}, set(90)},
	} {
		o := reach(t, "claim b", "report a", c.by)
		if o.Status != Ready || !reflect.DeepEqual(o.Decision, c.want) || !reflect.DeepEqual(o.Snapshots, c.set) {
			t.Errorf("%s: %s %+v %+v", c.by, o.Status, o.Decision, o.Snapshots)
		}
	}
}

// I4: the first decision stands, also against its author.
func TestDecidedAgainIsTheFirst(t *testing.T) {
	forced := reach(t, "claim b", "force b")
	if got, err := forced.Force(1, "b", set(200), Forcing{Reason: "again"}); err != nil || !reflect.DeepEqual(got, forced) {
		t.Errorf("force: %v, %+v", err, got)
	}
	published := reach(t, "claim b", "report a", "publish a")
	if got, err := published.Publish(1, srcA, set(200), t0); err != nil || !reflect.DeepEqual(got, published) {
		t.Errorf("publish: %v, %+v", err, got)
	}
}

func TestOwnersAndEpochs(t *testing.T) {
	handed := Holder{ID: "b", Epoch: 5, Lineage: "lineage-b"}
	o := reach(t, "claim b", "force b", "commit b")
	if o.Owner.ID != "b" || o.Owner.Epoch != 5 || o.Outcome != Completed || o.Status != Done || o.Pending() {
		t.Errorf("committed: %+v", o)
	}
	o, err := o.Adopt(Holder{ID: "a", Epoch: 9, Lineage: "lineage-a2"})
	if err != nil || o.Owner.Epoch != 9 || o.Outcome != Superseded || o.Owner.Lineage != "lineage-a2" {
		t.Errorf("adopted: %v, %+v", err, o)
	}
	for _, paused := range []Holder{{ID: "a", Epoch: 9, Lineage: "lineage-a3"}, {ID: "a", Epoch: 3, Lineage: "lineage-a3"}} {
		if got, err := o.Adopt(paused); !errors.Is(err, ErrConflict) || !reflect.DeepEqual(got, o) {
			t.Errorf("adopted with an old epoch: %v, %+v", err, got.Owner)
		}
	}
	low := handed
	low.Epoch = 1
	ready := reach(t, "claim b", "force b")
	if o, err = ready.Commit(1, low); err != nil || o.Owner.Epoch != srcA.Epoch+1 {
		t.Errorf("committed with an old epoch: %v, %+v", err, o.Owner)
	}
	again, err := o.Commit(1, Holder{ID: "b", Epoch: 100, Lineage: "other"})
	if err != nil || !reflect.DeepEqual(again, o) {
		t.Errorf("committed again: %v, %+v", err, again.Owner)
	}
}

// What tells the two sides of a reclaim and of an abort.
func TestGivingUp(t *testing.T) {
	aborted := reach(t, "claim b", "report a", "abort")
	if aborted.Status != Initial || aborted.Outcome != Aborted || aborted.Pending() || aborted.Owner.ID != "a" {
		t.Errorf("%+v", aborted)
	}
	if aborted.Decision.By != "" || aborted.Decision.Reason != "aborted: changed my mind" {
		t.Errorf("%+v", aborted.Decision)
	}
	ready := reach(t, "claim b", "force b")
	reclaimed := reach(t, "claim b", "force b", "reclaim")
	if reclaimed.Status != Ready || reclaimed.Outcome != Aborted || reclaimed.Pending() || reclaimed.Owner.ID != "a" {
		t.Errorf("%+v", reclaimed)
	}
	if !reflect.DeepEqual(reclaimed.Decision, ready.Decision) || reclaimed.Destination.Phase != Reclaimed ||
		reclaimed.Source.Error != "reclaimed: b is gone" {
		t.Errorf("%+v", reclaimed)
	}
}

func TestRefusalsName(t *testing.T) {
	for _, c := range []struct {
		state []string
		step  string
		who   string
		text  string
	}{
		{[]string{"initiate a op", "claim b"}, "claim c", "b", `claim: conflict: "b" has claimed it (operation op, generation 1, Initial)`},
		{[]string{"claim b", "force b", "commit b"}, "claim c", "b", `it has been handed over to "b", copy from there`},
		{[]string{"initiate a op"}, "initiate a new", "op", "another operation is pending"},
		{[]string{"initiate a op"}, "initiate b", "a", `the container is of "a"`},
		{[]string{"claim b", "force b"}, "abort", "b", "abort: decided already"},
		{[]string{"claim b", "force b", "reclaim"}, "commit b", "a", "commit: reclaimed by an operator"},
		{[]string{"claim b", "fence failed"}, "force b", "a", "stop its etcd and say so"},
		{nil, "abort", "", "(there is no sync object)"},
	} {
		o := reach(t, c.state...)
		_, err := find(c.step).do(o, o.Generation)
		refusal, is := err.(*Refusal)
		if !is || refusal.Who != c.who || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s after %v: %v", c.step, c.state, err)
		}
	}
}

func TestLineageIsTheOperations(t *testing.T) {
	x, y := Object{OperationID: "x"}, Object{OperationID: "y"}
	again := x
	again.Serial++
	if x.Lineage() != again.Lineage() || x.Lineage() == y.Lineage() || len(x.Lineage()) != 36 {
		t.Error(x.Lineage(), y.Lineage())
	}
	later, handedOn := x, x
	later.Generation++
	handedOn.Owner = Holder{ID: "b", Epoch: 2}
	if x.Lineage() == later.Lineage() || x.Lineage() == handedOn.Lineage() {
		t.Error("an operation of the same name has the same lineage")
	}
}

func TestClosedPhases(t *testing.T) {
	for phase, want := range map[SourcePhase]bool{
		"": false, Fencing: false, FenceFailed: false, "Newer": false,
		Fenced: true, Snapshotting: true, SnapshotFailed: true, Publishing: true,
	} {
		if phase.Closed() != want {
			t.Errorf("%s: %v", phase, !want)
		}
	}
}

func TestLogValue(t *testing.T) {
	var out strings.Builder
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "object", reach(t, "initiate a op", "claim b", "force b"))
	for _, want := range []string{"object.status=Ready", "object.operation_id=op", "object.owner=a", "object.destination=b", "object.decided_by=destination"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s lacks %s", out.String(), want)
		}
	}
}

// Whoever reports the size of the cluster may not have looked for a while.
func TestMembersOnlyGoUp(t *testing.T) {
	o := reach(t, "claim b", "report a")
	for _, c := range []struct{ says, want int }{{3, 3}, {1, 3}, {0, 3}, {5, 5}} {
		var err error
		if o, err = o.Report(1, srcA, SourceReport{Members: c.says}); err != nil || o.Source.Members != c.want {
			t.Errorf("after a report of %d: %d, %v", c.says, o.Source.Members, err)
		}
	}
}

func TestFenceThatFailedIsNotTakenBackByAnotherMember(t *testing.T) {
	o := reach(t, "claim b", "report a")
	for _, c := range []struct{ says, want SourcePhase }{
		{FenceFailed, FenceFailed}, {Fencing, FenceFailed}, {"", FenceFailed}, {Fenced, Fenced}, {Fencing, Fencing},
	} {
		var err error
		if o, err = o.Report(1, srcA, SourceReport{Phase: c.says}); err != nil || o.Source.Phase != c.want {
			t.Errorf("after a report of %q: %q, %v", c.says, o.Source.Phase, err)
		}
	}
}

// What is stored is named after operations, so that their names are not used again.
func TestNamesOfThePast(t *testing.T) {
	var o Object
	for i := range maxPast + 2 {
		var err error
		if o, err = o.Initiate(Request{OperationID: strconv.Itoa(i), Owner: srcA, At: t0}); err != nil {
			t.Fatal(err)
		}
		if o, err = o.Abort(o.Generation, "test", t0); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.Past) != maxPast || o.Past[0] != "1" || o.Past[maxPast-1] != strconv.Itoa(maxPast) {
		t.Errorf("past %v", o.Past)
	}
	for _, used := range []string{"1", "20", o.OperationID} {
		if _, err := o.Initiate(Request{OperationID: used, Owner: srcA, At: t0}); !errors.Is(err, ErrDecided) {
			t.Errorf("%s again: %v", used, err)
		}
	}
	o.SchemaVersion, o.WriteID = SchemaVersion, "w" // as a File does
	roundTrip(t, o)
}

// An adopter that was interrupted does its steps again, and another hand-over may be
// wanted of him by then: what he adopted is his.
func TestAdoptAgainWhileAnotherHandOverIsWanted(t *testing.T) {
	adopter := Holder{ID: "a", Epoch: 9, Lineage: "lineage-a2"}
	o, err := Object{}.Initiate(Request{Owner: srcA, At: t0})
	for _, step := range []func(Object, int64) (Object, error){
		claim("b"), report(srcA, SourceReport{Phase: Fenced, Member: "m1", Members: 1, At: t0}), publish(srcA), commit(dstB), adopt(adopter), claim("b"),
	} {
		if err == nil {
			o, err = step(o, o.Generation)
		}
	}
	if err != nil || !o.Pending() || o.Owner.ID != "a" {
		t.Fatalf("%v: %+v", err, o)
	}
	if got, err := o.Adopt(adopter); err != nil || !reflect.DeepEqual(got, o) {
		t.Errorf("%v: %+v, was %+v", err, got, o)
	}
	other := Holder{ID: "a", Epoch: 8, Lineage: "lineage-a1"}
	if _, err := o.Adopt(other); !errors.Is(err, ErrConflict) {
		t.Errorf("an older adoption is accepted: %v", err)
	}
}
