package cloud_test

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

// lister is a cloud that lists names, whatever it is asked for.
type lister struct {
	cloud.Driver // anything else panics: nothing else is called
	names        []string
}

func (l lister) List(context.Context, string) ([]store.Info, error) {
	var infos []store.Info
	for _, name := range l.names {
		infos = append(infos, store.Info{Name: name})
	}
	return infos, nil
}

// A store that was broken into, or that others use, lists what it likes.
func TestForeignNamesAreIgnoredAndCounted(t *testing.T) {
	t.Parallel()
	foreign := []string{
		"snapshots/../../evil", "../snapshots/x", "/snapshots/x", "snapshots//x", "snapshots/./x", "snapshots/x\x00.json", "snapshots/x\ny",
		"snapshots/" + strings.Repeat("x", 10_000), "snapshots/.lock", "snapshots/\\x", "snapshots/é", "snapshots/", "elsewhere/x", "",
	}
	registry := prometheus.NewPedanticRegistry()
	s := store.Metrics(cloud.New(lister{names: append(foreign, "snapshots/x")}, cloud.Limits{}), "destination", registry)
	for n := 1; n <= 2; n++ {
		infos, err := s.List(t.Context(), "snapshots/")
		if err != nil || len(infos) != 1 || infos[0].Name != "snapshots/x" {
			t.Fatalf("listed %+v, %v", infos, err)
		}
		if got, want := ignored(t, registry), float64(n*len(foreign)); got != want {
			t.Errorf("%v are counted, want %v", got, want)
		}
	}
}

func ignored(t *testing.T, g prometheus.Gatherer) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "etcd_ferry_store_names_ignored_total" {
			return f.Metric[0].Counter.GetValue()
		}
	}
	t.Fatal("there is no such metric")
	return 0
}
