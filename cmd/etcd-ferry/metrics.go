package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/etcd-ferry/etcd-ferry/copier"
	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/server"
	"github.com/etcd-ferry/etcd-ferry/server/bootstrap"
	"github.com/etcd-ferry/etcd-ferry/server/defrag"
	"github.com/etcd-ferry/etcd-ferry/server/web"
	"github.com/etcd-ferry/etcd-ferry/snapshotter"
	"github.com/etcd-ferry/etcd-ferry/store"
)

// metrics is the registry of this process.
type metrics struct{ registry *prometheus.Registry }

func newMetrics() *metrics {
	m := &metrics{prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promauto.With(m.registry).NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcd_ferry_build_info", Help: "1, with the version of etcd-ferry as label.",
	}, []string{"version"}).WithLabelValues(buildVersion()).Set(1)
	return m
}

// store counts the calls of s. The role, "source" or "destination", must be
// another one for each store.
func (m *metrics) store(role string, s store.Store) store.Store {
	return store.Metrics(s, role, m.registry)
}

func (m *metrics) snapshotter() *snapshotter.Metrics { return snapshotter.NewMetrics(m.registry) }

func (m *metrics) etcd() *etcd.Metrics { return etcd.NewMetrics(m.registry) }

func (m *metrics) defrag() *defrag.Metrics { return defrag.NewMetrics(m.registry) }

func (m *metrics) election() *server.ElectionMetrics { return server.NewElectionMetrics(m.registry) }

func (m *metrics) bootstrap() *bootstrap.Metrics { return bootstrap.NewMetrics(m.registry) }

func (m *metrics) handOver() *copier.Metrics { return copier.NewMetrics(m.registry) }

func (m *metrics) verification() *server.VerifyMetrics { return server.NewVerifyMetrics(m.registry) }

func (m *metrics) web() *web.Metrics { return web.NewMetrics(m.registry) }

func (m *metrics) handler() http.Handler { return server.MetricsHandler(m.registry) }
