package web

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"
)

// crowd are the connections of a Server.
type crowd struct {
	limit   int
	metrics *Metrics

	mu      sync.Mutex // guards what follows, and each guest
	here    map[net.Conn]*guest
	leaving int // of those here: closed, and not noticed yet
}

// guest is one connection.
type guest struct {
	crowd *crowd
	conn  net.Conn
	since time.Time // when it came, or its last request ended or began
	busy  bool      // a request is being answered
	kept  bool      // and it changes something
	gone  bool      // closed to make room
}

// guestKey is that of a guest in the context of a connection.
type guestKey struct{}

// enter lets a connection in, and another one out if that is one too many. It
// does not wait for either: nobody else is let in meanwhile.
func (c *crowd) enter(ctx context.Context, conn net.Conn) context.Context {
	g := &guest{crowd: c, conn: conn, since: time.Now()}
	if c.let(g) {
		runtime.Gosched() // whoever came before is heard before the next one is let in
	}
	return context.WithValue(ctx, guestKey{}, g)
}

// let lets g in, and reports whether it is crowded.
func (c *crowd) let(g *guest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	crowded := len(c.here)-c.leaving >= c.limit
	if crowded {
		c.makeRoom()
	}
	c.here[g.conn] = g
	c.metrics.came()
	return crowded
}

// makeRoom closes the connection that can be spared best. The caller holds mu.
func (c *crowd) makeRoom() {
	var worst *guest
	for _, g := range c.here {
		if !g.gone && !g.kept && (worst == nil || g.lessThan(worst)) {
			worst = g
		}
	}
	if worst == nil {
		return
	}
	worst.gone = true
	c.leaving++
	c.metrics.shedOne()
	conn := worst.conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // without a farewell, which would wait for the peer
	}
	_ = conn.Close() // its server notices
}

// lessThan reports whether g can be spared rather than h.
func (g *guest) lessThan(h *guest) bool {
	if g.busy != h.busy {
		return h.busy
	}
	return g.since.Before(h.since)
}

// left is told of every change of a connection.
func (c *crowd) left(conn net.Conn, s http.ConnState) {
	if s != http.StateClosed && s != http.StateHijacked {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g, ok := c.here[conn]
	if !ok {
		return
	}
	if g.gone {
		c.leaving--
	}
	delete(c.here, conn)
	c.metrics.went()
}

// attend tells the crowd who has a request.
func attend(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
			g.set(true, false)
			defer g.set(false, false)
		}
		next.ServeHTTP(w, r)
	})
}

func (g *guest) set(busy, kept bool) {
	g.crowd.mu.Lock()
	defer g.crowd.mu.Unlock()
	g.busy, g.kept, g.since = busy, kept, time.Now()
}
