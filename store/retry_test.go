package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
)

var errLine = errors.New("line broken on purpose")

var (
	fail = storetest.Fault{Err: errLine}
	lose = storetest.Fault{Err: errLine, Lost: true}
	pass = storetest.Fault{}
)

// virtually runs test in virtual time, with a retried store of four attempts
// whose faults follow script, and what is below it.
func virtually(t *testing.T, script storetest.Script, test func(t *testing.T, r *store.Retrier, f *storetest.Faulty, m store.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mem.New()
		f := storetest.NewFaulty(m, script.Plan)
		r := store.Retry(f)
		r.Attempts, r.Base, r.Max = 4, time.Second, 3*time.Second
		r.Rand = func() float64 { return 1 }
		test(t, r, f, m)
	})
}

func mustCreate(t *testing.T, s store.Store, name, content string) {
	t.Helper()
	if _, err := s.Create(t.Context(), name, strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
}

func wantObject(t *testing.T, s store.Store, name, want string) {
	t.Helper()
	if data, _, err := s.Read(t.Context(), name); err != nil || string(data) != want {
		t.Errorf("%s holds %q, %v, want %q", name, data, err, want)
	}
}

func TestRetrySimpleCalls(t *testing.T) {
	calls := map[storetest.Op]func(ctx context.Context, s store.Store) error{
		storetest.List: func(ctx context.Context, s store.Store) error {
			infos, err := s.List(ctx, "")
			if err == nil && len(infos) != 1 {
				return errors.New("nothing is listed")
			}
			return err
		},
		storetest.Open: func(ctx context.Context, s store.Store) error {
			body, _, err := s.Open(ctx, "a")
			if err != nil {
				return err
			}
			return body.Close()
		},
		storetest.Read:   func(ctx context.Context, s store.Store) error { _, _, err := s.Read(ctx, "a"); return err },
		storetest.Remove: func(ctx context.Context, s store.Store) error { return s.Remove(ctx, "a") },
		storetest.Create: func(ctx context.Context, s store.Store) error {
			_, err := s.Create(ctx, "b", strings.NewReader("x"))
			return err
		},
		storetest.Swap: func(ctx context.Context, s store.Store) error { _, err := s.Swap(ctx, "c", "", nil); return err },
	}
	denied := storetest.Fault{Err: fs.ErrPermission}
	timeout := storetest.Fault{Err: context.DeadlineExceeded} // somebody else's
	tests := []struct {
		name   string
		faults []storetest.Fault
		err    error
		calls  int
		took   time.Duration
	}{
		{"at once", nil, nil, 1, 0},
		{"after two failures", []storetest.Fault{fail, timeout}, nil, 3, 3 * time.Second},
		{"at the last attempt", []storetest.Fault{fail, fail, fail}, nil, 4, 6 * time.Second},
		{"never", []storetest.Fault{fail, fail, fail, fail}, errLine, 4, 6 * time.Second},
		{"refused", []storetest.Fault{fail, denied}, fs.ErrPermission, 2, time.Second},
	}
	for op, call := range calls {
		for _, test := range tests {
			t.Run(string(op)+" "+test.name, func(t *testing.T) {
				virtually(t, storetest.Script{op: test.faults}, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, m store.Store) {
					mustCreate(t, m, "a", "x")
					start := time.Now()
					if err := call(t.Context(), r); !errors.Is(err, test.err) {
						t.Errorf("error is %v, want %v", err, test.err)
					}
					if got, took := f.Calls(op), time.Since(start); got != test.calls || took != test.took {
						t.Errorf("%d calls in %s, want %d in %s", got, took, test.calls, test.took)
					}
				})
			})
		}
	}
}

func TestRetryStopsWithItsContext(t *testing.T) {
	virtually(t, storetest.Script{storetest.Remove: {fail, fail}}, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, _ store.Store) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := r.Remove(ctx, "a")
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errLine) {
			t.Errorf("error is %v, want the context's and the store's", err)
		}
		if took := time.Since(start); f.Calls(storetest.Remove) != 2 || took != 1500*time.Millisecond {
			t.Errorf("%d calls in %s", f.Calls(storetest.Remove), took)
		}
	})
}

func TestRetryNotAfterItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	script := storetest.Script{storetest.Remove: {{Err: errLine, Then: cancel}}}
	virtually(t, script, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, _ store.Store) {
		r.Rand = func() float64 { return 0 }
		err := r.Remove(ctx, "a")
		if !errors.Is(err, errLine) || !errors.Is(err, context.Canceled) || f.Calls(storetest.Remove) != 1 {
			t.Errorf("%d calls, error is %v", f.Calls(storetest.Remove), err)
		}
	})
}

func TestRetryJitter(t *testing.T) {
	virtually(t, storetest.Script{storetest.Remove: {fail, fail, fail}}, func(t *testing.T, r *store.Retrier, _ *storetest.Faulty, _ store.Store) {
		shares := []float64{0.5, 0, 0.25}
		r.Rand = func() float64 {
			share := shares[0]
			shares = shares[1:]
			return share
		}
		start := time.Now()
		if err := r.Remove(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		// Of bounds of 1 s, 2 s and 3 s.
		if took := time.Since(start); took != 1250*time.Millisecond {
			t.Errorf("paused for %s", took)
		}
	})
}

func TestRetryReadsOn(t *testing.T) {
	content := strings.Repeat("0123456789", 1000)
	cutAt := func(n int64) storetest.Fault { return storetest.Fault{Cut: n, Err: errLine} }
	tests := []struct {
		name  string
		opens []storetest.Fault
		err   error
		calls int
	}{
		{"whole", nil, nil, 1},
		{"broken twice", []storetest.Fault{cutAt(10), cutAt(5000)}, nil, 3},
		{"broken at the end", []storetest.Fault{cutAt(10000)}, nil, 2},
		{"not opened for a while", []storetest.Fault{cutAt(10), fail, fail}, nil, 4},
		{"not opened any more", []storetest.Fault{cutAt(10), fail, fail, fail}, errLine, 4},
		{"broken before the place", []storetest.Fault{cutAt(5000), cutAt(10), cutAt(4999)}, nil, 4},
		{"always broken at one byte", []storetest.Fault{cutAt(10), cutAt(10), cutAt(10), cutAt(10)}, errLine, 4},
		{"broken often, with progress", []storetest.Fault{cutAt(1), cutAt(2), cutAt(3), cutAt(4), cutAt(5), cutAt(6)}, nil, 7},
		{"removed", []storetest.Fault{cutAt(10), {Err: fs.ErrNotExist}}, fs.ErrNotExist, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			virtually(t, storetest.Script{storetest.Open: test.opens}, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, m store.Store) {
				mustCreate(t, m, "a", content)
				body, _, err := r.Open(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(body)
				if !errors.Is(err, test.err) || err == nil && string(got) != content || !strings.HasPrefix(content, string(got)) {
					t.Errorf("read %d bytes, %v, want %v", len(got), err, test.err)
				}
				if err := body.Close(); err != nil {
					t.Error(err)
				}
				if _, again := body.Read(make([]byte, 1)); test.err != nil && !errors.Is(again, test.err) {
					t.Errorf("reading on gives %v", again)
				}
				if calls := f.Calls(storetest.Open); calls != test.calls {
					t.Errorf("opened %d times, want %d", calls, test.calls)
				}
			})
		})
	}
}

func TestRetryDoesNotMixVersions(t *testing.T) {
	virtually(t, storetest.Script{storetest.Open: {{Cut: 3}}}, func(t *testing.T, r *store.Retrier, _ *storetest.Faulty, m store.Store) {
		v, err := m.Swap(t.Context(), "a", "", []byte("aaaaaa"))
		if err != nil {
			t.Fatal(err)
		}
		body, _, err := r.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Swap(t.Context(), "a", v, []byte("bbbbbb")); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(body); !errors.Is(err, store.ErrChanged) || string(got) != "aaa" {
			t.Errorf("read %q, %v, want ErrChanged after the first bytes", got, err)
		}
	})
}

