package e2e

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// evil names what must never be made.
const evil = "evil"

// hostileNames are such as no object of ours has.
func hostileNames(name string) []string {
	return []string{
		"snapshots/../../../" + evil, "../" + evil, "/tmp/" + evil, "snapshots//" + evil, "snapshots/./" + evil, "snapshots/x\ny.json",
		"snapshots/" + name + "\n", "snapshots/../snapshots/" + name, "snapshots/" + name + "/../" + evil + ".json", "snapshots/\\..\\" + evil,
		"snapshots/" + strings.Repeat("x", 10_000), "snapshots/full-0000000000000001-20261120T231600Z.db.zst/../../" + evil,
	}
}

// hostileListing puts names into every listing that an S3 server gives.
func hostileListing(t *testing.T, server string, names []string) string {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	var entries bytes.Buffer
	for _, name := range names {
		entries.WriteString("<Contents><Key>")
		if err := xml.EscapeText(&entries, []byte(name)); err != nil {
			t.Fatal(err)
		}
		entries.WriteString("</Key><LastModified>2026-11-20T23:16:00.000Z</LastModified><ETag>&quot;x&quot;</ETag><Size>5</Size></Contents>")
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Query().Get("list-type") != "2" {
				return nil
			}
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return err
			}
			body = bytes.Replace(body, []byte("</ListBucketResult>"), append(entries.Bytes(), "</ListBucketResult>"...), 1)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", fmt.Sprint(len(body)))
			return nil
		},
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	return front.URL
}

// TestForeignNames has a store list names that lead out of it, or that nobody can
// write, and runs every command on it: they are passed by, and nothing is made of them.
func TestForeignNames(t *testing.T) {
	t.Parallel()
	source := etcdtest.Start(t)
	source.Fill(t, 3, 100)
	t.Run("s3", func(t *testing.T) {
		t.Parallel()
		server := storeservers.StartVersityGW(t)
		p := bucket(t, server)
		m := takeIn(t, p, "full", source)
		p.url = strings.Replace(p.url, url.QueryEscape(server.URL), url.QueryEscape(hostileListing(t, server.URL, hostileNames(m.Name))), 1)
		passBy(t, source, p)
	})
	t.Run("directory", func(t *testing.T) {
		t.Parallel()
		dir, _ := newStore(t)
		p := place{"file://" + dir, ""}
		m := takeIn(t, p, "full", source)
		snapshots := filepath.Join(dir, "snapshots")
		other := strings.Replace(m.Name, "full-0", "full-1", 1)
		for _, name := range []string{"x\ny.json", m.Name + "\n", "\\..\\" + evil, "\x01", strings.Repeat("x", 255), ".." + evil} {
			if err := os.WriteFile(filepath.Join(snapshots, name), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		outside := filepath.Join(t.TempDir(), "outside")
		for _, err := range []error{
			os.WriteFile(outside, []byte("outside"), 0o600),
			os.Symlink(outside, filepath.Join(snapshots, other)), os.Symlink(outside, filepath.Join(snapshots, other+".json")),
			syscall.Mkfifo(filepath.Join(snapshots, strings.Replace(other, "full-1", "full-2", 1)), 0o600),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		passBy(t, source, p)
		if content, err := os.ReadFile(outside); err != nil || string(content) != "outside" {
			t.Errorf("what a link leads to is %q, %v", content, err)
		}
	})
}

// passBy runs every command on p, in which there is one snapshot of ours.
func passBy(t *testing.T, source *etcdtest.Etcd, p place) {
	t.Helper()
	top := t.TempDir()
	work := filepath.Join(top, "a", "b", "c") // so that there is something above
	copied, dataDir := place{"file://" + filepath.Join(work, "copy"), ""}, filepath.Join(work, "etcd")
	if l := listIn(t, p); len(l.Snapshots) != 1 || len(l.Strays)+len(l.Problems) > 0 {
		t.Errorf("listed are %+v", l)
	}
	must(t, on(p, "verify")...)
	must(t, on(p, "prune", "--keep-last=1")...)
	must(t, copying(p, copied)...)
	must(t, on(p, "restore", "--data-dir", dataDir)...)
	checkSame(t, source, dataDir, source.Revision(t))
	takeIn(t, p, "delta", source) // nothing new
	if l := listIn(t, copied); len(l.Snapshots) != 1 || len(l.Strays)+l.Foreign > 0 {
		t.Errorf("copied are %+v", l)
	}
	var found []string
	err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(path, evil) || slices.Contains([]string{top, filepath.Join(top, "a"), filepath.Join(top, "a", "b")}, filepath.Dir(path)) &&
			!strings.HasPrefix(work, path) {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) > 0 {
		t.Errorf("made outside of what was asked for: %q, %v", found, err)
	}
}
