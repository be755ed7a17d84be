package syncobject

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// Every state of steps_test.go, for the source a, the destination b and the
// stranger c: what they are when they have seen nothing, this generation, and a
// later one.
func TestVerdicts(t *testing.T) {
	const (
		o = Own
		h = HandOver
		c = Ceded
	)
	want := map[string][3]Verdict{ // a, b, c
		"bare initial":       {h, h, h},
		"bare ready":         {c, c, c},
		"bare done":          {c, c, c},
		"initiated":          {h, c, c},
		"claimed":            {h, c, c},
		"bare claimed":       {h, c, c},
		"fenced":             {h, c, c},
		"fence failed":       {h, c, c},
		"published":          {c, c, c},
		"ready by a":         {c, c, c},
		"ready by force":     {c, c, c},
		"ready by take":      {c, c, c},
		"bare ready claimed": {c, c, c},
		"done by another":    {c, c, c},
		"completed":          {c, o, c},
		"aborted":            {o, c, c},
		"bare aborted":       {o, o, o},
		"reclaimed":          {o, c, c},
		"superseded":         {o, c, c},
	}
	for _, s := range states {
		if s.reach == nil {
			continue // absent, see below
		}
		row, there := want[s.name]
		if !there {
			t.Errorf("no verdicts for %s", s.name)
		}
		object := reach(t, s.reach...)
		for i, me := range []string{"a", "b", "c"} {
			for seen := range object.Generation + 1 {
				if got := Judge(&object, me, seen); got != row[i] {
					t.Errorf("%s, me %s, seen %d: %v, want %v", s.name, me, seen, got, row[i])
				}
			}
			if got := Judge(&object, me, object.Generation+1); got != Anomaly {
				t.Errorf("%s, me %s, seen a later one: %v", s.name, me, got)
			}
		}
	}
}

func TestVerdictsWithoutObject(t *testing.T) {
	for seen, want := range map[int64]Verdict{0: Own, 1: Anomaly, 7: Anomaly} {
		if got := Judge(nil, "a", seen); got != want {
			t.Errorf("absent, seen %d: %v", seen, got)
		}
		if got := Judge(&Object{}, "a", seen); got != Anomaly {
			t.Errorf("the zero object is no proof of absence, seen %d: %v", seen, got)
		}
	}
}

func TestNobodyOwnsNothing(t *testing.T) {
	o := Object{Status: Done, SchemaVersion: 1, Generation: 1, ObservedGeneration: 1, Outcome: Completed}
	if got := Judge(&o, "", 0); got != Ceded {
		t.Error(got)
	}
}

func TestVerdictsOfReads(t *testing.T) {
	done := reach(t, "claim b", "force b", "commit b")
	for _, c := range []struct {
		name string
		o    Object
		err  error
		seen int64
		want Verdict
	}{
		{"read", done, nil, 1, Ceded},
		{"absent", Object{}, fmt.Errorf("read: %w", fs.ErrNotExist), 0, Own},
		{"gone", Object{}, fs.ErrNotExist, 1, Anomaly},
		{"newer", Object{}, fmt.Errorf("read: %w", ErrUnknown), 0, Ceded},
		{"malformed", Object{}, ErrMalformed, 0, NoVerdict},
		{"forbidden", Object{}, fs.ErrPermission, 0, NoVerdict},
		{"anything", Object{}, errors.New("503"), 0, NoVerdict},
	} {
		if got := JudgeRead(c.o, c.err, "a", c.seen); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestVerdictsSpeak(t *testing.T) {
	for v, want := range map[Verdict]string{
		NoVerdict: "no verdict", Own: "owner", HandOver: "hand over", Ceded: "ceded", Anomaly: "anomaly", 99: "no verdict",
	} {
		if v.String() != want {
			t.Errorf("%d: %s", v, v)
		}
	}
}
