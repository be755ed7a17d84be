package syncobject

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

func longSet(n int64) Set {
	revisions := make([]int64, n)
	for i := range revisions {
		revisions[i] = int64(i) + 1
	}
	return set(revisions...)
}

func TestShortSetsStayInTheObject(t *testing.T) {
	m := mem.New()
	want := longSet(100)
	got, err := want.Store(t.Context(), m)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v, %+v", err, got)
	}
	if items, err := got.Load(t.Context(), m); err != nil || !reflect.DeepEqual(items, want.Items) {
		t.Errorf("%v, %v", err, items)
	}
	if infos, _ := m.List(t.Context(), ""); len(infos) != 0 {
		t.Errorf("%v", infos)
	}
}

// A day of a delta every 20 s.
func TestLongSetsAreListed(t *testing.T) {
	m := mem.New()
	want := longSet(4320)
	for range 2 {
		got, err := want.Store(t.Context(), m)
		if err != nil || len(got.Items) != 0 || got.List.Count != 4320 || got.ThroughRevision != 4320 {
			t.Fatalf("%v, %+v", err, got.List)
		}
		o, err := reach(t, "claim b").Force(1, "b", got, Forcing{Reason: "W is over"})
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, stamped(o))
		if items, err := o.Snapshots.Load(t.Context(), m); err != nil || !reflect.DeepEqual(items, want.Items) {
			t.Errorf("%v, %d items", err, len(items))
		}
	}
	if infos, _ := m.List(t.Context(), ""); len(infos) != 1 || !strings.HasPrefix(infos[0].Name, "sets/") {
		t.Errorf("%v", infos)
	}
}

func TestSetsThatCannotBeStored(t *testing.T) {
	bad := longSet(200)
	bad.Items[150].Name = "../x"
	for name, s := range map[string]Set{"nothing": {}, "a bad name": bad} {
		if _, err := s.Store(t.Context(), mem.New()); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	full := storetest.NewFaulty(mem.New(), storetest.Script{storetest.Create: {{Err: errBroken}}}.Plan)
	if _, err := longSet(200).Store(t.Context(), full); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

// What the object names by its sha256 is taken as it was or not at all.
func TestListsThatAreNotTheOne(t *testing.T) {
	stored, err := longSet(200).Store(t.Context(), mem.New())
	if err != nil {
		t.Fatal(err)
	}
	forged := longSet(200)
	forged.Items[7].Version = "another"
	another, err := json.Marshal(forged.Items)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"forged": string(another), "empty": `[]`, "html": `<html>`} {
		m := mem.New()
		if _, err := m.Create(t.Context(), stored.List.Name, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		if _, err := stored.Load(t.Context(), m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := longSet(200).Store(t.Context(), m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s is in the place: %v", name, err)
		}
	}
	if _, err := stored.Load(t.Context(), mem.New()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// The digest may be right and the list wrong all the same, if somebody made both.
func TestListsThatMakeNoSense(t *testing.T) {
	good := mem.New()
	stored, err := longSet(200).Store(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := good.Open(t.Context(), stored.List.Name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"no json":  []byte("["),
		"bad name": bytes.Replace(data, []byte(`"full-`), []byte(`"../full-`), 1),
		"a number": []byte("[1]"),
	} {
		m := mem.New()
		list := List{Name: "sets/x.json", SHA256: sha256Of(content), Count: 200}
		if _, err := m.Create(t.Context(), list.Name, bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		if _, err := (Set{List: &list}).Load(t.Context(), m); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stored.List.Count = 199
	if _, err := stored.Load(t.Context(), good); !errors.Is(err, ErrMalformed) {
		t.Errorf("the count: %v", err)
	}
}

func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
