package bootstrap

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics tells what became of data dirs.
type Metrics struct {
	deeds   map[Deed]prometheus.Counter
	lossy   prometheus.Counter
	refused prometheus.Gauge
}

// NewMetrics registers the metrics with reg; nil registers nothing.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	deeds := f.NewCounterVec(prometheus.CounterOpts{
		Name: "etcd_ferry_bootstraps_total",
		Help: "Times that etcd was let in, by what was done to its data dir before.",
	}, []string{"deed"})
	m := &Metrics{deeds: map[Deed]prometheus.Counter{}}
	for _, d := range []Deed{Begin, Keep, Restore} {
		m.deeds[d] = deeds.WithLabelValues(string(d))
	}
	m.lossy = f.NewCounter(prometheus.CounterOpts{
		Name: "etcd_ferry_bootstrap_lossy_restores_total",
		Help: "Restores before etcd was let in that may lack acknowledged writes; the revision was bumped.",
	})
	m.refused = f.NewGauge(prometheus.GaugeOpts{
		Name: "etcd_ferry_bootstrap_refused",
		Help: "1 while etcd is not let in because it cannot be told what belongs into its data dir.",
	})
	return m
}

func (m *Metrics) refuse() { m.refused.Set(1) }

func (m *Metrics) done(d decision) {
	m.refused.Set(0)
	m.deeds[d.deed].Inc()
	if d.deed == Restore && d.bump {
		m.lossy.Inc()
	}
}
