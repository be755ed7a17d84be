package etcd

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// TestTrailer cuts a stream into pieces of all sizes around that of the trailer.
func TestTrailer(t *testing.T) {
	database := bytes.Repeat([]byte("database"), 30)
	sum := sha256.Sum256(database)
	good := append(bytes.Clone(database), sum[:]...)
	whole := sha256.Sum256(good)
	for size := 1; size < 80; size++ {
		r := newTrailerReader(io.NopCloser(pieces{bytes.NewReader(good), size}))
		got, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(got, good) {
			t.Fatalf("pieces of %d: %v", size, err)
		}
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("pieces of %d: after the end: %v", size, err)
		}
		if r.SHA256() != hex.EncodeToString(whole[:]) {
			t.Errorf("pieces of %d: wrong sum of everything", size)
		}
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := io.ReadAll(newTrailerReader(io.NopCloser(bytes.NewReader(bad)))); !errors.Is(err, ErrTrailer) {
			t.Errorf("byte %d flipped: %v", i, err)
		}
		if _, err := io.ReadAll(newTrailerReader(io.NopCloser(bytes.NewReader(good[:i])))); !errors.Is(err, ErrTrailer) {
			t.Errorf("cut to %d bytes: %v", i, err)
		}
	}
	broken := errors.New("reset by peer")
	stream := io.MultiReader(bytes.NewReader(good), iotest.ErrReader(broken))
	if _, err := io.ReadAll(newTrailerReader(io.NopCloser(stream))); !errors.Is(err, broken) {
		t.Errorf("a broken stream: %v", err)
	}
}

type pieces struct {
	r    io.Reader
	size int
}

func (p pieces) Read(b []byte) (int, error) { return p.r.Read(b[:min(len(b), p.size)]) }
