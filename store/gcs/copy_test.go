package gcs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

func TestCopyBetweenBuckets(t *testing.T) {
	server := storeservers.StartGCS(t)
	from, to := open(t, config(t, server)), open(t, config(t, server))
	data := make([]byte, 3*chunkSize+1)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	if _, err := from.Create(t.Context(), "a+c%d/x", bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	info, done, err := store.Copy(t.Context(), store.Prefix(to, "p"), "y", store.Prefix(from, "a+c%d"), "x")
	if err != nil || !done || info.Size != int64(len(data)) || info.Name != "y" {
		t.Fatalf("got %+v, %t, %v", info, done, err)
	}
	r, there, err := to.Open(t.Context(), "p/y")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) || there.Version != info.Version {
		t.Errorf("got %d bytes, version %q of %q, %v", len(got), info.Version, there.Version, err)
	}
	if _, _, err := to.CopyFrom(t.Context(), "p/y", from, "a+c%d/x"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("again: %v", err)
	}
	if _, _, err := to.CopyFrom(t.Context(), "z", from, "missing"); err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("of nothing: %v", err)
	}
}

func TestNoCopyFromElsewhere(t *testing.T) {
	cfg := config(t, storeservers.StartGCS(t))
	to := open(t, cfg)
	cfg.CredentialsDir = t.TempDir()
	for _, from := range []store.Store{mem.New(), open(t, cfg)} {
		if _, done, err := store.Copy(t.Context(), to, "x", from, "y"); done || err != nil {
			t.Errorf("from %s: %t, %v", from, done, err)
		}
	}
}
