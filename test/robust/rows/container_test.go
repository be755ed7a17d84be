package rows

import (
	"path/filepath"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// container is where a deployment stores its snapshots.
type container struct {
	url         string
	credentials string      // folder; empty: none needed
	direct      store.Store // for the test itself
}

// newFolder returns a container on disk.
func newFolder(t *testing.T) container {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "container")
	return container{url: "file://" + dir, direct: file.New(dir)}
}

// flags name the container to a command: prefix is store or source-store.
func (c container) flags(prefix string) []string {
	f := []string{"--" + prefix + "=" + c.url}
	if c.credentials != "" {
		f = append(f, "--"+prefix+"-credentials="+c.credentials)
	}
	return f
}

func (c container) archive() *archive.Archive { return archive.New(c.direct) }

// object returns the sync object; there must be one.
func (c container) object(t *testing.T) syncobject.Object {
	t.Helper()
	o, err := syncobject.NewFile(c.direct).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// owner returns what owner.json says.
func (c container) owner(t *testing.T) syncobject.Owner {
	t.Helper()
	o, err := syncobject.NewOwnerFile(c.direct).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// network is an S3 server behind lines that can be made bad.
type network struct {
	toxi   *storeservers.Toxiproxy
	server *storeservers.S3
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	return &network{storeservers.StartToxiproxy(t), storeservers.StartVersityGW(t)}
}

// onS3 returns a container on a server of its own.
func onS3(t *testing.T) container {
	t.Helper()
	server := storeservers.StartVersityGW(t)
	return (&network{server: server}).bucket(t).at(server.URL)
}

// bucket is a container on a server, reached through different lines.
type bucket struct {
	t    *testing.T
	net  *network
	name string
	cfg  s3.Config
}

func (n *network) bucket(t *testing.T) *bucket {
	t.Helper()
	b := &bucket{t: t, net: n, name: n.server.Bucket(t)}
	b.cfg = s3.Config{Bucket: b.name, Endpoint: n.server.URL, PathStyle: true, CredentialsDir: n.server.Credentials(t)}
	return b
}

// through returns the container as it is seen from the end of a new line.
func (b *bucket) through() (container, *storeservers.Line) {
	b.t.Helper()
	line := b.net.toxi.Line(b.t, b.net.server.URL)
	return b.at(line.URL), line
}

// at returns the container with another address of the server.
func (b *bucket) at(endpoint string) container {
	b.t.Helper()
	direct, err := s3.New(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return container{
		url:         "s3://" + b.name + "/prefix?pathStyle=true&endpoint=" + endpoint,
		credentials: b.cfg.CredentialsDir, direct: store.Prefix(direct, "prefix"),
	}
}

// cut makes a line dead: nothing passes, nothing is refused.
func (n *network) cut(t *testing.T, l *storeservers.Line) (heal func()) {
	t.Helper()
	return n.toxi.Suffer(t, l,
		storeservers.Toxic{Type: "timeout", Stream: "upstream", Attributes: map[string]int64{"timeout": 0}},
		storeservers.Toxic{Type: "timeout", Stream: "downstream", Attributes: map[string]int64{"timeout": 0}},
	)
}

// throttle lets so many bytes a second pass in each connection to the server.
func (n *network) throttle(t *testing.T, l *storeservers.Line, kilobytes int64) (heal func()) {
	t.Helper()
	return n.toxi.Suffer(t, l, storeservers.Toxic{Type: "bandwidth", Stream: "upstream", Attributes: map[string]int64{"rate": kilobytes}})
}

// slow is throttle for what comes from the server.
func (n *network) slow(t *testing.T, l *storeservers.Line, kilobytes int64) (heal func()) {
	t.Helper()
	return n.toxi.Suffer(t, l, storeservers.Toxic{Type: "bandwidth", Stream: "downstream", Attributes: map[string]int64{"rate": kilobytes}})
}
