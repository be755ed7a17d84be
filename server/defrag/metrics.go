package defrag

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics tells what was defragmented.
type Metrics struct {
	ok, failed prometheus.Counter
	freed      prometheus.Counter
	last       prometheus.Gauge
}

// NewMetrics registers the metrics with reg; nil registers nothing.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	total := f.NewCounterVec(prometheus.CounterOpts{
		Name: "etcd_ferry_defragmentations_total", Help: "Members of etcd that this process has defragmented, by result.",
	}, []string{"result"})
	return &Metrics{
		ok:     total.WithLabelValues("ok"),
		failed: total.WithLabelValues("error"),
		freed: f.NewCounter(prometheus.CounterOpts{
			Name: "etcd_ferry_defragmentation_freed_bytes_total", Help: "Bytes of disk that this has freed.",
		}),
		last: f.NewGauge(prometheus.GaugeOpts{
			Name: "etcd_ferry_defragmentation_last_timestamp_seconds", Help: "When a member was last defragmented; 0: not yet.",
		}),
	}
}

func (m *Metrics) observe(d Done, err error) {
	if err != nil {
		m.failed.Inc()
		return
	}
	m.ok.Inc()
	m.freed.Add(float64(max(0, d.Before-d.After)))
	m.last.SetToCurrentTime()
}
