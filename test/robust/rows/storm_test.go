package rows

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/server"
)

// storm is the front of a server, which sends everybody away while it is told to.
type storm struct {
	http.Handler
	raging  atomic.Bool
	refused atomic.Int64
}

func newStorm(t *testing.T, to string) (front *storm, address string) {
	t.Helper()
	front = &storm{Handler: forward(t, to)}
	s := httptest.NewServer(front)
	t.Cleanup(s.Close)
	return front, s.URL
}

func (f *storm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !f.raging.Load():
		f.Handler.ServeHTTP(w, r)
	case f.refused.Add(1)%2 == 0:
		failS3(w, http.StatusTooManyRequests, "TooManyRequests")
	default:
		failS3(w, http.StatusServiceUnavailable, "SlowDown")
	}
}

// TestRow28Storm: a store that has no time for anybody is asked no more often than
// is polled for, nobody is fenced within the lease, and the hand-over goes on when
// the storm is over.
func TestRow28Storm(t *testing.T) {
	t.Parallel()
	const (
		lasts = 8 * time.Second
		poll  = time.Second
		// A sidecar and a copy read once in each poll, and have other things to do
		// that they try again less and less often. Who does not wait asks hundreds of
		// times a second.
		most = 10 * int64(lasts/poll)
	)
	net := newNetwork(t)
	front, address := newStorm(t, net.server.URL)
	in := net.bucket(t)
	a := deploy(t, "a", in.at(address), func(d *deployment) { d.Flags = []string{"--poll-period=" + poll.String()} }).ready()
	onA := writeTo(t, a)
	onA.more(t, 500)
	front.raging.Store(true)
	b := newDeployment(t, "b", net.bucket(t).at(net.server.URL), 1)
	copying := a.copyTo("b", b.Store, "--poll-period="+poll.String(), "--precopy-period=1s")
	wait(t, lasts)
	n := front.refused.Load()
	if n < int64(lasts/poll) || n > most {
		t.Errorf("%d requests in %v, want %d to %d", n, lasts, int64(lasts/poll), most)
	}
	if status, p := a.members[0].progress(t, ""); p.Role != server.Owner || status != http.StatusOK {
		t.Errorf("in the storm: %d %+v", status, p)
	}
	onA.more(t, 100)
	front.raging.Store(false)
	if done := copying.want(0).outcome(); done.Lossy {
		t.Errorf("%+v", done)
	}
	onB := writeTo(t, b.takeOver())
	onB.more(t, 100)
	onA.stop()
	onA.wantKept(t, b)
	onA.wantBefore(t, onB)
	t.Logf("%d requests in %v", n, lasts)
}
