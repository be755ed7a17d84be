package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// ask answers one request of a peer on this machine.
func (w *world) ask(method, path, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.askFrom("127.0.0.1:4000", method, path, body)
}

func (w *world) askFrom(peer, method, path, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	d := New(nil, nil, nil)
	d.Election, d.Log = w.Election, w.Log
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(w.t.Context())
	r.RemoteAddr = peer
	return checked(w.t, serverOpenAPI, d.Handler(), r)
}

// says fails the test unless an answer has a status and contains all parts.
func says(t *testing.T, what string, r *httptest.ResponseRecorder, status int, parts ...string) {
	t.Helper()
	if r.Code != status {
		t.Errorf("%s: %d %s, want %d", what, r.Code, r.Body, status)
	}
	for _, part := range parts {
		if !strings.Contains(r.Body.String(), part) {
			t.Errorf("%s: %q is missing in %s", what, part, r.Body)
		}
	}
}

func TestCopyopOverHTTP(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.process = &process{Election: NewElection(w.member, w.store, archive.New(w.store))} // not begun
		says(t, "status before the first read", w.ask("GET", "/copyop/status", ""), 503, `"role":"Unknown"`)
		says(t, "initiate before the first read", w.ask("POST", "/copyop/initiate", ""), 409, `"not_owner"`)
		w.start()
		w.serving()
		says(t, "healthz", w.ask("GET", "/healthz", ""), 200)
		says(t, "status", w.ask("GET", "/copyop/status", ""), 200, `"initiated":false`, `"role":"Owner"`, `"object":null`)
		says(t, "owner", w.ask("GET", "/owner", ""), 200, `"id":"a"`, `"owner":true`, `"leaseExpiration":"2`)
		says(t, "no JSON", w.ask("POST", "/copyop/initiate", "<html>"), 400, `"bad_request"`)
		says(t, "bad id", w.ask("POST", "/copyop/initiate", `{"operationID":"`+strings.Repeat("x", 5000)+`"}`), 400, `"bad_request"`)
		says(t, "too large", w.ask("POST", "/copyop/initiate", strings.Repeat(" ", maxBody+1)), 413, `"too_large"`)
		if !w.object().Absent() {
			t.Fatal("a refused call has changed something")
		}

		w.member.set(func(m *fakeMember) { m.takes = time.Minute }) // it is not decided before the next one
		first := w.ask("POST", "/copyop/initiate", `{"operationID":"move-1"}`)
		says(t, "initiate", first, 201, `"operationID":"move-1"`, `"status":"Initial"`)
		says(t, "initiate again", w.ask("POST", "/copyop/initiate", ""), 200, `"operationID":"move-1"`)
		w.wait(Ceded)
		says(t, "healthz after", w.ask("GET", "/healthz", ""), 503)
		says(t, "status after", w.ask("GET", "/copyop/status?fresh=true", ""), 200,
			`"pending":true`, `"status":"Ready"`, `"role":"Ceded"`, `"generation":1`)
		says(t, "owner after", w.ask("GET", "/owner", ""), 200, `"owner":false`, `"role":"Ceded"`)
		says(t, "abort after the decision", w.ask("POST", "/copyop/abort", ""), 409, `"decided"`, `"operationID":"move-1"`)
		says(t, "initiate after the decision", w.ask("POST", "/copyop/initiate", ""), 409, `"decided"`)
		says(t, "reclaim", w.ask("POST", "/copyop/reclaim", ""), 200, `"outcome":"Aborted"`)
		w.serving()
	})
}

func TestAbortOverHTTP(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		w.member.set(func(m *fakeMember) { m.takes = time.Minute })
		says(t, "abort nothing", w.ask("POST", "/copyop/abort", ""), 409)
		says(t, "initiate", w.ask("POST", "/copyop/initiate", ""), 201)
		w.wait(Snapshotting)
		says(t, "abort", w.ask("POST", "/copyop/abort", ""), 200, `"outcome":"Aborted"`)
		says(t, "abort again", w.ask("POST", "/copyop/abort", ""), 200, `"outcome":"Aborted"`)
		w.serving()
		says(t, "initiate anew", w.ask("POST", "/copyop/initiate", ""), 201, `"generation":2`)
	})
}

func TestStoreThatCannotBeReachedOverHTTP(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.wait(Owner)
		w.member.run() // below no gate: this process would be it, and outlives a fence
		w.faults.set(cut)
		r := w.ask("POST", "/copyop/initiate", "")
		says(t, "initiate", r, 503, `"store"`)
		if r.Header().Get("Retry-After") == "" {
			t.Error("the caller is not told when to ask again")
		}
		says(t, "fresh status", w.ask("GET", "/copyop/status?fresh=true", ""), 503, `"lastError":"`, `"role":"Owner"`)
		w.wait(SelfFenced)
		says(t, "old status", w.ask("GET", "/copyop/status", ""), 503, `"role":"SelfFenced"`)
		says(t, "watchdog", w.ask("GET", "/livez/etcd", ""), 200)
		w.member.set(func(m *fakeMember) { m.running = true })
		says(t, "watchdog with an etcd", w.ask("GET", "/livez/etcd", ""), 503, `"must_not_run"`)
		w.member.end()
	})
}

