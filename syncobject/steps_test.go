package syncobject

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

var (
	t0   = time.Date(2026, 11, 20, 23, 16, 0, 0, time.UTC)
	srcA = Holder{ID: "a", Epoch: 4, Lineage: "lineage-a"}
	dstB = Holder{ID: "b", Epoch: 5, Lineage: "lineage-b"}
	dstC = Holder{ID: "c", Epoch: 5, Lineage: "lineage-c"}
)

func set(revisions ...int64) Set {
	var s Set
	for _, r := range revisions {
		s.ThroughRevision = r
		s.Items = append(s.Items, Item{
			Name: snapshot.Snapshot{Kind: snapshot.Full, First: r, Last: r, Time: t0}.Name(),
			Kind: snapshot.Full, Size: 10, SHA256: strings.Repeat("ab", 32), Revision: r, Version: "v",
		})
	}
	return s
}

// A step is somebody's step of generation g.
type step struct {
	name string
	do   func(o Object, g int64) (Object, error)
}

var steps = []step{
	{"initiate a", initiate("", srcA)},
	{"initiate b", initiate("", dstB)},
	{"initiate a op", initiate("op", srcA)},
	{"initiate a new", initiate("new", srcA)},
	{"claim a", claim("a")},
	{"claim b", claim("b")},
	{"claim c", claim("c")},
	{"report a", report(srcA, SourceReport{Phase: Fenced, Member: "m1", Members: 1, At: t0})},
	{"report b", report(dstB, SourceReport{Phase: Fenced})},
	{"publish a", publish(srcA)},
	{"publish b", publish(dstB)},
	{"note b", note("b")},
	{"note c", note("c")},
	{"force b", force("b", Forcing{Reason: "W is over", At: t0})},
	{"force b!", force("b", Forcing{Reason: "it is off", Unfenced: true, At: t0})},
	{"force c", force("c", Forcing{At: t0})},
	{"take b", func(o Object, g int64) (Object, error) { return o.Take(g, "b", set(90), t0) }},
	{"commit b", commit(dstB)},
	{"commit c", commit(dstC)},
	{"abort", func(o Object, g int64) (Object, error) { return o.Abort(g, "changed my mind", t0) }},
	{"reclaim", func(o Object, g int64) (Object, error) { return o.Reclaim(g, "b is gone") }},
	{"adopt a", adopt(Holder{ID: "a", Epoch: 6, Lineage: "lineage-a2"})},
	{"adopt b", adopt(Holder{ID: "b", Epoch: 6, Lineage: "lineage-b2"})},
	{"fence failed", report(srcA, SourceReport{Phase: FenceFailed, Error: "operation not permitted"})}, // has no column
	{"beat", func(o Object, g int64) (Object, error) { // nor has this, which always writes
		return o.Report(g, srcA, SourceReport{At: t0.Add(time.Duration(o.Serial+1) * time.Second)})
	}},
	{"done", func(o Object, _ int64) (Object, error) { // of another implementation, which knows no more than the status
		o.Status = Done
		return o, nil
	}},
}

const columns = 23

func initiate(op string, h Holder) func(Object, int64) (Object, error) {
	return func(o Object, _ int64) (Object, error) {
		return o.Initiate(Request{OperationID: op, Owner: h, At: t0})
	}
}

func claim(id string) func(Object, int64) (Object, error) {
	return func(o Object, _ int64) (Object, error) {
		return o.Claim(Claim{ID: id, ForceAfter: 10 * time.Minute, Owner: srcA, At: t0})
	}
}

func report(h Holder, r SourceReport) func(Object, int64) (Object, error) {
	return func(o Object, g int64) (Object, error) { return o.Report(g, h, r) }
}

func publish(h Holder) func(Object, int64) (Object, error) {
	return func(o Object, g int64) (Object, error) { return o.Publish(g, h, set(100), t0) }
}

func note(id string) func(Object, int64) (Object, error) {
	return func(o Object, g int64) (Object, error) { return o.Note(g, id, Copying) }
}

func force(id string, f Forcing) func(Object, int64) (Object, error) {
	return func(o Object, g int64) (Object, error) { return o.Force(g, id, set(80, 90), f) }
}

func commit(h Holder) func(Object, int64) (Object, error) {
	return func(o Object, g int64) (Object, error) { return o.Commit(g, h) }
}

