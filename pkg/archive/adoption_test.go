package archive_test

import (
	"bytes"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
)

// adopted stores a chain and returns an adoption of it.
func adopted(t *testing.T, a *archive.Archive, operation string, epoch int64) archive.Adoption {
	t.Helper()
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	ad := archive.Adoption{
		OperationID: operation, Generation: 3, Source: "mem:", SourceOwner: archive.Holder{ID: "a", Epoch: epoch - 1, Lineage: "la"},
		Owner: archive.Holder{ID: "b", Epoch: epoch, Lineage: "lb"}, ThroughRevision: 20, Final: true, Time: at, Tool: "v1",
	}
	for _, m := range []snapshot.Manifest{
		{Kind: snapshot.Full, First: 10, Last: 10}, {Kind: snapshot.Delta, First: 11, Last: 20},
	} {
		m.Time, m.Lineage = at.Add(time.Duration(epoch)*time.Hour), "la"
		m, err := a.Save(t.Context(), m, strings.NewReader(operation))
		if err != nil {
			t.Fatal(err)
		}
		ad.Items = append(ad.Items, archive.Item(m))
	}
	return ad
}

func TestAdoptionGoesFromBegunToCommitted(t *testing.T) {
	ctx := t.Context()
	a := archive.New(mem.New())
	current := func() (archive.Adoption, error) {
		all, err := a.Adoptions(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return all.Current()
	}
	if _, err := current(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty container: %v", err)
	}
	ad := adopted(t, a, "op-1", 2)
	for range 2 { // all steps may be repeated
		if err := a.BeginAdoption(ctx, archive.BegunAdoption{OperationID: "op-1", Owner: "b"}); err != nil {
			t.Fatal(err)
		}
		if _, err := current(); !errors.Is(err, archive.ErrAdopting) || !strings.Contains(err.Error(), "by b") {
			t.Errorf("begun: %v", err)
		}
	}
	for range 2 {
		stored, err := a.PrepareAdoption(ctx, ad)
		ad.Version = archive.AdoptionVersion
		if err != nil || !reflect.DeepEqual(stored, ad) {
			t.Fatalf("prepared %+v, %v, want %+v", stored, err, ad)
		}
		if _, err := current(); !errors.Is(err, archive.ErrAdopting) {
			t.Errorf("prepared: %v", err)
		}
	}
	other := ad
	other.Owner.Lineage = "another"
	if stored, err := a.PrepareAdoption(ctx, other); err != nil || stored.Owner.Lineage != "lb" {
		t.Errorf("prepared otherwise: %+v, %v", stored, err)
	}
	for range 2 {
		if err := a.SettleAdoption(ctx, "op-1", archive.AdoptionCommitted); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.SettleAdoption(ctx, "op-1", archive.AdoptionWithdrawn); !errors.Is(err, archive.ErrSettled) {
		t.Errorf("withdrawn after it was committed: %v", err)
	}
	if got, err := current(); err != nil || !reflect.DeepEqual(got, ad) {
		t.Errorf("committed %+v, %v", got, err)
	}
	chain, err := a.AdoptedChain(ctx, ad)
	if err != nil || chain.Last() != 20 || len(chain.All()) != 2 {
		t.Errorf("chain %+v, %v", chain, err)
	}
}

func TestCurrentAdoptionIsTheNewestCommitted(t *testing.T) {
	ctx := t.Context()
	a := archive.New(mem.New())
	for i, operation := range []string{"z", "m", "a"} {
		if _, err := a.PrepareAdoption(ctx, adopted(t, a, operation, int64(i+2))); err != nil {
			t.Fatal(err)
		}
		how := archive.AdoptionCommitted
		if operation == "a" {
			how = archive.AdoptionWithdrawn
		}
		if err := a.SettleAdoption(ctx, operation, how); err != nil {
			t.Fatal(err)
		}
	}
	all, err := a.Adoptions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if ad, err := all.Current(); err != nil || ad.OperationID != "m" {
		t.Errorf("%+v, %v", ad, err)
	}
	if of := all.Of("a"); of.Outcome != archive.AdoptionWithdrawn || of.Manifest == nil {
		t.Errorf("a: %+v", of)
	}
	if of := all.Of("q"); of.Manifest != nil || of.Begun != nil {
		t.Errorf("q: %+v", of)
	}
}

func TestWrongAdoptionsAreRefused(t *testing.T) {
	ctx := t.Context()
	a := archive.New(mem.New())
	for what, change := range map[string]func(*archive.Adoption){
		"no owner":     func(ad *archive.Adoption) { ad.Owner.ID = "" },
		"no lineage":   func(ad *archive.Adoption) { ad.Owner.Lineage = "" },
		"no epoch":     func(ad *archive.Adoption) { ad.Owner.Epoch = 0 },
		"no items":     func(ad *archive.Adoption) { ad.Items = nil },
		"a path":       func(ad *archive.Adoption) { ad.Items[0].Name = "../" + ad.Items[0].Name },
		"another kind": func(ad *archive.Adoption) { ad.Items[0].Kind = snapshot.Delta },
		"no digest":    func(ad *archive.Adoption) { ad.Items[0].SHA256 = "" },
		"id is a path": func(ad *archive.Adoption) { ad.OperationID = "a/b" },
		"id is hidden": func(ad *archive.Adoption) { ad.OperationID = ".." },
	} {
		ad := adopted(t, archive.New(mem.New()), "op", 2)
		change(&ad)
		if _, err := a.PrepareAdoption(ctx, ad); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func TestDamagedAdoptionIsFound(t *testing.T) {
	ctx := t.Context()
	s := mem.New()
	a := archive.New(s)
	if _, err := a.PrepareAdoption(ctx, adopted(t, a, "op", 2)); err != nil {
		t.Fatal(err)
	}
	if err := a.SettleAdoption(ctx, "op", archive.AdoptionCommitted); err != nil {
		t.Fatal(err)
	}
	for _, leaf := range []string{"manifest.json", "outcome.json"} {
		name := "adoptions/op/" + leaf
		good, v, err := s.Read(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(good)
		bad[len(bad)/2] ^= 1
		if v, err = s.Swap(ctx, name, v, bad); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Adoptions(ctx); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: %v", leaf, err)
		}
		if _, err = s.Swap(ctx, name, v, good); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAdoptedChainIsExactlyTheNamedSet(t *testing.T) {
	ctx := t.Context()
	for what, change := range map[string]func(t *testing.T, a *archive.Archive, ad *archive.Adoption){
		"another digest": func(_ *testing.T, _ *archive.Archive, ad *archive.Adoption) {
			ad.Items[1].SHA256 = strings.Repeat("0", 64)
		},
		"another size": func(_ *testing.T, _ *archive.Archive, ad *archive.Adoption) { ad.Items[0].Size++ },
		"no full":      func(_ *testing.T, _ *archive.Archive, ad *archive.Adoption) { ad.Items = ad.Items[1:] },
		"twice":        func(_ *testing.T, _ *archive.Archive, ad *archive.Adoption) { ad.Items = append(ad.Items, ad.Items[1]) },
		"one is gone": func(t *testing.T, a *archive.Archive, _ *archive.Adoption) {
			l, err := a.List(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Remove(ctx, l.Manifests[1]); err != nil {
				t.Fatal(err)
			}
		},
	} {
		a := archive.New(mem.New())
		ad := adopted(t, a, "op", 2)
		change(t, a, &ad)
		if chain, err := a.AdoptedChain(ctx, ad); !errors.Is(err, archive.ErrCorrupt) {
			t.Errorf("%s: %+v, %v", what, chain, err)
		}
	}
}