func TestGateOverHTTP(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		me := myself(t)
		path := "/gate?pid=" + strconv.Itoa(me.PID) + "&start=" + strconv.FormatUint(me.Start, 10)
		w.serving()
		says(t, "open", w.ask("GET", path, ""), 200, `"allowed":true`, `"leaseRemainingSeconds":1`)
		says(t, "from elsewhere", w.askFrom("192.0.2.7:4000", "GET", path, ""), 403)
		says(t, "nobody", w.ask("GET", "/gate", ""), 400)
		says(t, "process 1", w.ask("GET", "/gate?pid=1&start=5", ""), 400, "shareProcessNamespace")
		w.change(claimed)
		w.wait(Ceded)
		began := time.Now()
		says(t, "shut", w.ask("GET", path, ""), 423, `"shut"`)
		if waited := time.Since(began); waited != gateWait {
			t.Errorf("the answer came after %s, want %s", waited, gateWait)
		}
	})
}

func TestWithoutElection(t *testing.T) {
	d := New(nil, nil, nil)
	for _, path := range []string{"GET /copyop/status", "POST /copyop/initiate", "POST /copyop/abort", "POST /copyop/reclaim", "GET /owner", "GET /gate"} {
		method, path, _ := strings.Cut(path, " ")
		r := httptest.NewRequest(method, path, nil)
		r.RemoteAddr = "[::1]:4000"
		w := checked(t, serverOpenAPI, d.Handler(), r)
		says(t, path, w, 501, `"election_off"`, "--owner-id")
	}
}

// errorCode is the code of the error in a body.
func errorCode(t *testing.T, body io.Reader) string {
	t.Helper()
	var p problem
	if err := json.NewDecoder(body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p.Error.Code
}

func TestWhoMayChangeSomething(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start()
		w.serving()
		token := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(token, []byte("right\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d := New(nil, nil, nil)
		d.Election, d.Log = w.Election, w.Log
		try := func(access Access, change func(*http.Request), status int, code string) {
			t.Helper()
			d.Access = access
			r := httptest.NewRequest(http.MethodPost, "/copyop/initiate", nil).WithContext(t.Context())
			change(r)
			answer := checked(t, serverOpenAPI, d.Handler(), r)
			if answer.Code != status || errorCode(t, answer.Body) != code {
				t.Errorf("%+v, %v: %d, want %d %s", access, r.Header, answer.Code, status, code)
			}
			if !w.object().Absent() {
				t.Fatal("a refused call has changed something")
			}
		}
		bearer := func(s string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Authorization", s) }
		}
		local := func(r *http.Request) { r.RemoteAddr = "127.0.0.1:4000" }
		byToken := Access{TokenFile: token}
		try(Access{}, bearer("Bearer right"), 403, "forbidden")
		try(byToken, local, 401, "unauthorized")
		try(byToken, bearer("Bearer wrong"), 401, "unauthorized")
		try(byToken, bearer("Bearer "), 401, "unauthorized")
		try(byToken, bearer("Basic right"), 401, "unauthorized")
		try(Access{TokenFile: token + "-missing"}, bearer("Bearer right"), 503, "no_token")
		try(Access{Names: []string{"flow.example"}}, local, 401, "unauthorized")
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE"} {
			r := w.ask(method, "/copyop/initiate", "")
			if r.Code != 405 || r.Header().Get("Allow") != "POST" || !w.object().Absent() {
				t.Errorf("%s: %d, allow %q", method, r.Code, r.Header().Get("Allow"))
			}
		}
		w.member.set(func(m *fakeMember) { m.takes = time.Minute }) // the second comes before it is decided
		socket := context.WithValue(t.Context(), caller{}, true)
		for _, allowed := range []func(*http.Request){
			bearer("Bearer right"),
			func(r *http.Request) { *r = *r.WithContext(socket) },
		} {
			d.Access = byToken
			r := httptest.NewRequest(http.MethodPost, "/copyop/initiate", nil).WithContext(t.Context())
			allowed(r)
			answer := checked(t, serverOpenAPI, d.Handler(), r)
			if answer.Code != 201 && answer.Code != 200 {
				t.Errorf("refused: %d %s", answer.Code, answer.Body)
			}
		}
		if o := w.object(); o.Status != syncobject.Initial || o.Generation != 1 {
			t.Errorf("object %+v", o)
		}
	})
}