func TestRetryCreate(t *testing.T) {
	halfSent := storetest.Fault{Err: errLine, Cut: 3}
	tests := []struct {
		name  string
		there string // content of the object at the start; "" for none
		fault []storetest.Fault
		opens []storetest.Fault
		err   error
		calls int
	}{
		{"the source is rewound", "", []storetest.Fault{halfSent, halfSent}, nil, nil, 3},
		{"the answer is lost", "", []storetest.Fault{lose}, nil, nil, 2},
		{"the answer is lost, and so is the look", "", []storetest.Fault{lose}, []storetest.Fault{fail, {Cut: 2}}, nil, 2},
		{"taken from the start", "mine and unique", nil, nil, fs.ErrExist, 1},
		{"taken meanwhile", "other and equal", []storetest.Fault{fail}, nil, fs.ErrExist, 2},
		{"taken meanwhile by something shorter", "mine", []storetest.Fault{fail}, nil, fs.ErrExist, 2},
		{"taken meanwhile by something longer", "mine and unique!", []storetest.Fault{fail}, nil, fs.ErrExist, 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			script := storetest.Script{storetest.Create: test.fault, storetest.Open: test.opens}
			virtually(t, script, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, m store.Store) {
				want := "mine and unique"
				if test.there != "" {
					mustCreate(t, m, "a", test.there)
					want = test.there
				}
				src := strings.NewReader("skipped: mine and unique")
				if _, err := src.Seek(9, io.SeekStart); err != nil {
					t.Fatal(err)
				}
				info, err := r.Create(t.Context(), "a", src)
				if !errors.Is(err, test.err) || err == nil && (info.Size != 15 || info.Version == "") {
					t.Errorf("answer is %+v, %v, want %v", info, err, test.err)
				}
				wantObject(t, m, "a", want)
				if calls := f.Calls(storetest.Create); calls != test.calls {
					t.Errorf("tried %d times, want %d", calls, test.calls)
				}
			})
		})
	}
}

func TestRetryCreateOnlyWhatCanBeRewound(t *testing.T) {
	virtually(t, storetest.Script{storetest.Create: {fail}}, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, _ store.Store) {
		_, err := r.Create(t.Context(), "a", io.LimitReader(strings.NewReader("mine"), 4))
		if !errors.Is(err, errLine) || f.Calls(storetest.Create) != 1 {
			t.Errorf("%d calls, error is %v", f.Calls(storetest.Create), err)
		}
	})
}

// brokenSeeker is a source that can be rewound and fails each time.
type brokenSeeker struct {
	io.Reader
	io.Seeker
}

func TestRetryCreateNotWithABrokenSource(t *testing.T) {
	virtually(t, nil, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, _ store.Store) {
		errSource := errors.New("source failed on purpose")
		_, err := r.Create(t.Context(), "a", brokenSeeker{iotest.ErrReader(errSource), bytes.NewReader(nil)})
		if !errors.Is(err, errSource) || f.Calls(storetest.Create) != 1 {
			t.Errorf("%d calls, error is %v", f.Calls(storetest.Create), err)
		}
	})
}

