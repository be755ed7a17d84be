package server

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/etcd-ferry/etcd-ferry/restorer"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
)

// metricsAtOnce is how many may ask for /metrics at a time; more are answered 503.
const metricsAtOnce = 8

// MetricsHandler answers /metrics with what was registered.
func MetricsHandler(g prometheus.Gatherer) http.Handler {
	return exposition{promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: metricsAtOnce}), g}
}

type exposition struct {
	http.Handler
	gatherer prometheus.Gatherer
}

// values are gauges and counters, as they are written: name or name{label="value"}.
// Those of more than one label are not among them.
type values map[string]float64

func (v values) whole(name string) int64 { return int64(v[name]) }

// valuesOf is what a handler of MetricsHandler would answer now; of another one
// nothing.
func valuesOf(h http.Handler) values {
	e, ok := h.(exposition)
	if !ok {
		return nil
	}
	families, err := e.gatherer.Gather()
	if err != nil {
		return nil // /metrics says what is wrong
	}
	v := values{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			switch labels := m.GetLabel(); len(labels) {
			case 0:
			case 1:
				name += "{" + labels[0].GetName() + `="` + labels[0].GetValue() + `"}`
			default:
				continue
			}
			v[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() // it is one of them
		}
	}
	return v
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

// VerifyMetrics tells what the verifications of a VerifyMode found.
type VerifyMetrics struct {
	total              *prometheus.CounterVec
	last               *prometheus.GaugeVec
	revision, at, took prometheus.Gauge
}

// The results of a verification: all is well, something stored is damaged or missing,
// or one could not look.
const (
	verdictOK      = "ok"
	verdictInvalid = "invalid"
	verdictError   = "error"
)

func verdicts() []string { return []string{verdictOK, verdictInvalid, verdictError} }

// NewVerifyMetrics registers the metrics with reg; nil registers nothing.
func NewVerifyMetrics(reg prometheus.Registerer) *VerifyMetrics {
	f := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "etcd_ferry_" + name, Help: help})
	}
	m := &VerifyMetrics{
		total: f.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_ferry_verifications_total", Help: "Verifications of what is stored, by result.",
		}, []string{"result"}),
		last: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcd_ferry_verification_result", Help: "1 for the result of the last verification.",
		}, []string{"result"}),
		revision: gauge("verified_revision", "Revision that the last verification without a finding could restore."),
		at:       gauge("verified_timestamp_seconds", "When the last verification without a finding ended; 0: there was none yet."),
		took:     gauge("verification_duration_seconds", "Time that the last verification took."),
	}
	for _, v := range verdicts() {
		m.total.WithLabelValues(v)
		m.last.WithLabelValues(v)
	}
	return m
}

func (m *VerifyMetrics) observe(r restorer.Report, err error, took time.Duration) {
	now := verdict(r, err)
	m.total.WithLabelValues(now).Inc()
	for _, v := range verdicts() {
		m.last.WithLabelValues(v).Set(truth(v == now))
	}
	m.took.Set(took.Seconds())
	if now == verdictOK {
		m.revision.Set(float64(reached(r)))
		m.at.SetToCurrentTime()
	}
}

func verdict(r restorer.Report, err error) string {
	switch {
	case err != nil:
		return verdictError
	case len(r.Findings) > 0:
		return verdictInvalid
	}
	return verdictOK
}

// reached is the newest revision that could be restored.
func reached(r restorer.Report) (revision int64) {
	if r.Trial != nil {
		return r.Trial.Result.Revision
	}
	for _, w := range r.Windows {
		revision = max(revision, w.Last)
	}
	return revision
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
