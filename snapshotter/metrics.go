package snapshotter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
)

// Metrics tells how the backup goes.
type Metrics struct {
	taken                          *prometheus.CounterVec
	seconds                        *prometheus.HistogramVec
	bytes                          *prometheus.CounterVec
	lastRevision, lastTime         *prometheus.GaugeVec
	etcdRevision, waitingRevisions prometheus.Gauge
	waitingBytes, stalled          prometheus.Gauge
	pruned                         prometheus.Counter
}

// NewMetrics registers the metrics with reg; nil registers nothing.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "etcd_ferry_" + name, Help: help})
	}
	byKind := func(name, help string) *prometheus.GaugeVec {
		return f.NewGaugeVec(prometheus.GaugeOpts{Name: "etcd_ferry_" + name, Help: help}, []string{"kind"})
	}
	m := &Metrics{
		taken: f.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_ferry_snapshots_total", Help: "Snapshots by kind and result.",
		}, []string{"kind", "result"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "etcd_ferry_snapshot_duration_seconds", Help: "Time to take and store a snapshot.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
		}, []string{"kind"}),
		bytes: f.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_ferry_snapshot_stored_bytes_total", Help: "Bytes of stored snapshots.",
		}, []string{"kind"}),
		lastRevision:     byKind("snapshot_last_revision", "Revision the newest stored snapshot reaches."),
		lastTime:         byKind("snapshot_last_timestamp_seconds", "When the newest stored snapshot was cut."),
		etcdRevision:     gauge("etcd_revision", "Revision of etcd when it was last asked."),
		waitingRevisions: gauge("waiting_revisions", "Revisions packed in memory and not stored yet."),
		waitingBytes:     gauge("waiting_bytes", "Bytes packed in memory and not stored yet."),
		stalled:          gauge("stalled", "1 if the backup has made no progress for three delta periods."),
		pruned: f.NewCounter(prometheus.CounterOpts{
			Name: "etcd_ferry_snapshots_pruned_total", Help: "Snapshots removed by retention.",
		}),
	}
	for _, kind := range []snapshot.Kind{snapshot.Full, snapshot.Delta} {
		k := string(kind)
		m.taken.WithLabelValues(k, "ok")
		m.taken.WithLabelValues(k, "error")
		m.seconds.WithLabelValues(k)
		m.bytes.WithLabelValues(k)
		m.lastRevision.WithLabelValues(k)
		m.lastTime.WithLabelValues(k)
	}
	return m
}

// observe is deferred by whatever takes a snapshot.
func (m *Metrics) observe(kind snapshot.Kind, began time.Time, taken *snapshot.Manifest, err *error) {
	k := string(kind)
	if *err != nil {
		m.taken.WithLabelValues(k, "error").Inc()
		return
	}
	m.taken.WithLabelValues(k, "ok").Inc()
	m.seconds.WithLabelValues(k).Observe(time.Since(began).Seconds())
	m.bytes.WithLabelValues(k).Add(float64(taken.StoredSize))
	m.lastRevision.WithLabelValues(k).Set(float64(taken.Last))
	m.lastTime.WithLabelValues(k).Set(float64(taken.Time.Unix()))
}

func (m *Metrics) etcdAt(revision int64) { m.etcdRevision.Set(float64(revision)) }

func (m *Metrics) waiting(revisions int64, bytes int) {
	m.waitingRevisions.Set(float64(revisions))
	m.waitingBytes.Set(float64(bytes))
}
