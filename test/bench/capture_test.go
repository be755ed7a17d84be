package bench

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

const (
	captureRate    = 3000 // puts a second
	captureValue   = 2 << 10
	captureWriters = 32
	captureTime    = 20 * time.Second
	captureRounds  = 3
)

// BenchmarkCapture puts 3,000 values of 2 KiB a second into an etcd, in turn
// with and without the sidecar, and compares the latencies of the puts.
func BenchmarkCapture(b *testing.B) {
	bin := ferry(b)
	etcd := etcdtest.Start(b, etcdtest.WithVersion("3.7.3"), etcdtest.WithoutFsync())
	client, next := etcd.Client(b), values()
	for b.Loop() {
		var with, without []latencies
		var sidecars []usage
		var bytes, events int64
		puts(b, client, next, captureTime/4) // warms up
		for range captureRounds {
			without = append(without, puts(b, client, next, captureTime))
			store := filepath.Join(b.TempDir(), "store")
			stop := serve(b, bin, "--store", "file://"+store, "--etcd-endpoints", etcd.Endpoint(),
				"--delta-period", "5s", "--delta-share", "1000", "--full-schedule", "", "--listen", "127.0.0.1:0")
			time.Sleep(captureTime / 4) //nolint:forbidigo // the first full is not what is measured
			before := deltaBytes(b, store)
			with = append(with, puts(b, client, next, captureTime))
			sidecars = append(sidecars, stop())
			bytes += deltaBytes(b, store) - before
			events += int64(captureRate * captureTime.Seconds())
		}
		p50, p90 := ratio(with, without, 0.50), ratio(with, without, 0.90)
		b.Logf("put latency without: p50 %v p90 %v; with: p50 %v p90 %v",
			across(without, 0.50), across(without, 0.90), across(with, 0.50), across(with, 0.90))
		b.ReportMetric(p50, "x-p50")
		b.ReportMetric(p90, "x-p90")
		b.ReportMetric(float64(bytes)/float64(events)/captureValue, "stored/payload")
		last := sidecars[len(sidecars)-1]
		b.ReportMetric(last.cpu.Seconds()/last.wall.Seconds(), "cores")
		b.ReportMetric(float64(last.rss)/mib, "MiB-rss")
	}
	tellLoad(b)
}

// values returns a source of values that are made beforehand, since making them
// must not be what is measured, and come again after a stretch at the earliest.
func values() (next func() string) {
	rng := rand.New(rand.NewPCG(5, 6))
	all := make([]string, captureRate*int(captureTime.Seconds()))
	for i := range all {
		all[i] = string(object(rng, captureValue))
	}
	var n atomic.Int64
	return func() string { return all[int(n.Add(1))%len(all)] }
}

// latencies are those of one stretch of puts, in no order.
type latencies []time.Duration

func (l latencies) at(quantile float64) time.Duration {
	sorted := append(latencies{}, l...)
	slices.Sort(sorted)
	return sorted[int(float64(len(sorted)-1)*quantile)]
}

// across is the median over rounds of a quantile.
func across(rounds []latencies, quantile float64) time.Duration {
	var all []time.Duration
	for _, l := range rounds {
		all = append(all, l.at(quantile))
	}
	return median(all)
}

func ratio(a, b []latencies, quantile float64) float64 {
	return across(a, quantile).Seconds() / across(b, quantile).Seconds()
}

// puts writes at captureRate for a time. Each writer keeps its own beat, so a
// slow put delays none but its own successors.
func puts(b *testing.B, client *clientv3.Client, next func() string, d time.Duration) latencies {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	var mu sync.Mutex
	var all latencies
	var g errgroup.Group
	for w := range captureWriters {
		g.Go(func() error {
			mine, err := putAtRate(ctx, client, w, next)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	return all
}

func putAtRate(ctx context.Context, client *clientv3.Client, writer int, next func() string) (latencies, error) {
	rng := rand.New(rand.NewPCG(uint64(writer), 2))
	tick := time.NewTicker(time.Second * captureWriters / captureRate)
	defer tick.Stop()
	var mine latencies
	for {
		select {
		case <-ctx.Done():
			return mine, nil
		case <-tick.C:
		}
		key := "/registry/events/" + strconv.Itoa(rng.IntN(20_000))
		value := next()
		began := time.Now()
		if _, err := client.Put(ctx, key, value); err != nil {
			if ctx.Err() != nil {
				return mine, nil
			}
			return mine, err
		}
		mine = append(mine, time.Since(began))
	}
}

// serve starts the sidecar; stop ends it and says what it used.
func serve(b *testing.B, bin string, args ...string) (stop func() usage) {
	b.Helper()
	sidecar := start(b, bin, append([]string{"server"}, args...)...)
	return func() usage {
		if err := sidecar.Process.Signal(syscall.SIGTERM); err != nil {
			b.Fatal(err)
		}
		return sidecar.wait(b)
	}
}

// deltaBytes returns the size of all stored deltas.
func deltaBytes(b *testing.B, store string) int64 {
	b.Helper()
	names, err := filepath.Glob(filepath.Join(store, "snapshots", "delta-*.zst"))
	if err != nil {
		b.Fatal(err)
	}
	var n int64
	for _, name := range names {
		n += size(b, name)
	}
	return n
}
