package syncobject

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

func TestOwnerFile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		m := mem.New()
		s := storetest.NewFaulty(m, storetest.Script{storetest.Swap: {{Err: errBroken, Lost: true}}}.Plan)
		f := NewOwnerFile(s)
		me := Owner{ID: "a", Epoch: 1, Lineage: "x", Lease: Seconds(time.Minute), ImplicitFencing: true}
		held, wrote, err := f.Update(t.Context(), func(o Owner) (Owner, error) { return o.Hold(me) })
		if err != nil || !wrote || held.State != Held || held.Serial != 1 || held.WriteID == "" {
			t.Fatalf("%v, %+v", err, held)
		}
		if _, wrote, err = f.Update(t.Context(), func(o Owner) (Owner, error) { return o.Hold(me) }); err != nil || wrote {
			t.Errorf("again: %v, %v", wrote, err)
		}
		if _, _, err = f.Update(t.Context(), func(o Owner) (Owner, error) { return o.Release(me) }); err != nil {
			t.Error(err)
		}
		read, err := NewOwnerFile(m).Read(t.Context())
		if err != nil || read.State != Released || read.Serial != 2 || read.UpdatedAt == "" {
			t.Errorf("%v, %+v", err, read)
		}
		if data, _, err := m.Read(t.Context(), OwnerName); err != nil || !strings.Contains(string(data), `"leaseSeconds": 60`) {
			t.Errorf("%v, %s", err, data)
		}
	})
}

func TestOwnerSteps(t *testing.T) {
	held := Owner{SchemaVersion: 1, ID: "a", Epoch: 3, Lineage: "x", State: Held, Lease: 1}
	released := held
	released.State = Released
	first, second := held, held
	first.Instance, second.Instance = "1", "2"
	for name, c := range map[string]struct {
		from, me Owner
		want     Owner
		err      error
	}{
		"first":            {Owner{}, Owner{ID: "a", Epoch: 3, Lineage: "x", Lease: 1}, held, nil},
		"again":            {held, Owner{ID: "a", Epoch: 3, Lineage: "x", Lease: 1}, held, nil},
		"wakes up":         {released, Owner{ID: "a", Epoch: 3, Lineage: "x", Lease: 1}, held, nil},
		"has forgotten":    {held, Owner{ID: "a", Lease: 1}, held, nil},
		"another":          {held, Owner{ID: "b", Epoch: 3, Lineage: "y", Lease: 1}, held, ErrConflict},
		"another, asleep":  {released, Owner{ID: "b", Epoch: 3, Lineage: "y", Lease: 1}, released, ErrConflict},
		"older":            {held, Owner{ID: "b", Epoch: 2, Lineage: "y", Lease: 1}, held, ErrConflict},
		"the next":         {held, Owner{ID: "b", Epoch: 4, Lineage: "y", Lease: 1}, Owner{SchemaVersion: 1, ID: "b", Epoch: 4, Lineage: "y", State: Held, Lease: 1}, nil},
		"nobody":           {held, Owner{Epoch: 9}, held, ErrInvalid},
		"not to be shown":  {Owner{}, Owner{ID: "\x00"}, Owner{}, ErrInvalid},
		"of another life":  {first, Owner{ID: "a", Instance: "2", Epoch: 3, Lease: 1}, second, nil},
		"of a past epoch":  {held, Owner{ID: "a", Epoch: 2, Lineage: "w", Lease: 1}, held, nil},
		"with other times": {held, Owner{ID: "a", Epoch: 3, Lease: 5}, Owner{SchemaVersion: 1, ID: "a", Epoch: 3, Lineage: "x", State: Held, Lease: 5}, nil},
	} {
		if got, err := c.from.Hold(c.me); !errors.Is(err, c.err) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	for name, c := range map[string]struct {
		from, me Owner
		want     Owner
		err      error
	}{
		"mine":             {held, Owner{ID: "a"}, released, nil},
		"again":            {released, Owner{ID: "a", Lineage: "x"}, released, nil},
		"in a new history": {held, Owner{ID: "a", Lineage: "y"}, Owner{SchemaVersion: 1, ID: "a", Epoch: 3, Lineage: "y", State: Released, Lease: 1}, nil},
		"another's":        {held, Owner{ID: "b"}, held, ErrConflict},
		"nobody's":         {Owner{}, Owner{ID: "a"}, Owner{}, ErrConflict},
		"nobody's by 0":    {Owner{}, Owner{}, Owner{}, ErrConflict},
		"of another life":  {second, Owner{ID: "a", Instance: "1"}, second, ErrConflict},
	} {
		if got, err := c.from.Release(c.me); !errors.Is(err, c.err) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("release, %s: %v, %+v", name, err, got)
		}
	}
}

func TestOwnerCodec(t *testing.T) {
	o := Owner{
		SchemaVersion: 1, ID: "a", Epoch: 4, Lineage: "x", State: Held, Lease: Seconds(3 * time.Second),
		Kill: Seconds(200 * time.Millisecond), Watchdog: Seconds(time.Second), ImplicitFencing: true, Serial: 2, WriteID: "w",
	}
	data, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.Replace(data, []byte("{"), []byte(`{"unknown": [1],`), 1)
	back, err := ParseOwner(data)
	if err != nil || !reflect.DeepEqual(back.Holder(), Holder{ID: "a", Epoch: 4, Lineage: "x"}) || back.Kill != o.Kill {
		t.Errorf("%v, %+v", err, back)
	}
	if again, err := back.Encode(); err != nil || !bytes.Contains(again, []byte(`"unknown"`)) {
		t.Errorf("%v, %s", err, again)
	}
	if got, want := back.Timing(), (Timing{3 * time.Second, 200 * time.Millisecond, time.Second, DefaultClockError, DefaultSlack}); got != want {
		t.Errorf("%+v", got)
	}
	if (Owner{}).Timing() != DefaultTiming() {
		t.Error("no owner.json, no presets")
	}
	for text, want := range map[string]error{
		`{"state":"Held","schemaVersion":1,"id":"","leaseSeconds":1}`:              ErrMalformed,
		`{"state":"Held","schemaVersion":1,"id":"a","leaseSeconds":0}`:             ErrMalformed,
		`{"state":"Held","schemaVersion":1,"id":"a\n","leaseSeconds":1}`:           ErrMalformed,
		`{"state":"Held","schemaVersion":1,"id":"a","leaseSeconds":1,"epoch":-1}`:  ErrMalformed,
		`{"state":"Held","schemaVersion":1,"id":"a","leaseSeconds":1,"serial":-1}`: ErrMalformed,
		`{"state":"Held","id":"a","leaseSeconds":1}`:                               ErrMalformed,
		`{"state":"Lent","schemaVersion":1,"id":"a","leaseSeconds":1}`:             ErrUnknown,
		`{"state":"Held","schemaVersion":2,"id":5}`:                                ErrUnknown,
		`{"id":"a"}`: ErrMalformed,
		`<html>`:     ErrMalformed,
	} {
		if _, err := ParseOwner([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	bad := o
	bad.State = "Lent"
	if _, err := bad.Encode(); err == nil {
		t.Error("an unknown state is written")
	}
}
