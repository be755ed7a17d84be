package e2e

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// place is where snapshots are kept: a URL, and a folder of credentials or none.
type place struct{ url, credentials string }

func (p place) flags() []string { return p.named("store") }

// asSource names p as the store to copy from.
func (p place) asSource() []string { return p.named("source-store") }

func (p place) named(flag string) []string {
	flags := []string{"--" + flag + "=" + p.url}
	if p.credentials != "" {
		flags = append(flags, "--"+flag+"-credentials="+p.credentials)
	}
	return flags
}

// in returns the place behind a prefix.
func (p place) in(prefix string) place {
	base, options, _ := strings.Cut(p.url, "?")
	p.url = base + "/" + prefix
	if options != "" {
		p.url += "?" + options
	}
	return p
}

// on returns the command line of words for the store p.
func on(p place, words ...string) []string { return append(words, p.flags()...) }

// copying returns the command line of a copy.
func copying(from, to place, more ...string) []string {
	return slices.Concat([]string{"copy", "--manual", "-o=json"}, from.asSource(), to.flags(), more)
}

// bucket makes a bucket in s.
func bucket(t *testing.T, s *storeservers.S3) place {
	t.Helper()
	options := url.Values{"endpoint": {s.URL}, "pathStyle": {"true"}}
	if s.CAFile != "" {
		options.Set("caFile", s.CAFile)
	}
	return place{"s3://" + s.Bucket(t) + "?" + options.Encode(), s.Credentials(t)}
}

// everyStore runs a server of each kind and makes a bucket there.
func everyStore(t *testing.T) map[string]place {
	t.Helper()
	google, azurite := storeservers.StartGCS(t), storeservers.StartAzurite(t)
	google.MakeBucket(t, "matrix")
	azurite.MakeContainer(t, "matrix")
	return map[string]place{
		"file":  {url: "file://" + t.TempDir()},
		"s3":    bucket(t, storeservers.StartVersityGW(t)),
		"gcs":   {url: "gs://matrix?endpoint=" + url.QueryEscape(google.URL)},
		"azure": {"azblob://matrix?endpoint=" + url.QueryEscape(azurite.Endpoint), azurite.Credentials(t)},
	}
}

// takeIn stores a snapshot.
func takeIn(t *testing.T, p place, kind string, e *etcdtest.Etcd) manifest {
	t.Helper()
	return decode[manifest](t, must(t, on(p, "snapshot", kind, endpoints(e), "-o=json")...))
}

// history has one step of it taken by every call of backUp: all kinds of changes,
// after a compaction, and a value as large as etcd takes it.
func history(t *testing.T, e *etcdtest.Etcd, backUp func(kind string)) {
	t.Helper()
	c := e.Client(t)
	churn(t, c, "before")
	if _, err := c.Compact(t.Context(), e.Revision(t)-50, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	backUp("full")
	churn(t, c, "after")
	backUp("delta")
	e.Fill(t, 1, 1_400_000)
	backUp("delta")
	if _, err := c.Delete(t.Context(), "before/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	churn(t, c, "last")
	backUp("delta")
}

// TestEveryPairOfStores backs up into each kind of store, copies from each to
// each, and restores every copy.
func TestEveryPairOfStores(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	stores := everyStore(t)
	history(t, source, func(kind string) {
		for _, p := range stores {
			takeIn(t, p.in("backup"), kind, source)
		}
	})
	for from, p := range stores {
		for to, q := range stores {
			t.Run(from+" to "+to, func(t *testing.T) {
				q := q.in("from-" + from)
				r := decode[copied](t, must(t, copying(p.in("backup"), q)...))
				if r.Copied != 4 || r.There+r.Adopted > 0 {
					t.Errorf("copied: %+v", r)
				}
				// What is of one server and for the same keys the server copies itself.
				if byStores := from == to && from != "file"; (r.ByStores > 0) != byStores {
					t.Errorf("%d objects were copied by the stores themselves", r.ByStores)
				}
				must(t, on(q, "verify", "--level=content")...)
				checkRestored(t, source, q, from == to)
			})
		}
	}
}

// checkRestored restores from p and compares the hash of the history, with that
// of an etcd that is started on it if live is true.
func checkRestored(t *testing.T, source *etcdtest.Etcd, p place, live bool) {
	t.Helper()
	revision := source.Revision(t)
	dataDir := filepath.Join(t.TempDir(), "etcd")
	done := decode[restored](t, must(t, on(p, "restore", "--data-dir="+dataDir, "-o=json")...))
	if done.Revision != revision {
		t.Errorf("revision %d was restored, etcd is at %d", done.Revision, revision)
	}
	if live {
		checkSame(t, source, dataDir, revision)
		return
	}
	hash, compacted := source.HashKV(t, revision)
	got, err := restorer.Hash(t.Context(), dataDir, revision, compacted)
	if err != nil || got.Hash != hash || got.CompactRevision != compacted {
		t.Errorf("the hash is %+v (%v), want %s", got, err, fmt.Sprintf("%x from %d on", hash, compacted))
	}
}
