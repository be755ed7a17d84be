package store_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

// series returns all values, by name and label values. Of histograms it is the
// number of observations.
func series(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			key := strings.TrimPrefix(family.GetName(), "etcd_ferry_store_")
			for _, label := range m.GetLabel() {
				key += " " + label.GetValue()
			}
			values[key] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

func TestMetricsStartAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	store.Metrics(mem.New(), "source", reg)
	store.Metrics(mem.New(), "destination", reg)
	got := series(t, reg)
	if want := 2 * (7*7 + 7 + 2 + 1); len(got) != want {
		t.Errorf("%d series at the start, want %d: %v", len(got), want, got)
	}
	for name, value := range got {
		if value != 0 {
			t.Errorf("%s is %v at the start", name, value)
		}
	}
}

func TestMetricsCount(t *testing.T) {
	reg := prometheus.NewRegistry()
	faults := storetest.Script{storetest.List: {{}, {Err: errors.New("no")}}}
	s := store.Metrics(storetest.NewFaulty(mem.New(), faults.Plan), "source", reg)
	ctx := t.Context()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()

	s.List(ctx, "")
	s.List(ctx, "")
	s.List(cancelled, "")
	s.Create(ctx, "a", strings.NewReader("12345"))
	s.Create(ctx, "a", strings.NewReader("12345"))
	v, _ := s.Swap(ctx, "b", "", []byte("123"))
	s.Swap(ctx, "b", "", []byte("456"))
	s.Swap(ctx, "b", v, []byte("789"))
	s.Read(ctx, "b")
	s.Remove(ctx, "b")
	s.Read(ctx, "b")
	s.Open(ctx, "../x")
	if body, _, err := s.Open(ctx, "a"); err == nil {
		io.Copy(io.Discard, body)
		body.Close()
	}

	want := map[string]float64{
		"calls_total list ok source": 1, "calls_total list error source": 1, "calls_total list canceled source": 1,
		"calls_total create ok source": 1, "calls_total create exist source": 1,
		"calls_total swap ok source": 2, "calls_total swap changed source": 1,
		"calls_total read ok source": 1, "calls_total read not_exist source": 1,
		"calls_total remove ok source": 1,
		"calls_total open ok source":   1, "calls_total open error source": 1,
		"bytes_total in source": 3 + 5, "bytes_total out source": 5 + 5 + 3*3,
		"call_duration_seconds list source": 3, "call_duration_seconds create source": 2,
		"call_duration_seconds swap source": 3, "call_duration_seconds read source": 2,
		"call_duration_seconds remove source": 1, "call_duration_seconds open source": 2,
	}
	got := series(t, reg)
	for name, value := range got {
		if value != want[name] {
			t.Errorf("%s is %v, want %v", name, value, want[name])
		}
	}
}

// Copies between stores count by themselves, and only if there are any.
func TestMetricsOfCopies(t *testing.T) {
	reg := prometheus.NewRegistry()
	below := &copying{Store: mem.New()}
	s := store.Prefix(store.Retry(store.Metrics(below, "destination", reg)), "p")
	for _, err := range []error{nil, fs.ErrExist, fs.ErrNotExist} {
		below.err = err
		if _, _, got := store.Copy(t.Context(), s, "a", mem.New(), "b"); !errors.Is(got, err) {
			t.Errorf("copy: %v, want %v", got, err)
		}
	}
	cannot := store.Metrics(mem.New(), "source", reg)
	if _, done, err := store.Copy(t.Context(), cannot, "a", mem.New(), "b"); done || err != nil {
		t.Errorf("copy where none is possible: %t, %v", done, err)
	}
	got := series(t, reg)
	for name, want := range map[string]float64{
		"calls_total copy ok destination": 1, "calls_total copy exist destination": 1, "calls_total copy not_exist destination": 1,
		"call_duration_seconds copy destination": 3, "call_duration_seconds copy source": 0, "calls_total create ok destination": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// What breaks off is an error, and counts once.
func TestMetricsOfContent(t *testing.T) {
	reg := prometheus.NewRegistry()
	faults := storetest.Script{storetest.Open: {{Cut: 2}, {}}}
	s := store.Metrics(storetest.NewFaulty(mem.New(), faults.Plan), "source", reg)
	if _, err := s.Create(t.Context(), "a", strings.NewReader("12345")); err != nil {
		t.Fatal(err)
	}
	for calls := range 2 {
		body, _, err := s.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		body.Read(make([]byte, 2))
		if got := series(t, reg)["call_duration_seconds open source"]; got != float64(calls) {
			t.Errorf("%v calls have ended, want %d", got, calls)
		}
		io.Copy(io.Discard, body)
		body.Close()
	}
	got := series(t, reg)
	if got["calls_total open error source"] != 1 || got["calls_total open ok source"] != 1 || got["bytes_total in source"] != 7 {
		t.Errorf("counted %v", got)
	}
}
