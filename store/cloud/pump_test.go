package cloud

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"golang.org/x/sync/errgroup"
)

// However big an object is, its parts are enough, and none is too big.
func TestPartsGrow(t *testing.T) {
	const tib = int64(1) << 40
	for name, test := range map[string]struct {
		limits   Limits
		partSize int64
		want     int64 // bytes of the biggest object
	}{
		"S3":           {Limits{MaxPart: 5 << 30, MaxParts: 10_000}, 8 << 20, 5 * tib},
		"S3, smallest": {Limits{MaxPart: 5 << 30, MaxParts: 10_000}, 5 << 20, 4 * tib},
		"Azure":        {Limits{MaxPart: 4000 << 20, MaxParts: 50_000}, 8 << 20, 30 * tib},
		"Azure, small": {Limits{MaxPart: 4000 << 20, MaxParts: 50_000}, 1 << 20, 4 * tib},
	} {
		s := &Store{PartSize: test.partSize, limits: test.limits}
		var total, last int64
		for number := range test.limits.MaxParts {
			size := s.sizeOf(number)
			if size < last || size > test.limits.MaxPart {
				t.Fatalf("%s: part %d has %d bytes after %d", name, number, size, last)
			}
			total, last = total+size, size
		}
		if total < test.want || s.sizeOf(0) != test.partSize {
			t.Errorf("%s: an object of %d bytes fits, want %d", name, total, test.want)
		}
	}
}

// source returns a source whose parts double with each.
func source(r io.Reader) *Source {
	return &Source{r: r, parallel: 3, budget: newBudget(3), size: func(number int) int64 { return 100 << number }}
}

func TestParts(t *testing.T) {
	want := make([]byte, 100+200+400+7)
	_, _ = rand.NewChaCha8([32]byte{}).Read(want)
	s := source(iotest.OneByteReader(bytes.NewReader(want)))
	if whole, err := s.start(t.Context(), 10, 100); whole || err != nil {
		t.Fatal(whole, err)
	}
	var mu sync.Mutex
	parts := make([][]byte, 4)
	total, err := s.Parts(t.Context(), func(number int, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		parts[number] = slices.Clone(data)
		return nil
	})
	if got := slices.Concat(parts...); err != nil || total != int64(len(want)) || !bytes.Equal(got, want) || len(parts[2]) != 400 {
		t.Errorf("%d bytes in parts, %d said, %v", len(got), total, err)
	}
}

// A part that fails is the answer, and so is a source that does.
func TestPartsFail(t *testing.T) {
	broken := errors.New("broken on purpose")
	s := source(rand.NewChaCha8([32]byte{})) // never ends
	if _, err := s.start(t.Context(), 100, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Parts(t.Context(), func(number int, _ []byte) error {
		if number == 2 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	s = source(io.MultiReader(bytes.NewReader(make([]byte, 150)), iotest.ErrReader(broken)))
	if _, err := s.start(t.Context(), 100, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Parts(t.Context(), func(int, []byte) error { return nil }); !errors.As(err, new(sourceError)) || !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
}

// However many creates there are, their parts share one budget, and all of them
// end although it is smaller than what they would take.
func TestPartsShareABudget(t *testing.T) {
	const creates, together = 8, 3
	shared := newBudget(together)
	var held, most atomic.Int64
	var g errgroup.Group
	for range creates {
		g.Go(func() error {
			s := source(bytes.NewReader(make([]byte, 1000)))
			s.budget = shared
			defer s.end()
			if _, err := s.start(t.Context(), 10, 100); err != nil {
				return err
			}
			_, err := s.Parts(t.Context(), func(int, []byte) error {
				most.Store(max(most.Load(), held.Add(1)))
				defer held.Add(-1)
				runtime.Gosched()
				return nil
			})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if most.Load() > together || len(shared.parts)+len(shared.idle) != 0 {
		t.Errorf("%d parts at once, %d left, and memory for %d", most.Load(), len(shared.parts), len(shared.idle))
	}
}

// Who waits for memory stops when its context ends.
func TestBudgetObeysContext(t *testing.T) {
	b := newBudget(1)
	if _, err := b.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := b.take(ctx); !errors.Is(err, gone) {
		t.Errorf("error is %v", err)
	}
}
