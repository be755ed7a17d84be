package etcd

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics tells how much room the member beside this process has.
type Metrics struct {
	size, inUse, quota prometheus.Gauge
	noSpace, corrupt   prometheus.Gauge
}

// NewMetrics registers the metrics with reg; nil registers nothing.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: "etcd_ferry_etcd_" + name, Help: help})
	}
	alarms := f.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcd_ferry_etcd_alarm", Help: "1 while an alarm of the cluster is raised. The fence of a hand-over is none.",
	}, []string{"type"})
	return &Metrics{
		size:    gauge("database_bytes", "Size of the member's database when it was last asked."),
		inUse:   gauge("database_in_use_bytes", "How much of that is in use; a defragmentation frees the rest."),
		quota:   gauge("quota_bytes", "Size of the database at which etcd refuses writes; 0: it does not tell, before etcd 3.6."),
		noSpace: alarms.WithLabelValues("nospace"),
		corrupt: alarms.WithLabelValues("corrupt"),
	}
}

func (m *Metrics) see(s Space) {
	if m == nil {
		return
	}
	m.size.Set(float64(s.DBSize))
	m.inUse.Set(float64(s.InUse))
	m.quota.Set(float64(s.Quota))
	m.noSpace.Set(truth(s.Alarms.NoSpace))
	m.corrupt.Set(truth(s.Alarms.Corrupt))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
