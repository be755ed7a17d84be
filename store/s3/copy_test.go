package s3_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

func TestCopyBetweenBuckets(t *testing.T) {
	onServers(t, func(t *testing.T, server *storeservers.S3) {
		cfg := config(t, server)
		from := open(t, cfg)
		cfg.Bucket = server.Bucket(t)
		to := open(t, cfg)
		for _, size := range []int{1, 1000, 8*partSize + 1, 9 * partSize} {
			data := make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{}).Read(data)
			name := "a b+c%d/x" // as prefixes may be
			if store.CheckName(name) != nil {
				name = "a+c%d/x"
			}
			if _, err := from.Create(t.Context(), name, bytes.NewReader(data)); err != nil {
				t.Fatal(err)
			}
			info, done, err := store.Copy(t.Context(), store.Prefix(to, "p"), "y", from, name)
			if err != nil || !done || info.Size != int64(size) || info.Name != "y" {
				t.Fatalf("%d bytes: got %+v, %t, %v", size, info, done, err)
			}
			r, there, err := to.Open(t.Context(), "p/y")
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r)
			r.Close()
			if err != nil || !bytes.Equal(got, data) || there.Version != info.Version {
				t.Errorf("%d bytes: got %d, version %q of %q, %v", size, len(got), info.Version, there.Version, err)
			}
			if _, _, err := store.Copy(t.Context(), store.Prefix(to, "p"), "y", from, name); !errors.Is(err, fs.ErrExist) {
				t.Errorf("again: %v", err)
			}
			for s, name := range map[store.Store]string{from: name, to: "p/y"} {
				if err := s.Remove(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, _, err := to.CopyFrom(t.Context(), "y", from, "missing"); err == nil || errors.Is(err, fs.ErrExist) {
			t.Errorf("of nothing: %v", err)
		}
	})
}

// Of many copies to one name one wins, also where the server would let
// CopyObject overwrite.
func TestCopiesRace(t *testing.T) {
	onServers(t, func(t *testing.T, server *storeservers.S3) {
		s := open(t, config(t, server))
		create(t, s, "source", strings.Repeat("x", 1000))
		const racers = 8
		won := make(chan error, racers)
		for range racers {
			go func() {
				_, _, err := s.CopyFrom(t.Context(), "copy", s, "source")
				won <- err
			}()
		}
		wins := 0
		for range racers {
			err := <-won
			if err == nil {
				wins++
			} else if !errors.Is(err, fs.ErrExist) {
				t.Logf("a loser was told: %v", err)
			}
		}
		if wins != 1 {
			t.Errorf("%d copies won", wins)
		}
	})
}

func TestNoCopyFromElsewhere(t *testing.T) {
	server := storeservers.StartVersityGW(t)
	cfg := config(t, server)
	to := open(t, cfg)
	cfg.Region = "elsewhere"
	for _, from := range []store.Store{mem.New(), open(t, cfg)} {
		if _, done, err := store.Copy(t.Context(), to, "x", from, "y"); done || err != nil {
			t.Errorf("from %s: %t, %v", from, done, err)
		}
	}
}
