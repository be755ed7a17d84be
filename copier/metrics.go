package copier

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are those of a hand-over.
type Metrics struct {
	stages                         *prometheus.GaugeVec
	lossy, forced, revision, waits prometheus.Gauge
	retries                        prometheus.Counter
}

// NewMetrics registers the metrics of a hand-over with r; nil registers nothing.
func NewMetrics(r prometheus.Registerer) *Metrics {
	f := promauto.With(r)
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "etcd_ferry_copy_" + name, Help: help})
	}
	m := &Metrics{
		stages: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcd_ferry_copy_state", Help: "1 for the state that the hand-over is in at this destination, else 0.",
		}, []string{"state"}),
		lossy:    gauge("lossy", "1 if what is handed over lacks writes that the source may have acknowledged."),
		forced:   gauge("forced", "1 if this destination has decided without the source."),
		revision: gauge("through_revision", "Last revision that is surely handed over; 0 before it is decided."),
		waits:    gauge("wait_remaining_seconds", "Time left until this destination may decide without the source."),
		retries: f.NewCounter(prometheus.CounterOpts{
			Name: "etcd_ferry_copy_retries_total", Help: "Failures after which a step of the hand-over was tried again.",
		}),
	}
	for _, s := range Stages {
		m.stages.WithLabelValues(string(s)).Set(0)
	}
	return m
}

func (m *Metrics) stage(now Stage) {
	for _, s := range Stages {
		m.stages.WithLabelValues(string(s)).Set(truth(s == now))
	}
}

func (m *Metrics) decided(forced, lossy bool, revision int64) {
	m.forced.Set(truth(forced))
	m.lossy.Set(truth(lossy))
	m.revision.Set(float64(revision))
}

func (m *Metrics) waiting(seconds float64) {
	m.waits.Set(seconds)
}

func (m *Metrics) retry() {
	m.retries.Inc()
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
