package web

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics tells how it is to be asked. All servers of a process share them.
type Metrics struct {
	reloads          *prometheus.CounterVec
	unusable, expiry prometheus.Gauge
	open             prometheus.Gauge
	shed             prometheus.Counter
}

// NewMetrics registers the metrics with reg; nil registers nothing.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	f := promauto.With(reg)
	m := &Metrics{
		reloads: f.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_ferry_http_certificate_changes_total", Help: "Changes of the files of the server's certificate: ok are in use, error cannot be used.",
		}, []string{"result"}),
		unusable: f.NewGauge(prometheus.GaugeOpts{
			Name: "etcd_ferry_http_certificate_unusable", Help: "1 while the files of the server's certificate cannot be used and the last good ones stay in use.",
		}),
		expiry: f.NewGauge(prometheus.GaugeOpts{
			Name: "etcd_ferry_http_certificate_expiry_timestamp_seconds", Help: "When the server's certificate that is in use expires; 0 without TLS.",
		}),
		open: f.NewGauge(prometheus.GaugeOpts{
			Name: "etcd_ferry_http_connections", Help: "Connections of callers.",
		}),
		shed: f.NewCounter(prometheus.CounterOpts{
			Name: "etcd_ferry_http_connections_shed_total", Help: "Connections that were closed because there were too many.",
		}),
	}
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("error")
	return m
}

func (m *Metrics) certificate(until time.Time) { m.expiry.Set(float64(until.Unix())) }

func (m *Metrics) reloaded(until time.Time) {
	m.reloads.WithLabelValues("ok").Inc()
	m.certificate(until)
	m.usable()
}

func (m *Metrics) refused() {
	m.reloads.WithLabelValues("error").Inc()
	m.unusable.Set(1)
}

func (m *Metrics) usable() { m.unusable.Set(0) }

func (m *Metrics) came() { m.open.Inc() }

func (m *Metrics) went() { m.open.Dec() }

func (m *Metrics) shedOne() { m.shed.Inc() }
