package storetest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// bigSize is above the part size of every provider that uploads in parts.
const bigSize = 12<<20 + 345

func testCreate(t *testing.T, s store.Store) {
	create(t, s, "a", "alpha")
	create(t, s, "dir/b", "beta")
	wantContent(t, s, "a", "alpha")
	wantContent(t, s, "dir/b", "beta")
	wantNames(t, s, "", "a", "dir/b")
}

func testCreateEmpty(t *testing.T, s store.Store) {
	create(t, s, "empty", "")
	wantContent(t, s, "empty", "")
	wantNames(t, s, "", "empty")
	if data, _, err := s.Read(t.Context(), "empty"); err != nil || len(data) != 0 {
		t.Errorf("read answered %q, %v", data, err)
	}
}

func testCreateBig(t *testing.T, s store.Store) {
	info, err := s.Create(t.Context(), "big", stream(bigSize))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size != bigSize {
		t.Errorf("create answered size %d, want %d", info.Size, bigSize)
	}
	wantStream(t, s, "big", bigSize)
}

func testCreateTaken(t *testing.T, s store.Store) {
	create(t, s, "a", "first")
	for _, content := range []string{"second", "first", ""} {
		_, err := s.Create(t.Context(), "a", strings.NewReader(content))
		wantErr(t, "create", err, fs.ErrExist)
	}
	wantContent(t, s, "a", "first")
}

func testCreateBrokenSource(t *testing.T, s store.Store) {
	// The end of a source is io.EOF, nothing else.
	for _, broken := range []error{errSource, io.ErrUnexpectedEOF, fmt.Errorf("cut: %w", io.EOF), fs.ErrNotExist} {
		for _, size := range []int64{0, 10, 3<<20 + 1} { // the last in several parts of what sends them small
			_, err := s.Create(t.Context(), "a", io.MultiReader(stream(size), iotest.ErrReader(broken)))
			wantErr(t, fmt.Sprintf("create, broken after %d bytes", size), err, broken)
		}
	}
	_, err := s.Create(t.Context(), "a", io.MultiReader(stream(bigSize), iotest.ErrReader(errSource)))
	wantErr(t, "create, broken after many bytes", err, errSource)
	wantNothing(t, s)
	_, _, err = s.Open(t.Context(), "a")
	if err == nil {
		t.Error("the object can be opened")
	}
	create(t, s, "a", "whole")
	wantContent(t, s, "a", "whole")
}

// readFunc is a source made of a function.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func testCreateCancelled(t *testing.T, s store.Store) {
	for _, size := range []int64{10, bigSize} {
		cancelCreate(t, s, size)
	}
	create(t, s, "a", "whole")
}

// cancelCreate ends the context of creates after size bytes of their source: at
// its end, and with a lot to come.
func cancelCreate(t *testing.T, s store.Store, size int64) {
	t.Helper()
	const more = 64 << 20
	for _, rest := range []int64{0, more} {
		ctx, cancel := context.WithCancel(t.Context())
		var returned atomic.Bool
		now := readFunc(func([]byte) (int, error) {
			cancel()
			return 0, io.EOF
		})
		end := readFunc(func([]byte) (int, error) {
			if rest > 0 || returned.Load() {
				t.Error("create goes on reading its source")
			}
			return 0, io.EOF
		})
		_, err := s.Create(ctx, "a", io.MultiReader(stream(size), now, stream(rest), end))
		returned.Store(true)
		wantErr(t, fmt.Sprintf("create, cancelled with %d bytes to come", rest), err, context.Canceled)
		wantNothing(t, s)
	}
}

func testCreateSlow(t *testing.T, s store.Store) {
	create(t, s, "first", "x")
	read, write := io.Pipe()
	defer write.CloseWithError(errSource)
	done := make(chan error, 1)
	go func() {
		_, err := s.Create(t.Context(), "slow", read)
		read.CloseWithError(err) // releases the writer below if the store gave up
		done <- err
	}()
	for range 4 {
		if _, err := io.CopyN(write, stream(bigSize/4), bigSize/4); err != nil {
			t.Fatal(err)
		}
		wantNames(t, s, "", "first")
		_, _, err := s.Open(t.Context(), "slow")
		wantErr(t, "open", err, fs.ErrNotExist)
	}
	write.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantNames(t, s, "", "first", "slow")
}

func testCreateRace(t *testing.T, s store.Store) {
	const writers = 32
	content := func(i int) string { return strings.Repeat(fmt.Sprintf("writer %d\n", i), 1000) }
	errs := together(writers, func(i int) error {
		_, err := s.Create(t.Context(), "dir/one", strings.NewReader(content(i)))
		return err
	})
	wantContent(t, s, "dir/one", content(winner(t, errs, fs.ErrExist)))
	wantNames(t, s, "", "dir/one")
}

// together calls f(0) to f(n-1) at once and returns their errors.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

// winner returns the index of the only nil; all others must be lost.
func winner(t *testing.T, errs []error, lost error) int {
	t.Helper()
	won := -1
	for i, err := range errs {
		if err != nil {
			wantErr(t, fmt.Sprintf("loser %d", i), err, lost)
			continue
		}
		if won >= 0 {
			t.Fatalf("both %d and %d won", won, i)
		}
		won = i
	}
	if won < 0 {
		t.Fatalf("nobody won: %v", errs[0])
	}
	return won
}
