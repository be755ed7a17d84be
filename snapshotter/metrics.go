package snapshotter

import (
	"sync/atomic"
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
	running                        prometheus.Gauge
	lagRevisions, lagSeconds       prometheus.Gauge
	required                       *prometheus.GaugeVec
	pruned                         prometheus.Counter

	on atomic.Bool // Run runs
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
		running:          gauge("backup_running", "1 while this process backs etcd up; of several members' it is the leader's that does."),
		lagRevisions:     gauge("lag_revisions", "Revisions that etcd had when it was last asked and that nobody could restore; 0 while this process does not back up."),
		lagSeconds:       gauge("lag_seconds", "Time since the archive was last found or brought up to date with etcd; 0 while this process does not back up."),
		required:         byKind("snapshot_required", "1 from when a snapshot is due until it is stored; 0 while this process does not back up."),
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
		m.required.WithLabelValues(k)
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
	m.newest(*taken)
}

// newest tells of a snapshot that is the newest stored one of its kind.
func (m *Metrics) newest(s snapshot.Manifest) {
	k := string(s.Kind)
	m.lastRevision.WithLabelValues(k).Set(float64(s.Last))
	m.lastTime.WithLabelValues(k).Set(float64(s.Time.Unix()))
}

func (m *Metrics) etcdAt(revision int64) { m.etcdRevision.Set(float64(revision)) }

// behind tells how many revisions nobody could restore. Nothing is due from
// somebody who does not back up.
func (m *Metrics) behind(revisions int64) {
	if !m.on.Load() {
		return
	}
	m.lagRevisions.Set(float64(revisions))
	m.due(snapshot.Delta, revisions > 0)
}

func (m *Metrics) due(kind snapshot.Kind, is bool) {
	m.required.WithLabelValues(string(kind)).Set(truth(is))
}

// begun and ended tell that Run runs.
func (m *Metrics) begun() {
	m.on.Store(true)
	m.running.Set(1)
}

func (m *Metrics) ended() {
	m.on.Store(false)
	for _, g := range []prometheus.Gauge{m.running, m.stalled, m.lagRevisions, m.lagSeconds, m.waitingRevisions, m.waitingBytes} {
		g.Set(0)
	}
	m.due(snapshot.Full, false)
	m.due(snapshot.Delta, false)
}

// quiet tells for how long the archive has not been up to date.
func (m *Metrics) quiet(d time.Duration, stalled bool) {
	m.lagSeconds.Set(d.Seconds())
	m.stalled.Set(truth(stalled))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *Metrics) waiting(revisions int64, bytes int) {
	m.waitingRevisions.Set(float64(revisions))
	m.waitingBytes.Set(float64(bytes))
}
