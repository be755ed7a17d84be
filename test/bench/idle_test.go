package bench

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

// idleTime is how long a sidecar is looked at: two of the collections of garbage that
// Go makes anyhow.
const idleTime = 4 * time.Minute

// BenchmarkIdle is a sidecar beside an etcd to which nothing is written.
func BenchmarkIdle(b *testing.B) {
	bin := ferry(b)
	e := etcdtest.Start(b)
	for b.Loop() {
		p := start(b, bin, "server", "--listen=127.0.0.1:0", "--store=file://"+b.TempDir(), "--etcd-endpoints="+e.Endpoint())
		time.Sleep(idleTime) //nolint:forbidigo // another process has no virtual time
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		for field, unit := range map[string]string{"VmRSS:": "MiB-rss", "RssAnon:": "MiB-own", "RssFile:": "MiB-program"} {
			_, after, _ := strings.Cut(string(status), field)
			var kib float64
			if _, err := fmt.Sscan(after, &kib); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(kib/1024, unit)
		}
		if err := p.Process.Signal(os.Interrupt); err != nil {
			b.Fatal(err)
		}
		u := p.wait(b)
		b.ReportMetric(100*u.cpu.Seconds()/u.wall.Seconds(), "%cpu")
	}
	tellLoad(b)
}
