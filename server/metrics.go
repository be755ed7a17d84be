package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// MetricsHandler answers /metrics with what was registered.
func MetricsHandler(g prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(g, promhttp.HandlerOpts{})
}

// ElectionMetrics tells who is the owner, and how safe that is.
type ElectionMetrics struct {
	roles                    map[Role]prometheus.Gauge
	remaining, overran       prometheus.Gauge
	generation, epoch        prometheus.Gauge
	reads, fences            *prometheus.CounterVec
	finalFailures, lateFiled prometheus.Counter
}

// NewElectionMetrics registers the metrics with reg; nil registers nothing.
func NewElectionMetrics(reg prometheus.Registerer) *ElectionMetrics {
	f := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "etcd_ferry_" + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return f.NewCounter(prometheus.CounterOpts{Name: "etcd_ferry_" + name, Help: help})
	}
	byResult := func(name, help string) *prometheus.CounterVec {
		v := f.NewCounterVec(prometheus.CounterOpts{Name: "etcd_ferry_" + name, Help: help}, []string{"result"})
		v.WithLabelValues("ok")
		v.WithLabelValues("error")
		return v
	}
	m := &ElectionMetrics{
		roles:         map[Role]prometheus.Gauge{},
		remaining:     gauge("lease_remaining_seconds", "Time until the lease is over, 0 if it is."),
		overran:       gauge("lease_overrun_seconds", "How late the end of the last lease that ended was noticed."),
		generation:    gauge("handover_generation", "Newest hand-over of the container that was seen."),
		epoch:         gauge("owner_epoch", "Epoch of what this deployment stores."),
		reads:         byResult("sync_object_reads_total", "Reads of the sync object by result."),
		fences:        byResult("fences_total", "Attempts to stop etcd, or to make its cluster refuse writes, by result."),
		finalFailures: counter("final_snapshot_failures_total", "Final snapshots of hand-overs that failed; each is tried again."),
		lateFiled:     counter("late_finals_total", "Hand-overs that went on without the newest writes, which were filed under late."),
	}
	roles := f.NewGaugeVec(prometheus.GaugeOpts{Name: "etcd_ferry_role", Help: "1 for the role of this deployment."}, []string{"role"})
	for _, r := range Roles() {
		m.roles[r] = roles.WithLabelValues(string(r))
	}
	return m
}

func (m *ElectionMetrics) role(role Role) {
	for r, g := range m.roles {
		g.Set(0)
		if r == role {
			g.Set(1)
		}
	}
}

func (m *ElectionMetrics) lease(remaining time.Duration) {
	m.remaining.Set(max(0, remaining).Seconds())
}

func (m *ElectionMetrics) overrun(d time.Duration) { m.overran.Set(max(0, d).Seconds()) }

func (m *ElectionMetrics) object(o syncobject.Object) { m.generation.Set(float64(o.Generation)) }

func (m *ElectionMetrics) held(h syncobject.Holder) { m.epoch.Set(float64(h.Epoch)) }

func (m *ElectionMetrics) read(err error) { m.reads.WithLabelValues(result(err)).Inc() }

func (m *ElectionMetrics) fence(err error) { m.fences.WithLabelValues(result(err)).Inc() }

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
