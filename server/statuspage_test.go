package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/server/page"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

// look asks for the page, which has to say all of some words and none of others.
func (w *world) look(what string, words ...string) {
	w.t.Helper()
	c, err := etcd.Dial(w.t.Context(), etcd.Config{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		w.t.Fatal(err)
	}
	d := New(c, archive.New(w.store), nil)
	d.Election, d.Log = w.Election, w.Log
	r := checked(w.t, serverOpenAPI, d.Handler(), httptest.NewRequest(http.MethodGet, "/", nil).WithContext(w.t.Context()))
	for _, word := range words {
		unwanted := strings.HasPrefix(word, "!")
		if strings.Contains(r.Body.String(), strings.TrimPrefix(word, "!")) == unwanted {
			_, main, _ := strings.Cut(r.Body.String(), "<main")
			w.t.Errorf("%s: %q, in %s", what, word, main)
		}
	}
}

// TestPageTellsAHandOver follows one from the source's page.
func TestPageTellsAHandOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.look("the owner", "etcd serves", ">Owner<", "Nothing is stored yet", "!Hand-over in progress", "!Needs attention")
		w.member.set(func(m *fakeMember) { m.takes = time.Minute })
		says(t, "initiate", w.ask("POST", "/copyop/initiate", `{"operationID":"move-1"}`), 201)
		w.wait(Snapshotting)
		w.look("fenced", "Being handed over", "Hand-over in progress", "move-1", "waits for etcd-ferry copy to be started", "waits for the database to be read and stored")
		w.wait(Ceded)
		sleep(t.Context(), 2*cededPolls*w.Timing.Poll)
		w.look("decided", "Handed over: etcd does not serve here", "everything up to revision 100", "waits for a destination")
		says(t, "reclaim", w.ask("POST", "/copyop/reclaim", ""), 200)
		w.serving()
		w.look("taken back", "etcd serves", "The last hand-over was taken back", "!Hand-over in progress", "1 full")
	})
}

// TestPageTellsTrouble: what is wrong is said, with what to do.
func TestPageTellsTrouble(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.wait(Owner)
		w.look("no etcd", "etcd may serve, and does not answer", "Connection refused.")
		w.faults.set(cut)
		sleep(t.Context(), w.Timing.Poll*2)
		w.look("cut off", "Needs attention", "the store cannot be reached", "etcd is stopped in")
		w.wait(SelfFenced)
		w.look("the lease is over", "etcd may not serve", "One good read is enough")
	})
}

// TestManyLookersAskTheStoreOnce: however many look at the page, the store is listed
// once in a while, its silence delays nobody for long, and what was known is
// shown meanwhile.
func TestManyLookersAskTheStoreOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var plan func(storetest.Call) storetest.Fault
		s := storetest.NewFaulty(mem.New(), func(c storetest.Call) storetest.Fault {
			if plan != nil {
				return plan(c)
			}
			return storetest.Fault{}
		})
		a := archive.New(s)
		var o overview
		for range 100 {
			go o.of(t.Context(), a)
		}
		synctest.Wait()
		if n := s.Calls(storetest.List); n != 1 {
			t.Errorf("it was listed %d times", n)
		}
		sleep(t.Context(), overviewPause)
		plan = func(storetest.Call) storetest.Fault { return storetest.Fault{Err: errors.New("it is broken")} }
		first := o.last().at
		if g := o.of(t.Context(), a); g.err == nil || !g.at.Equal(first) || g.at.IsZero() {
			t.Errorf("of a broken store: %v of %v", g.err, g.at)
		}
		sleep(t.Context(), overviewPause)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		asked := o.asked
		o.of(gone, a)
		if o.asked != asked {
			t.Error("whoever has gone counts")
		}
		plan = nil
		if g := o.of(t.Context(), a); g.err != nil || g.at.Equal(first) {
			t.Errorf("of a store that is well again: %v of %v", g.err, g.at)
		}
	})
}

func TestValuesAreThoseOfMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := NewElectionMetrics(reg)
	m.role(Owner)
	m.lease(90 * time.Second)
	m.read(nil)
	v := valuesOf(MetricsHandler(reg))
	if v[`etcd_ferry_role{role="Owner"}`] != 1 || v["etcd_ferry_lease_remaining_seconds"] != 90 || v[`etcd_ferry_sync_object_reads_total{result="ok"}`] != 1 {
		t.Errorf("%v", v)
	}
	if v := valuesOf(http.NotFoundHandler()); len(v) != 0 {
		t.Errorf("of another handler: %v", v)
	}
}

// TestPageShowsTheRoomOfEtcd with the metrics that etcd's client has.
func TestPageShowsTheRoomOfEtcd(t *testing.T) {
	reg := prometheus.NewRegistry()
	etcd.NewMetrics(reg)
	v := valuesOf(MetricsHandler(reg))
	for _, name := range []string{
		"etcd_ferry_etcd_database_bytes", "etcd_ferry_etcd_database_in_use_bytes", "etcd_ferry_etcd_quota_bytes",
		`etcd_ferry_etcd_alarm{type="nospace"}`, `etcd_ferry_etcd_alarm{type="corrupt"}`,
	} {
		if _, there := v[name]; !there {
			t.Errorf("there is no metric %s", name)
		}
		v[name] = 1
	}
	v["etcd_ferry_etcd_database_bytes"], v["etcd_ferry_etcd_quota_bytes"] = 90, 100
	e := etcdState("here", v)
	if e.Share() != 90 || e.Level() != page.Wait || e.InUse != 1 || len(e.Alarms) != 2 {
		t.Errorf("%+v", e)
	}
	if notes := etcdNotes(e); len(notes) != 2 || !strings.Contains(notes[0].Advice, "alarm disarm") {
		t.Errorf("%+v", notes)
	}
}
