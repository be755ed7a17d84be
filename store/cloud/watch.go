package cloud

import (
	"context"
	"net"
	"net/http"
	"slices"
	"time"
)

// DefaultStall is how long a connection may stand still while it is waited for.
const DefaultStall = time.Minute

// Watch makes the connections of t fail when they stall: a call that moves on
// has no limit.
func Watch(t *http.Transport, stall time.Duration) {
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{conn, stall}, nil
	}
}

// NewTransport returns a transport of its own with watched connections, proxies
// as the environment says.
func NewTransport() *http.Transport {
	t := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2: true, MaxIdleConns: 100, MaxIdleConnsPerHost: 100,
		IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ExpectContinueTimeout: time.Second,
	}
	Watch(t, DefaultStall)
	return t
}

// watchedConn fails when nothing moves in either direction for a while, but only
// while somebody waits for it: what was received may be read slowly.
type watchedConn struct {
	net.Conn
	stall time.Duration
}

func (c *watchedConn) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write sends little by little, for the deadline to be about moving on and not
// about all of p.
func (c *watchedConn) Write(p []byte) (n int, err error) {
	for piece := range slices.Chunk(p, 64<<10) {
		if err := c.SetDeadline(time.Now().Add(c.stall)); err != nil {
			return n, err
		}
		sent, err := c.Conn.Write(piece)
		n += sent
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
