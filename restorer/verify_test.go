package restorer_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

func verifier(a *archive.Archive, level restorer.Level) *restorer.Verifier {
	v := restorer.NewVerifier(a)
	v.Level, v.Settle = level, time.Millisecond
	return v
}

// TestVerifyNamesWhatIsWrong breaks one thing at a time and looks from which
// level on it is found.
func TestVerifyNamesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		breakIt func(t *testing.T, f *forged) (object string)
		from    restorer.Level
		class   error
	}{
		"manifest deleted": {func(t *testing.T, f *forged) string {
			m := f.delta(t, 11, 20)
			remove(t, f, m.Name+snapshot.ManifestSuffix)
			return m.Name
		}, restorer.LevelManifest, archive.ErrCorrupt},
		"object deleted": {func(t *testing.T, f *forged) string {
			m := f.delta(t, 11, 20)
			remove(t, f, m.Name)
			return m.Name
		}, restorer.LevelManifest, archive.ErrCorrupt},
		"gap": {func(t *testing.T, f *forged) string { return f.delta(t, 13, 20).Name }, restorer.LevelManifest, snapshot.ErrGap},
		"byte flipped": {func(t *testing.T, f *forged) string {
			m := f.delta(t, 11, 20)
			f.replace(t, m.Name, flipped(f.object(t, m)))
			return m.Name
		}, restorer.LevelContent, nil}, // of the archive or of the delta, whoever sees it first
		"not a database": {func(t *testing.T, f *forged) string {
			content := make([]byte, 1<<20)
			return f.saveFull(t, 30, append(content, digest(content)...)).Name
		}, restorer.LevelRestore, archive.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			f := forge()
			f.full(t, 10, nil)
			object := c.breakIt(t, f)
			expected := false
			for _, level := range restorer.Levels {
				expected = expected || level == c.from
				v := verifier(f.Archive, level)
				v.TempDir = t.TempDir()
				r, err := v.Verify(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				found := len(r.Findings) == 1 && r.Findings[0].Name == object && (c.class == nil || errors.Is(r.Err(), c.class))
				if found != expected || !expected && r.Err() != nil {
					t.Errorf("level %s: %+v", level, r.Findings)
				}
			}
		})
	}
}

func remove(t *testing.T, f *forged, name string) {
	t.Helper()
	if err := f.objects.Remove(t.Context(), "snapshots/"+name); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyOfNothing(t *testing.T) {
	if _, err := verifier(archive.New(mem.New()), restorer.LevelRestore).Verify(t.Context()); !errors.Is(err, snapshot.ErrNothing) {
		t.Errorf("got %v", err)
	}
}

// live is an etcd with one answer.
type live struct {
	hash snapshot.HashKV
	err  error
}

func (l live) HashKV(context.Context, int64) (snapshot.HashKV, error) { return l.hash, l.err }

func TestVerifyAgainstTheLiveEtcd(t *testing.T) {
	s := newSource(t, etcdtest.Newest)
	s.work(t, "a", 50)
	s.full(t)
	s.work(t, "b", 50)
	s.delta(t)
	v := verifier(s.archive, restorer.LevelRestore)
	v.TempDir = t.TempDir()
	truth := s.hash(t, s.at)
	v.Live = live{hash: truth}
	if r, err := v.Verify(t.Context()); err != nil || r.Err() != nil || r.Trial.HashKV != truth || r.Snapshots != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	truth.Hash++
	v.Live = live{hash: truth}
	if r, err := v.Verify(t.Context()); err != nil || !errors.Is(r.Err(), archive.ErrCorrupt) || !strings.Contains(r.Err().Error(), "hash") {
		t.Errorf("with another hash: %+v, %v", r, err)
	}
	broken := errors.New("etcd is not there")
	v.Live = live{err: broken}
	if _, err := v.Verify(t.Context()); !errors.Is(err, broken) {
		t.Errorf("without an etcd: %v", err)
	}
}
