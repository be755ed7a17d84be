package robust

import (
	"context"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// uploadSize is more than four pieces, so that half of them are on their way or
// gone when the weather turns bad.
const uploadSize = 4*piece + 12345

// weather is what happens to a line during an upload.
type weather struct {
	toxics []storeservers.Toxic
	from   int64         // bytes that were read of the source when it begins
	lasts  time.Duration // 0: until the upload has ended
	// fails says that nothing can arrive in it. In other weather an upload must
	// succeed.
	fails bool
	// strict weather loses answers, which a fake-gcs-server does not stand: it
	// appends a repeated chunk to the first.
	strict bool
	// patience, if set, is when the caller gives up.
	patience time.Duration
}

func toxic(kind, stream, attribute string, value int64) storeservers.Toxic {
	return storeservers.Toxic{Type: kind, Stream: stream, Attributes: map[string]int64{attribute: value}}
}

const (
	up   = "upstream"
	down = "downstream"
	// blackout is how long a line is dead that comes back.
	blackout = 5 * time.Second
)

var weathers = map[string]weather{
	"slow answers": {toxics: []storeservers.Toxic{toxic("latency", up, "latency", 100), toxic("latency", down, "latency", 100)}},
	"narrow":       {toxics: []storeservers.Toxic{toxic("bandwidth", up, "rate", 10<<10)}}, // KiB a second
	"slow close":   {toxics: []storeservers.Toxic{toxic("slow_close", up, "delay", 500), toxic("slow_close", down, "delay", 500)}},
	"reset in the middle of a piece": {
		toxics: []storeservers.Toxic{toxic("reset_peer", up, "timeout", 0)}, from: 2*piece + piece/2, lasts: 300 * time.Millisecond,
	},
	"cut in the middle of a piece": {
		toxics: []storeservers.Toxic{toxic("limit_data", up, "bytes", piece/2)}, from: 2 * piece, lasts: 300 * time.Millisecond,
	},
	"answers lost": {
		toxics: []storeservers.Toxic{toxic("timeout", down, "timeout", 0)}, from: 2 * piece, lasts: time.Second, strict: true,
	},
	"silent for 5 s": {
		toxics: []storeservers.Toxic{toxic("timeout", up, "timeout", 0)}, from: 2 * piece, lasts: blackout,
	},
	"refused for 5 s": {
		toxics: []storeservers.Toxic{toxic("reset_peer", up, "timeout", 0)}, from: 2 * piece, lasts: blackout,
	},
	"every piece cut": {
		toxics: []storeservers.Toxic{toxic("limit_data", up, "bytes", piece/2)}, from: 2 * piece, fails: true, patience: 12 * time.Second,
	},
	"silent until the caller has given up": {
		toxics: []storeservers.Toxic{toxic("timeout", up, "timeout", 0), toxic("timeout", down, "timeout", 0)},
		from:   2 * piece, lasts: 8 * time.Second, fails: true, patience: 6 * time.Second,
	},
}

// TestUploadsOverBadLines streams an object that cannot be read again. What is
// reported as stored is there to the byte; what failed is not listed, says why,
// and leaves nothing on a server that can be asked.
func TestUploadsOverBadLines(t *testing.T) {
	t.Parallel()
	s := startServers(t)
	beside(t, s.providers(), func(t *testing.T, raise func(*testing.T) shore) {
		beside(t, weathers, func(t *testing.T, w weather) {
			sh := raise(t)
			if w.strict && sh.direct.String()[:2] == "gs" {
				w.toxics, w.from = []storeservers.Toxic{toxic("latency", down, "latency", 500)}, 0
			}
			s.upload(t, sh, w)
		})
	})
}

func (s *servers) upload(t *testing.T, sh shore, w weather) {
	t.Helper()
	ctx := t.Context()
	if w.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.patience)
		defer cancel()
	}
	var healed sync.WaitGroup
	heal := func() {}
	src := &tripping{noise(uploadSize), w.from, func() {
		end := s.toxi.Suffer(t, sh.line, w.toxics...)
		if w.lasts == 0 {
			heal = end
			return
		}
		healed.Go(func() {
			time.Sleep(w.lasts) //nolint:forbidigo // it is the time of other processes
			end()
		})
	}}
	_, err := store.Retry(sh.across).Create(ctx, "big/object", src)
	healed.Wait()
	heal()
	if w.fails != (err != nil) {
		t.Errorf("the upload ended with %v", err)
	}
	if err == nil {
		wantNoise(t, sh.direct, "big/object", uploadSize)
	} else {
		wantClear(t, err, "big/object", sh.direct)
		s.again(t, sh)
	}
	if n := sh.unfinished(t, "big/object"); n != 0 {
		t.Errorf("%d unfinished uploads are left", n)
	}
	if left := names(t.Context(), t, sh.direct); !slices.Equal(left, []string{"big/object"}) {
		t.Errorf("listed are %q", left)
	}
}

// again looks that a failed upload left nothing to see, and uploads once more.
func (s *servers) again(t *testing.T, sh shore) {
	t.Helper()
	if left := names(t.Context(), t, sh.direct); len(left) > 0 {
		t.Errorf("after a failure there are %q", left)
	}
	if _, err := sh.across.Create(t.Context(), "big/object", noise(uploadSize)); err != nil {
		t.Errorf("over the line that is good again: %v", err)
	}
	wantNoise(t, sh.direct, "big/object", uploadSize)
}

// TestUploadMemoryOverBadLine sends objects of two sizes over a slow line that
// breaks: the heap is bounded by the pieces on their way, not by the object.
func TestUploadMemoryOverBadLine(t *testing.T) {
	s := startServers(t)
	for name, raise := range s.providers() {
		t.Run(name, func(t *testing.T) {
			sh := raise(t)
			heal := s.toxi.Suffer(t, sh.line, toxic("latency", down, "latency", 20))
			defer heal()
			var before runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			const size = 64 << 20
			src := &sampling{Reader: &tripping{noise(size), size / 2, func() {
				s.toxi.SufferFor(t, 200*time.Millisecond, sh.line, toxic("reset_peer", up, "timeout", 0))
			}}}
			if _, err := sh.across.Create(t.Context(), "big", src); err != nil {
				t.Fatal(err)
			}
			// As much again may be garbage, and clients have buffers of their own.
			if grown := int64(src.peak) - int64(before.HeapAlloc); grown > 2*(parallel+1)*piece+(16<<20) {
				t.Errorf("the heap grew by %d MiB for an object of %d", grown>>20, size>>20)
			}
			wantNoise(t, sh.direct, "big", size)
		})
	}
}

// sampling notes how big the heap becomes while it is read.
type sampling struct {
	io.Reader
	read int
	peak uint64
}

func (s *sampling) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if s.read += n; s.read > 4<<20 {
		s.read = 0
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		s.peak = max(s.peak, now.HeapAlloc)
	}
	return n, err
}
