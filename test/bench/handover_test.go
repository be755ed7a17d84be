package bench

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

const (
	handOverValue = 4 << 10 // bytes
	handOverLook  = 5 * time.Millisecond
	handOverPoll  = "1s" // the preset is 10 s
	// With so many transactions of fill the WAL is as long as with etcd's preset
	// 10,000 writes one by one.
	handOverSnapshots = "200"
)

// BenchmarkHandOver hands etcds over from one bucket to another. Downtime is the
// time from the first readiness 503 at the source to the first read that is served
// at the destination. The yardstick is the time to move the same database once,
// with the SDK alone: from the disk into a bucket, and from there onto a disk.
func BenchmarkHandOver(b *testing.B) {
	bin := ferry(b)
	for _, size := range []struct {
		name         string
		keys, rounds int
	}{{"100MiB", 25_000, 3}, {"1GiB", 262_144, 1}} {
		b.Run(size.name, func(b *testing.B) {
			server := storeservers.StartVersityGW(b)
			for b.Loop() {
				var moves, downtimes []time.Duration
				var plain int64
				for range size.rounds {
					source, destination := newSide(b, bin, "A", server), newSide(b, bin, "B", server)
					source.start(b)
					await(b, source.server+"/healthz")
					fill(b, dial(b, source.etcd), size.keys, handOverValue)
					post(b, source.server+"/snapshot/delta") // what waits for it is not in the way later
					db := filepath.Join(source.dataDir, "member", "snap", "db")
					info, err := os.Stat(db)
					if err != nil {
						b.Fatal(err)
					}
					plain = info.Size()
					syscall.Sync() // what was written before is nobody's time
					moves = append(moves, timed(b, func() error { return move(b, db, plainBucket{s3Client(server), server.Bucket(b)}) }))
					syscall.Sync()
					downtimes = append(downtimes, handOver(b, source, destination))
					source.stop()
					destination.stop()
				}
				b.Logf("%d MiB: moved once in %v, down for %v", plain/mib, median(moves), median(downtimes))
				b.ReportMetric(median(downtimes).Seconds(), "s-downtime")
				b.ReportMetric(median(downtimes).Seconds()/median(moves).Seconds(), "x-of-moving")
			}
			tellLoad(b)
		})
	}
}

// handOver returns for how long nobody served.
func handOver(b *testing.B, source, destination *side) time.Duration {
	b.Helper()
	var down time.Time
	var g errgroup.Group
	g.Go(func() error {
		for status(source.server+"/healthz") == http.StatusOK {
			time.Sleep(handOverLook) //nolint:forbidigo // another process has no virtual time
		}
		down = time.Now()
		return nil
	})
	run(b, source.bin, "copyop", "initiate", "--server", source.server)
	run(b, source.bin, append([]string{
		"copy", "--owner-id", destination.name, "--poll-period", handOverPoll,
		"--source-store", source.store, "--source-store-credentials", source.credentials,
	}, destination.storeFlags()...)...)
	copyEnded := time.Now()
	destination.start(b)
	await(b, destination.etcd+"/health") // is a read; a client that dials too early would wait a second
	served := time.Now()
	_ = g.Wait()
	b.Logf("%v until the destination was the owner, %v until it served", copyEnded.Sub(down), served.Sub(copyEnded))
	return served.Sub(down)
}

// move puts a file into a bucket, and from there onto the disk again.
func move(b *testing.B, path string, bucket plainBucket) error {
	b.Helper()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := bucket.upload(b.Context(), "db", f); err != nil {
		return err
	}
	body, err := bucket.download(b.Context(), "db")
	if err != nil {
		return err
	}
	defer body.Close()
	moved, err := os.Create(filepath.Join(b.TempDir(), "db"))
	if err != nil {
		return err
	}
	if _, err := io.Copy(moved, body); err != nil {
		return err
	}
	if err := moved.Sync(); err != nil {
		return err
	}
	return moved.Close()
}

// side is one deployment: a server, and a real etcd behind its gate.
type side struct {
	bin, name          string
	store, credentials string
	dataDir            string
	etcd, server       string // URLs
	processes          []*process
}

func newSide(b *testing.B, bin, name string, s *storeservers.S3) *side {
	b.Helper()
	return &side{
		bin: bin, name: name,
		store: "s3://" + s.Bucket(b) + "?pathStyle=true&endpoint=" + s.URL, credentials: s.Credentials(b),
		dataDir: filepath.Join(b.TempDir(), "etcd"),
		etcd:    "http://" + proc.Address(b), server: "http://" + proc.Address(b),
	}
}

func (s *side) storeFlags() []string {
	return []string{"--store", s.store, "--store-credentials", s.credentials}
}

func (s *side) start(b *testing.B) {
	b.Helper()
	s.processes = append(s.processes, start(b, s.bin, append([]string{
		"server", "--owner-id", s.name, "--data-dir", s.dataDir, "--etcd-endpoints", s.etcd, "--listen", s.server[len("http://"):],
		"--poll-period", handOverPoll, "--full-schedule", "", "--delta-share", "1000",
	}, s.storeFlags()...)...))
	await(b, s.server+"/livez")
	s.processes = append(s.processes, start(b, s.bin, "gate", "--server", s.server, "--", etcdtest.Tool(b, etcdtest.Newest, "etcd"),
		"--data-dir", s.dataDir, "--listen-client-urls", s.etcd, "--advertise-client-urls", s.etcd,
		"--listen-peer-urls", "http://127.0.0.1:0", "--quota-backend-bytes=4294967296", "--log-level=error",
		"--snapshot-count", handOverSnapshots,
		"--heartbeat-interval=20", "--election-timeout=100")) // as in deploy/kustomize/base
	b.Cleanup(s.stop)
}

// stop ends what was started, etcd with its gate.
func (s *side) stop() {
	for _, p := range s.processes {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
	s.processes = nil
}

func status(url string) int {
	response, err := http.Get(url)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

func await(b *testing.B, url string) {
	b.Helper()
	for status(url) != http.StatusOK {
		if b.Context().Err() != nil {
			b.Fatal(b.Context().Err())
		}
		time.Sleep(handOverLook) //nolint:forbidigo // another process has no virtual time
	}
}

func post(b *testing.B, url string) {
	b.Helper()
	response, err := http.Post(url, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		b.Fatalf("%s: %s", url, response.Status)
	}
}

func dial(b *testing.B, endpoint string) *clientv3.Client {
	b.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}
