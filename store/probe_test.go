package store_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/azure"
	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/store/gcs"
	"github.com/etcd-ferry/etcd-ferry/store/mem"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// steps are the names of a probe's steps.
func steps() []string {
	var names []string
	for _, s := range store.ProbeSteps() {
		names = append(names, s.Name)
	}
	return names
}

// wrapped is s as a program uses it.
func wrapped(s store.Store) store.Store {
	r := store.Retry(store.Metrics(s, "destination", prometheus.NewRegistry()))
	r.Base, r.Max = 1, 1
	return store.Prefix(r, "some/prefix")
}

// must returns what a constructor made.
func must[S store.Store](t *testing.T, s S, err error) store.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestProbeOfEveryStore(t *testing.T) {
	s3On := func(start func(testing.TB) *storeservers.S3) func(*testing.T) store.Store {
		return func(t *testing.T) store.Store {
			server := start(t)
			s, err := s3.New(s3.Config{
				Bucket: server.Bucket(t), Endpoint: server.URL, PathStyle: true,
				CAFile: server.CAFile, CredentialsDir: server.Credentials(t),
			})
			return must(t, s, err)
		}
	}
	for name, open := range map[string]func(t *testing.T) store.Store{
		"mem":       func(*testing.T) store.Store { return mem.New() },
		"file":      func(t *testing.T) store.Store { return file.New(filepath.Join(t.TempDir(), "not", "yet")) },
		"versitygw": s3On(storeservers.StartVersityGW),
		"minio":     s3On(storeservers.StartMinIO),
		"gcs": func(t *testing.T) store.Store {
			server := storeservers.StartGCS(t)
			server.MakeBucket(t, "bucket")
			s, err := gcs.New(gcs.Config{Bucket: "bucket", Endpoint: server.URL})
			return must(t, s, err)
		},
		"azurite": func(t *testing.T) store.Store {
			server := storeservers.StartAzurite(t)
			server.MakeContainer(t, "container")
			s, err := azure.New(azure.Config{Container: "container", Endpoint: server.Endpoint, CredentialsDir: server.Credentials(t)})
			return must(t, s, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := wrapped(open(t))
			report, err := store.Probe(t.Context(), s)
			if err != nil || report.Left != nil || !slices.Equal(report.Passed, steps()) {
				t.Fatalf("the probe found %+v, %v", report, err)
			}
			if infos, err := s.List(t.Context(), ""); err != nil || len(infos) > 0 {
				t.Errorf("it left %v, %v", infos, err)
			}
		})
	}
}

// broken is a store some of whose methods do not keep what the port promises.
type broken struct {
	store.Store
	create func(ctx context.Context, name string, data []byte) (store.Info, error)
	read   func(ctx context.Context, name string) ([]byte, store.Version, error)
	swap   func(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error)
	list   func(ctx context.Context, prefix string) ([]store.Info, error)
	remove func(ctx context.Context, name string) error
	local  error
}

func (b *broken) Local() error { return b.local }

func (b *broken) Create(ctx context.Context, name string, r io.Reader) (store.Info, error) {
	if b.create == nil {
		return b.Store.Create(ctx, name, r)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return store.Info{}, err
	}
	return b.create(ctx, name, data)
}

func (b *broken) Read(ctx context.Context, name string) ([]byte, store.Version, error) {
	if b.read == nil {
		return b.Store.Read(ctx, name)
	}
	return b.read(ctx, name)
}

func (b *broken) Swap(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
	if b.swap == nil {
		return b.Store.Swap(ctx, name, old, data)
	}
	return b.swap(ctx, name, old, data)
}

func (b *broken) List(ctx context.Context, prefix string) ([]store.Info, error) {
	if b.list == nil {
		return b.Store.List(ctx, prefix)
	}
	return b.list(ctx, prefix)
}

func (b *broken) Remove(ctx context.Context, name string) error {
	if b.remove == nil {
		return b.Store.Remove(ctx, name)
	}
	return b.remove(ctx, name)
}

