package etcd_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/etcd-ferry/etcd-ferry/pkg/etcd"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// What a member says of its room and its alarms is understood, and costs no write.
func TestSpace(t *testing.T) {
	for _, version := range etcdtest.Versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			const quota = 64 << 20
			e := etcdtest.Start(t, etcdtest.WithVersion(version), etcdtest.WithoutFsync(), etcdtest.WithArgs("--quota-backend-bytes=67108864"))
			registry := prometheus.NewPedanticRegistry()
			c, err := etcd.Dial(t.Context(), etcd.Config{Endpoints: []string{e.Endpoint()}, Metrics: etcd.NewMetrics(registry)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			s := status(t, c)
			if s.DBSize <= 0 || s.InUse <= 0 || s.InUse > s.DBSize || s.Quota != quota && version != etcdtest.Versions[0] {
				t.Errorf("it says %+v", s)
			}
			if s.Alarms != (etcd.Alarms{}) {
				t.Errorf("alarms %+v", s.Alarms)
			}

			if err := c.RaftFence(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			if a := status(t, c).Alarms; a != (etcd.Alarms{Fenced: true}) {
				t.Errorf("fenced: %+v", a)
			}
			if got := value(t, registry, "etcd_ferry_etcd_alarm", "corrupt"); got != 0 {
				t.Error("a fence is shown as an alarm")
			}
			if err := c.RaftUnfence(t.Context(), 7); err != nil {
				t.Fatal(err)
			}
			raise(t, e, etcdserverpb.AlarmType_NOSPACE)
			if a := status(t, c).Alarms; a != (etcd.Alarms{NoSpace: true}) {
				t.Errorf("without space: %+v", a)
			}
			raise(t, e, etcdserverpb.AlarmType_CORRUPT)
			s = status(t, c)
			if s.Alarms != (etcd.Alarms{NoSpace: true, Corrupt: true}) {
				t.Errorf("both: %+v", s.Alarms)
			}
			for name, want := range map[string]float64{
				"etcd_ferry_etcd_database_bytes": float64(s.DBSize), "etcd_ferry_etcd_database_in_use_bytes": float64(s.InUse),
				"etcd_ferry_etcd_quota_bytes": float64(s.Quota),
			} {
				if got := value(t, registry, name, ""); got != want {
					t.Errorf("%s is %v, want %v", name, got, want)
				}
			}
			for _, kind := range []string{"nospace", "corrupt"} {
				if got := value(t, registry, "etcd_ferry_etcd_alarm", kind); got != 1 {
					t.Errorf("alarm %s is %v", kind, got)
				}
			}
		})
	}
}

func status(t *testing.T, c *etcd.Client) etcd.Status {
	t.Helper()
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// raise has the member say that something is wrong.
func raise(t *testing.T, e *etcdtest.Etcd, kind etcdserverpb.AlarmType) {
	t.Helper()
	own := e.Client(t)
	r, err := own.Status(t.Context(), e.Endpoint())
	if err == nil {
		_, err = etcdserverpb.NewMaintenanceClient(own.ActiveConnection()).Alarm(t.Context(), &etcdserverpb.AlarmRequest{
			Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: r.Header.MemberId, Alarm: kind,
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// value returns a gauge; kind is the value of its label, if it has one.
func value(t *testing.T, g prometheus.Gatherer, name, kind string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (len(m.Label) == 0 || m.Label[0].GetValue() == kind) {
				return m.Gauge.GetValue()
			}
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}