func TestRetrySwap(t *testing.T) {
	denied := storetest.Fault{Err: fs.ErrPermission}
	tests := []struct {
		name   string
		swaps  []storetest.Fault
		reads  []storetest.Fault
		others bool // somebody swaps after the first attempt
		err    error
		calls  int
		want   string
	}{
		{"it did not happen", []storetest.Fault{fail, fail}, nil, false, nil, 3, "mine"},
		{"the answer is lost", []storetest.Fault{lose}, nil, false, nil, 1, "mine"},
		{"the answer is lost, and so is the look", []storetest.Fault{lose}, []storetest.Fault{fail, fail}, false, nil, 1, "mine"},
		{"another was faster", []storetest.Fault{fail}, nil, true, store.ErrChanged, 1, "other"},
		{"won and lost to another", []storetest.Fault{lose}, nil, true, store.ErrChanged, 1, "other"},
		{"one may not look", []storetest.Fault{lose}, []storetest.Fault{denied}, false, fs.ErrPermission, 1, "mine"},
		{"refused", []storetest.Fault{denied}, nil, false, fs.ErrPermission, 1, "old"},
		{"one never learns", []storetest.Fault{lose}, []storetest.Fault{fail, fail, fail}, false, errLine, 1, "mine"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			script := storetest.Script{storetest.Swap: test.swaps, storetest.Read: test.reads}
			virtually(t, script, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, m store.Store) {
				old := mustSwap(t, m, "")
				if test.others {
					test.swaps[0].Then = func() { mustSwapNow(t, m, "other") }
				}
				v, err := r.Swap(t.Context(), "a", old, []byte("mine"))
				if !errors.Is(err, test.err) {
					t.Errorf("error is %v, want %v", err, test.err)
				}
				if _, now, _ := m.Read(t.Context(), "a"); err == nil && v != now {
					t.Errorf("version is %q, want %q", v, now)
				}
				wantObject(t, m, "a", test.want)
				if calls := f.Calls(storetest.Swap); calls != test.calls {
					t.Errorf("tried %d times, want %d", calls, test.calls)
				}
			})
		})
	}
}

