package etcdtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// startAttempts is how often a new cluster gets new ports after losing a race.
const startAttempts = 3

// Cluster is a set of members that know each other.
type Cluster struct {
	Members []*Etcd
}

// NewCluster prepares n members, with names, URLs and data dirs, that Start will
// run. Between the two calls data can be restored into the data dirs.
func NewCluster(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	return newCluster(t, n, collect(t, opts))
}

func newCluster(t testing.TB, n int, o options) *Cluster {
	t.Helper()
	c := &Cluster{}
	parent := o.dataDir
	var shared *TLS
	if o.tls {
		shared = newTLS(t)
	}
	for i := range n {
		name := "default" // what etcd and etcdutl call a single member
		if n > 1 {
			name = fmt.Sprintf("m%d", i)
			o.dataDir = filepath.Join(parent, name)
		}
		c.Members = append(c.Members, newEtcd(t, name, o, shared))
	}
	// Equal ports must not make two clusters look like one.
	token := rand.Text()
	for _, e := range c.Members {
		e.cluster = []string{"--initial-cluster=" + c.Initial(), "--initial-cluster-token=" + token}
	}
	return c
}

// StartCluster runs a cluster of n members and returns when all are healthy. It
// ends with the test.
func StartCluster(t testing.TB, n int, opts ...Option) *Cluster {
	t.Helper()
	for range startAttempts {
		c := NewCluster(t, n, opts...)
		err := c.start(t)
		if err == nil {
			return c
		}
		if !errors.Is(err, errPortTaken) {
			t.Fatal(err)
		}
		c.Stop(t)
	}
	t.Fatalf("no free ports after %d attempts", startAttempts)
	return nil
}

// Start runs all members and returns when all are healthy. They end with the
// test.
func (c *Cluster) Start(t testing.TB) {
	t.Helper()
	if err := c.start(t); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) start(t testing.TB) error {
	t.Helper()
	for _, e := range c.Members {
		e.run(t)
	}
	for _, e := range c.Members {
		if err := e.wait(t); err != nil {
			return err
		}
	}
	return nil
}

// Stop asks all members to end and waits until they have.
func (c *Cluster) Stop(t testing.TB) {
	t.Helper()
	for _, e := range c.Members {
		e.Stop(t)
	}
}

// Endpoints are the URLs for clients.
func (c *Cluster) Endpoints() []string {
	var urls []string
	for _, e := range c.Members {
		urls = append(urls, e.Endpoint())
	}
	return urls
}

// Initial is the value for etcd's flag --initial-cluster.
func (c *Cluster) Initial() string {
	var members []string
	for _, e := range c.Members {
		members = append(members, e.Name+"="+e.PeerURL)
	}
	return strings.Join(members, ",")
}
