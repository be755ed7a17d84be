package store

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics returns s, counting calls, their durations and bytes on reg. The role
// ("source", "destination") is a label and tells apart several stores on one
// registry; using one twice panics. A call of Open lasts until its content has
// been read or closed, as a Create lasts until its source has been read.
func Metrics(s Store, role string, reg prometheus.Registerer) Store {
	m := &metered{
		store: s,
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_ferry_store_calls_total",
			Help: "Calls to the store, by operation and result. Every attempt counts.",
		}, []string{"op", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "etcd_ferry_store_call_duration_seconds",
			Help:    "Durations of calls to the store, transfers included.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 10), // 5 ms to 22 min
		}, []string{"op"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_ferry_store_bytes_total",
			Help: "Bytes read from the store (in) and sent to it (out).",
		}, []string{"direction"}),
	}
	for _, op := range []string{"list", "open", "create", "remove", "read", "swap", "copy"} {
		m.seconds.WithLabelValues(op)
		for _, result := range []string{"ok", "not_exist", "exist", "changed", "denied", "canceled", "error"} {
			m.calls.WithLabelValues(op, result)
		}
	}
	m.in, m.out = m.bytes.WithLabelValues("in"), m.bytes.WithLabelValues("out")
	ignored := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "etcd_ferry_store_names_ignored_total",
		Help: "Objects that listings have left out because no object of ours is called so.",
	}, func() float64 {
		i, ok := As[Ignorer](s)
		if !ok {
			return 0
		}
		return float64(i.Ignored())
	})
	prometheus.WrapRegistererWith(prometheus.Labels{"role": role}, reg).MustRegister(m.calls, m.seconds, m.bytes, ignored)
	return m
}

type metered struct {
	store   Store
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	bytes   *prometheus.CounterVec
	in, out prometheus.Counter
}

// result classifies err for the label of that name.
func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, fs.ErrNotExist):
		return "not_exist"
	case errors.Is(err, fs.ErrExist):
		return "exist"
	case errors.Is(err, ErrChanged):
		return "changed"
	case errors.Is(err, fs.ErrPermission):
		return "denied"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "error"
}

func (m *metered) observe(op string, start time.Time, err error) {
	m.calls.WithLabelValues(op, result(err)).Inc()
	m.seconds.WithLabelValues(op).Observe(time.Since(start).Seconds())
}

func (m *metered) String() string { return m.store.String() }

func (m *metered) Unwrap() Store { return m.store }

func (m *metered) List(ctx context.Context, prefix string) ([]Info, error) {
	start := time.Now()
	infos, err := m.store.List(ctx, prefix)
	m.observe("list", start, err)
	return infos, err
}

func (m *metered) Open(ctx context.Context, name string) (io.ReadCloser, Info, error) {
	start := time.Now()
	body, info, err := m.store.Open(ctx, name)
	if err != nil {
		m.observe("open", start, err)
		return nil, info, err
	}
	return m.body(body, start), info, nil
}

// OpenAt implements RangeOpener. It counts as an open.
func (m *metered) OpenAt(ctx context.Context, name string, offset int64, version Version) (io.ReadCloser, error) {
	start := time.Now()
	body, err := openAt(ctx, m.store, name, offset, version)
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) { // else nothing was called
			m.observe("open", start, err)
		}
		return nil, err
	}
	return m.body(body, start), nil
}

// body returns the content that an open has led to.
func (m *metered) body(body io.ReadCloser, start time.Time) io.ReadCloser {
	var once sync.Once
	end := func(err error) { once.Do(func() { m.observe("open", start, err) }) }
	return &meteredBody{body, m.in, end}
}

type meteredBody struct {
	io.ReadCloser
	in  prometheus.Counter
	end func(error) // the first call counts
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.in.Add(float64(n))
	if err == io.EOF {
		b.end(nil)
	} else if err != nil {
		b.end(err)
	}
	return n, err
}

func (b *meteredBody) Close() error {
	b.end(nil)
	return b.ReadCloser.Close()
}

func (m *metered) Create(ctx context.Context, name string, r io.Reader) (Info, error) {
	start := time.Now()
	info, err := m.store.Create(ctx, name, tap(r, func(n int, _ error) { m.out.Add(float64(n)) }))
	m.observe("create", start, err)
	return info, err
}

// CopyFrom implements CopierFrom, as far as the store below does. The bytes do
// not pass through here, and do not count.
func (m *metered) CopyFrom(ctx context.Context, name string, src Store, srcName string) (Info, bool, error) {
	start := time.Now()
	info, done, err := Copy(ctx, m.store, name, src, srcName)
	if done || err != nil { // else nothing was done
		m.observe("copy", start, err)
	}
	return info, done, err
}

func (m *metered) Remove(ctx context.Context, name string) error {
	start := time.Now()
	err := m.store.Remove(ctx, name)
	m.observe("remove", start, err)
	return err
}

func (m *metered) Read(ctx context.Context, name string) ([]byte, Version, error) {
	start := time.Now()
	data, version, err := m.store.Read(ctx, name)
	m.observe("read", start, err)
	m.in.Add(float64(len(data)))
	return data, version, err
}

func (m *metered) Swap(ctx context.Context, name string, old Version, data []byte) (Version, error) {
	start := time.Now()
	version, err := m.store.Swap(ctx, name, old, data)
	m.observe("swap", start, err)
	m.out.Add(float64(len(data)))
	return version, err
}