func mustSwap(t *testing.T, s store.Store, old store.Version) store.Version {
	t.Helper()
	v, err := s.Swap(t.Context(), "a", old, []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustSwapNow(t *testing.T, s store.Store, data string) {
	t.Helper()
	_, v, err := s.Read(t.Context(), "a")
	if err == nil {
		_, err = s.Swap(t.Context(), "a", v, []byte(data))
	}
	if err != nil {
		t.Error(err)
	}
}

func TestRetryFirstSwap(t *testing.T) {
	for name, faults := range map[string][]storetest.Fault{"did not happen": {fail}, "answer lost": {lose}} {
		t.Run(name, func(t *testing.T) {
			virtually(t, storetest.Script{storetest.Swap: faults}, func(t *testing.T, r *store.Retrier, _ *storetest.Faulty, m store.Store) {
				if _, err := r.Swap(t.Context(), "a", "", []byte("mine")); err != nil {
					t.Error(err)
				}
				wantObject(t, m, "a", "mine")
			})
		})
	}
	t.Run("removed meanwhile", func(t *testing.T) {
		script := storetest.Script{storetest.Swap: {fail}}
		virtually(t, script, func(t *testing.T, r *store.Retrier, _ *storetest.Faulty, m store.Store) {
			old := mustSwap(t, m, "")
			script[storetest.Swap][0].Then = func() { m.Remove(t.Context(), "a") }
			if _, err := r.Swap(t.Context(), "a", old, []byte("mine")); !errors.Is(err, store.ErrChanged) {
				t.Errorf("error is %v, want ErrChanged", err)
			}
		})
	})
}

// A write that takes effect after its answer was lost, the look came too early,
// and the second attempt found the object changed: by the first.
func TestRetryLateWrites(t *testing.T) {
	t.Run("swap", func(t *testing.T) {
		script := storetest.Script{storetest.Swap: {fail}, storetest.Read: {pass}}
		virtually(t, script, func(t *testing.T, r *store.Retrier, f *storetest.Faulty, m store.Store) {
			old := mustSwap(t, m, "")
			script[storetest.Read][0].Then = func() { mustSwapNow(t, m, "mine") }
			if _, err := r.Swap(t.Context(), "a", old, []byte("mine")); err != nil {
				t.Error(err)
			}
			if calls := f.Calls(storetest.Swap); calls != 2 {
				t.Errorf("tried %d times, want 2", calls)
			}
		})
	})
	t.Run("create", func(t *testing.T) {
		script := storetest.Script{storetest.Create: {fail, fail}}
		virtually(t, script, func(t *testing.T, r *store.Retrier, _ *storetest.Faulty, m store.Store) {
			script[storetest.Create][1].Then = func() { mustCreate(t, m, "a", "mine") }
			if _, err := r.Create(t.Context(), "a", strings.NewReader("mine")); err != nil {
				t.Error(err)
			}
		})
	})
}

// ranged is a store that can read on, unlike the one below.
type ranged struct{ store.Store }

func (r ranged) OpenAt(ctx context.Context, name string, offset int64, version store.Version) (io.ReadCloser, error) {
	body, info, err := r.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	if info.Version != version {
		return nil, store.ErrChanged
	}
	_, err = io.CopyN(io.Discard, body, offset)
	return body, err
}

// Where the store below can do it, content that breaks off is read on from there.
func TestRetryReadsOnFromThere(t *testing.T) {
	const content = "0123456789"
	tests := map[string]struct {
		opens, opensAt []storetest.Fault
		replaced       bool
		want           error
		wantOpensAt    int
	}{
		"twice":                  {[]storetest.Fault{{Cut: 3}}, []storetest.Fault{{Cut: 4}}, false, nil, 2},
		"at last":                {[]storetest.Fault{{Cut: 3}}, []storetest.Fault{fail, fail}, false, nil, 3},
		"never":                  {[]storetest.Fault{{Cut: 3}}, []storetest.Fault{fail, fail, fail}, false, errLine, 3},
		"replaced":               {[]storetest.Fault{{Cut: 3}}, nil, true, store.ErrChanged, 1},
		"unable after all":       {[]storetest.Fault{{Cut: 3}}, []storetest.Fault{{Err: errors.ErrUnsupported}}, false, nil, 1},
		"broken behind the last": {[]storetest.Fault{{Cut: int64(len(content))}}, nil, false, nil, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mem.New()
				f := storetest.NewFaulty(ranged{m}, storetest.Script{storetest.Open: test.opens, storetest.OpenAt: test.opensAt}.Plan)
				reg := prometheus.NewRegistry()
				r := store.Retry(store.Metrics(store.Prefix(f, "p"), "source", reg))
				r.Attempts = 4
				mustCreate(t, r, "a", content)
				body, _, err := r.Open(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				defer body.Close()
				if test.replaced {
					mustSwapNow(t, r, "something else")
				}
				got, err := io.ReadAll(body)
				if !errors.Is(err, test.want) || err == nil && string(got) != content {
					t.Errorf("read %q, %v, want %v", got, err, test.want)
				}
				if calls := f.Calls(storetest.OpenAt); calls != test.wantOpensAt {
					t.Errorf("it read on %d times, want %d", calls, test.wantOpensAt)
				}
				if in := series(t, reg)["bytes_total in source"]; err == nil && !test.replaced && in < float64(len(content)) {
					t.Errorf("%v bytes are counted", in)
				}
			})
		})
	}
}

// A pause that the store asks for is kept, within reason.
func TestRetryLater(t *testing.T) {
	for _, test := range []struct{ asked, want time.Duration }{
		{0, time.Second},
		{-time.Hour, time.Second},
		{time.Millisecond, time.Second},
		{20 * time.Second, 20 * time.Second},
		{time.Hour, store.DefaultMaxAsked},
	} {
		later := storetest.Fault{Err: store.Later(errLine, test.asked)}
		virtually(t, storetest.Script{storetest.List: {later}}, func(t *testing.T, r *store.Retrier, _ *storetest.Faulty, _ store.Store) {
			began := time.Now()
			if _, err := r.List(t.Context(), ""); err != nil {
				t.Error(err)
			}
			if waited := time.Since(began); waited != test.want {
				t.Errorf("asked to wait %v it waited %v, want %v", test.asked, waited, test.want)
			}
		})
	}
	if err := store.Later(errLine, time.Hour); !errors.Is(err, errLine) || err.Error() != errLine.Error() || store.Later(nil, time.Hour) != nil {
		t.Errorf("%v is not what was marked", err)
	}
}