func adopt(h Holder) func(Object, int64) (Object, error) {
	return func(o Object, _ int64) (Object, error) { return o.Adopt(h) }
}

func find(name string) step {
	i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
	if i < 0 {
		panic("no step " + name)
	}
	return steps[i]
}

// reach returns the state that the steps lead to, from a bare object if the first
// is a status.
func reach(t testing.TB, names ...string) Object {
	t.Helper()
	var o Object
	for i, name := range names {
		if i == 0 && slices.Contains([]string{"Initial", "Ready", "Done"}, name) {
			o = bare(t, Status(name))
			continue
		}
		next, err := find(name).do(o, o.Generation)
		if err != nil {
			t.Fatalf("%v: %v", names[:i+1], err)
		}
		o = next
	}
	return o
}

func bare(t testing.TB, s Status) Object {
	t.Helper()
	o, err := Parse(fmt.Appendf(nil, `{"status":%q}`, s))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// states are all that the table looks at: how they are reached, then what each
// step does in them, in the order of steps: '+' changes the object and '=' leaves
// it as it is; a letter is the reason of a refusal, see letters.
var states = []struct {
	name  string
	reach []string
	want  string
}{
	// The columns: initiate a, b, a op, a new | claim a, b, c | report a, b | publish
	// a, b | note b, c | force b, b!, c, take b | commit b, c | abort, reclaim |
	// adopt a, b.
	{"absent", nil, "++++|C++|NN|NN|NN|NNNN|NN|NN|=="},
	{"bare initial", []string{"Initial"}, "==CC|C++|++|FF|CC|CCCC|CC|+R|CC"},
	{"bare ready", []string{"Ready"}, "DDCC|C++|++|DD|CC|CCCC|CC|D+|CC"},
	{"bare done", []string{"Done"}, "DDCC|DDD|++|DD|CC|CCCC|CC|DD|++"},
	{"initiated", []string{"initiate a op"}, "=C=C|C++|+C|FC|CC|CCCC|CC|+R|CC"},
	{"claimed", []string{"claim b"}, "=CCC|C=C|+C|FC|+C|++C+|RC|+R|CC"},
	{"bare claimed", []string{"Initial", "claim b"}, "=CCC|C=C|+C|FC|+C|++C+|RC|+R|CC"},
	{"fenced", []string{"claim b", "report a"}, "=CCC|C=C|=C|+C|+C|++C+|RC|+R|CC"},
	{"fence failed", []string{"claim b", "fence failed"}, "=CCC|C=C|+C|FC|+C|F+C+|RC|+R|CC"},
	{"published", []string{"initiate a op", "report a", "publish a"}, "DCDC|C++|+C|=C|CC|CCCC|CC|D+|CC"},
	{"ready by a", []string{"claim b", "report a", "publish a"}, "DCCC|C=C|+C|=C|+C|DDCD|+C|D+|CC"},
	{"ready by force", []string{"claim b", "force b"}, "DCCC|C=C|+C|DC|+C|==C=|+C|D+|CC"},
	{"ready by take", []string{"claim b", "take b"}, "DCCC|C=C|+C|DC|+C|==C=|+C|D+|CC"},
	{"done by another", []string{"claim b", "done"}, "DCCC|DDD|+C|DC|DC|DDCD|DC|DD|++"},
	{"bare ready claimed", []string{"Ready", "claim b"}, "DCCC|C=C|+C|DC|+C|DDCD|+C|D+|CC"},
	{"completed", []string{"claim b", "force b", "commit b"}, "C+CC|C=C|NN|NN|NN|NNNN|=N|DD|++"},
	{"aborted", []string{"initiate a op", "abort"}, "+CD+|C++|NN|NN|NN|NNNN|NN|=N|+C"},
	{"bare aborted", []string{"Initial", "abort"}, "++++|C++|NN|NN|NN|NNNN|NN|=N|++"},
	{"reclaimed", []string{"claim b", "force b", "reclaim"}, "+C++|C++|XX|XX|XX|XXXX|XX|D=|+C"},
	{"superseded", []string{"claim b", "force b", "commit b", "adopt a"}, "+C++|C++|NN|NN|NN|NNNN|NN|NN|=C"},
}

var letters = map[string]error{
	"C": ErrConflict, "D": ErrDecided, "N": ErrNotPending, "F": ErrNotFenced, "R": ErrNotReady, "X": ErrReclaimed,
}

func TestEveryStepInEveryState(t *testing.T) {
	for _, s := range states {
		o := reach(t, s.reach...)
		cells := strings.Split(strings.ReplaceAll(s.want, "|", ""), "")
		if len(cells) != columns {
			t.Fatalf("%s: %d cells for %d steps", s.name, len(cells), columns)
		}
		for i, want := range cells {
			t.Run(s.name+"/"+steps[i].name, func(t *testing.T) {
				got, err := steps[i].do(o, o.Generation)
				checkCell(t, o, got, err, want)
			})
		}
	}
}

func checkCell(t *testing.T, before, got Object, err error, want string) {
	t.Helper()
	if reason := letters[want]; reason != nil {
		var refusal *Refusal
		if !errors.Is(err, reason) || !errors.As(err, &refusal) {
			t.Fatalf("got %v, want a refusal: %v", err, reason)
		}
		for letter, other := range letters {
			if letter != want && errors.Is(err, other) {
				t.Errorf("%v is also %v", err, other)
			}
		}
		if !reflect.DeepEqual(refusal.Object, before) {
			t.Errorf("the refusal shows %v", refusal.Object)
		}
	} else if err != nil {
		t.Fatalf("unexpected: %v", err)
	}
	if changed := !reflect.DeepEqual(got, before); changed != (want == "+") {
		t.Errorf("changed is %v, from %+v\nto %+v", changed, before, got)
	}
}

// A step that means an older or a later generation changes nothing, whatever the
// state.
func TestStepsOfAnotherGeneration(t *testing.T) {
	free := []string{"initiate", "claim", "adopt"} // of the newest, whichever that is
	for _, s := range states {
		o := reach(t, s.reach...)
		for _, st := range steps[:columns] {
			if kind, _, _ := strings.Cut(st.name, " "); slices.Contains(free, kind) {
				continue
			}
			for _, g := range []int64{o.Generation - 1, o.Generation + 1} {
				got, err := st.do(o, g)
				var refusal *Refusal
				if !errors.As(err, &refusal) || !reflect.DeepEqual(got, o) {
					t.Errorf("%s/%s of generation %d at %d: %v", s.name, st.name, g, o.Generation, err)
				}
			}
		}
	}
}

func TestStepsThatLackSomething(t *testing.T) {
	claimed, fenced := reach(t, "claim b"), reach(t, "claim b", "report a")
	ready := reach(t, "claim b", "force b")
	bad := set(100)
	bad.Items[0].Name = "../full"
	for name, do := range map[string]func() (Object, error){
		"initiate nobody":       func() (Object, error) { return Object{}.Initiate(Request{}) },
		"initiate bad id":       func() (Object, error) { return Object{}.Initiate(Request{Owner: Holder{ID: "a\n"}}) },
		"initiate bad op":       func() (Object, error) { return Object{}.Initiate(Request{OperationID: "../x", Owner: srcA}) },
		"claim nobody":          func() (Object, error) { return Object{}.Claim(Claim{}) },
		"claim long id":         func() (Object, error) { return Object{}.Claim(Claim{ID: strings.Repeat("x", 254)}) },
		"report nobody":         func() (Object, error) { return claimed.Report(1, Holder{}, SourceReport{}) },
		"publish nobody":        func() (Object, error) { return fenced.Publish(1, Holder{}, set(1), t0) },
		"publish nothing":       func() (Object, error) { return fenced.Publish(1, srcA, Set{}, t0) },
		"publish bad name":      func() (Object, error) { return fenced.Publish(1, srcA, bad, t0) },
		"note nobody":           func() (Object, error) { return claimed.Note(1, "", Copying) },
		"force nothing":         func() (Object, error) { return claimed.Force(1, "b", Set{}, Forcing{}) },
		"take bad name":         func() (Object, error) { return claimed.Take(1, "b", bad, t0) },
		"commit nobody":         func() (Object, error) { return ready.Commit(1, Holder{}) },
		"commit without past":   func() (Object, error) { return ready.Commit(1, Holder{ID: "b"}) },
		"adopt nobody":          func() (Object, error) { return ready.Adopt(Holder{Lineage: "x"}) },
		"adopt without lineage": func() (Object, error) { return Object{}.Adopt(Holder{ID: "a"}) },
	} {
		if _, err := do(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