// overwrite puts data there, whatever there is.
func overwrite(ctx context.Context, s store.Store, name string, data []byte) (store.Version, error) {
	_, version, err := s.Read(ctx, name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return s.Swap(ctx, name, version, data)
}

var errDenied = errors.Join(errors.New("an object is retained"), fs.ErrPermission)

func TestProbeOfUnfitStores(t *testing.T) {
	for name, test := range map[string]struct {
		step, advice string
		spoil        func(b *broken)
	}{
		"network filesystem": {"place", "NFS", func(b *broken) { b.local = errors.New("on NFS") }},
		"ignores create if absent": {"create again", "If-None-Match", func(b *broken) {
			b.create = func(ctx context.Context, name string, data []byte) (store.Info, error) {
				version, err := overwrite(ctx, b.Store, name, data)
				return store.Info{Name: name, Version: version}, err
			}
		}},
		"takes every name for taken": {"create", "If-None-Match", func(b *broken) {
			b.create = func(context.Context, string, []byte) (store.Info, error) { return store.Info{}, fs.ErrExist }
		}},
		"refuses to create twice as if forbidden": {"create again", "locked", func(b *broken) {
			b.create = func(ctx context.Context, name string, data []byte) (store.Info, error) {
				info, err := b.Store.Create(ctx, name, bytes.NewReader(data))
				if err != nil {
					err = errDenied
				}
				return info, err
			}
		}},
		"drops what it creates": {"read", "cache", func(b *broken) {
			b.create = func(_ context.Context, name string, _ []byte) (store.Info, error) {
				return store.Info{Name: name, Version: "1"}, nil
			}
		}},
		"has everything": {"absence", "cache", func(b *broken) {
			b.read = func(context.Context, string) ([]byte, store.Version, error) { return nil, "1", nil }
		}},
		"ignores the condition of swaps": {"stale swap", "If-Match", func(b *broken) {
			b.swap = func(ctx context.Context, name string, _ store.Version, data []byte) (store.Version, error) {
				return overwrite(ctx, b.Store, name, data)
			}
		}},
		"ignores that there must be nothing": {"first swap", "If-None-Match", func(b *broken) {
			b.swap = func(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
				if old == "" {
					return overwrite(ctx, b.Store, name, data)
				}
				return b.Store.Swap(ctx, name, old, data)
			}
		}},
		"refuses a swap and does it": {"unchanged", "If-Match", func(b *broken) {
			b.swap = func(ctx context.Context, name string, old store.Version, data []byte) (store.Version, error) {
				version, err := b.Store.Swap(ctx, name, old, data)
				if errors.Is(err, store.ErrChanged) {
					_, _ = overwrite(ctx, b.Store, name, data)
				}
				return version, err
			}
		}},
		"knows no version": {"swap", "locked", func(b *broken) {
			b.swap = func(context.Context, string, store.Version, []byte) (store.Version, error) {
				return "", store.ErrChanged
			}
		}},
		"keeps the version": {"swap", "locked", func(b *broken) {
			b.swap = func(_ context.Context, _ string, old store.Version, _ []byte) (store.Version, error) { return old, nil }
		}},
		"serves stale reads": {"read newest", "cache", func(b *broken) {
			cache := map[string]func() ([]byte, store.Version, error){}
			b.read = func(ctx context.Context, name string) ([]byte, store.Version, error) {
				if cache[name] == nil {
					data, version, err := b.Store.Read(ctx, name)
					cache[name] = func() ([]byte, store.Version, error) { return data, version, err }
				}
				return cache[name]()
			}
		}},
		"serves stale versions": {"read newest", "cache", func(b *broken) {
			var first store.Version
			b.read = func(ctx context.Context, name string) ([]byte, store.Version, error) {
				data, version, err := b.Store.Read(ctx, name)
				if first == "" {
					first = version
				}
				return data, first, err
			}
		}},
		"serves stale listings": {"list", "cache", func(b *broken) {
			b.list = func(context.Context, string) ([]store.Info, error) { return nil, nil }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &broken{Store: mem.New()}
			test.spoil(b)
			report, err := store.Probe(t.Context(), wrapped(b))
			p := wantStep(t, report, err, test.step)
			if !p.Unfit || !errors.Is(err, store.ErrUnfit) || !strings.Contains(err.Error(), test.advice) {
				t.Errorf("the probe says %v, want that the store is unfit, and %q", err, test.advice)
			}
			wantNothing(t, b.Store)
		})
	}
}

// wantStep checks that a probe ended at a step, after all those before it.
func wantStep(t *testing.T, report store.ProbeReport, err error, step string) *store.ProbeError {
	t.Helper()
	var p *store.ProbeError
	if !errors.As(err, &p) || p.Step != step || !strings.Contains(err.Error(), p.Store) {
		t.Fatalf("the probe says %v, want that step %q failed", err, step)
	}
	if before := steps()[:slices.Index(steps(), step)]; !slices.Equal(report.Passed, before) {
		t.Errorf("passed are %q, want %q", report.Passed, before)
	}
	return p
}

func wantNothing(t *testing.T, s store.Store) {
	t.Helper()
	if infos, err := s.List(t.Context(), ""); err != nil || len(infos) > 0 {
		t.Errorf("the probe left %v, %v", infos, err)
	}
}

// Providers say fs.ErrPermission when a lock forbids to overwrite or remove.
func TestProbeOfALockedStore(t *testing.T) {
	b := &broken{
		Store: mem.New(),
		swap:  func(context.Context, string, store.Version, []byte) (store.Version, error) { return "", errDenied },
		remove: func(context.Context, string) error {
			return errDenied
		},
	}
	report, err := store.Probe(t.Context(), wrapped(b))
	p := wantStep(t, report, err, "swap")
	if !p.Unfit || !errors.Is(err, fs.ErrPermission) || !strings.Contains(p.Advice, "locked (WORM") {
		t.Errorf("the probe says %v", err)
	}
	if !errors.Is(report.Left, fs.ErrPermission) || report.Object == "" {
		t.Errorf("the report is %+v, want that the object could not be removed", report)
	}
}

// A store that does not answer, or refuses, is not one that ignores conditions.
func TestProbeWithoutAnswers(t *testing.T) {
	ops := map[storetest.Op][]string{ // the steps that call them, in order
		storetest.Create: {"create", "create again"},
		storetest.Read:   {"absence", "read", "read newest", "unchanged"},
		storetest.Swap:   {"swap", "stale swap", "first swap"},
		storetest.List:   {"list"},
	}
	for op, names := range ops {
		for n, step := range names {
			for _, lost := range []bool{false, true} {
				if lost && !slices.Contains([]string{"create", "swap"}, step) {
					continue // there is nothing but a refusal to lose
				}
				script := storetest.Script{op: append(make([]storetest.Fault, n), storetest.Fault{Err: errLine, Lost: lost})}
				m := mem.New()
				report, err := store.Probe(t.Context(), storetest.NewFaulty(m, script.Plan))
				p := wantStep(t, report, err, step)
				if p.Unfit || errors.Is(err, store.ErrUnfit) || !errors.Is(err, errLine) {
					t.Errorf("no answer at step %q: %v", step, err)
				}
				wantNothing(t, m)
			}
		}
	}
}

// One answer lost in each step is what Retry is for.
func TestProbeRetried(t *testing.T) {
	for _, op := range []storetest.Op{storetest.Create, storetest.Read, storetest.Swap, storetest.List, storetest.Remove} {
		for n := range 4 {
			script := storetest.Script{op: append(make([]storetest.Fault, n), storetest.Fault{Err: errLine, Lost: true})}
			m := mem.New()
			if report, err := store.Probe(t.Context(), wrapped(storetest.NewFaulty(m, script.Plan))); err != nil || report.Left != nil {
				t.Errorf("%s %d: %+v, %v", op, n, report, err)
			}
			wantNothing(t, m)
		}
	}
}

func TestProbeOfAStoreThatRefuses(t *testing.T) {
	for _, class := range []error{fs.ErrPermission, store.ErrNoContainer} {
		removals := 0
		b := &broken{
			Store:  mem.New(),
			create: func(context.Context, string, []byte) (store.Info, error) { return store.Info{}, class },
			remove: func(context.Context, string) error { removals++; return nil },
		}
		report, err := store.Probe(t.Context(), wrapped(b))
		p := wantStep(t, report, err, "create")
		if p.Unfit || !errors.Is(err, class) || removals > 0 {
			t.Errorf("%v, %d removals", err, removals)
		}
	}
	// Without the right to list, S3 does not tell that an object is absent.
	b := &broken{Store: mem.New(), read: func(context.Context, string) ([]byte, store.Version, error) { return nil, "", fs.ErrPermission }}
	report, err := store.Probe(t.Context(), wrapped(b))
	if p := wantStep(t, report, err, "absence"); p.Unfit {
		t.Error(err)
	}
}

// A probe that is interrupted takes its object with it.
func TestProbeInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := mem.New()
		var once sync.Once
		s := storetest.NewFaulty(m, func(c storetest.Call) storetest.Fault {
			if c.Op == storetest.Swap {
				once.Do(cancel)
			}
			return storetest.Fault{}
		})
		report, err := store.Probe(ctx, s)
		if p := wantStep(t, report, err, "swap"); p.Unfit || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		wantNothing(t, m)
	})
}
