package bench

import (
	"testing"
	"time"

	aws "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/pkg/snapshot"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

const (
	copyObjects = 4
	copyObject  = transferSize / copyObjects
)

// BenchmarkCopy copies fulls from one bucket to another with the command, through
// itself, and the same with the SDK, object after object. The command reads back
// what it has written; the SDK's time is taken without and with that.
func BenchmarkCopy(b *testing.B) {
	c := newCopies(b)
	for b.Loop() {
		var took [3][]time.Duration
		var rss []int64
		for n := range transferRounds {
			var used usage
			var copied, checked time.Duration
			steps := [2]func(){
				func() { copied, checked = c.plain(b) },
				func() { used = c.command(b) },
			}
			// What one of them wrote may still be on its way to the disk.
			steps[n%2]()
			steps[1-n%2]()
			for i, d := range []time.Duration{used.wall, copied, copied + checked} {
				took[i] = append(took[i], d)
			}
			rss = append(rss, used.rss)
		}
		copied, plain, checked := median(took[0]), median(took[1]), median(took[2])
		b.Logf("%d MiB: etcd-ferry copy %v, SDK %v, and %v with reading back", copyObjects*copyObject/mib, copied, plain, checked)
		b.ReportMetric(plain.Seconds()/copied.Seconds(), "of-plain-copy")
		b.ReportMetric(checked.Seconds()/copied.Seconds(), "of-plain-checked-copy")
		b.ReportMetric(float64(median(rss))/mib, "MiB-rss")
	}
	tellLoad(b)
}

// copies is a bucket to copy from, and who copies.
type copies struct {
	bin    string
	server *storeservers.S3
	client *aws.Client
	from   string
	names  []string // of what is in there
	// Two folders with the same keys are to the command two users, for whom no
	// server copies.
	ours, theirs string
}

func newCopies(b *testing.B) *copies {
	b.Helper()
	server := storeservers.StartVersityGW(b)
	c := &copies{
		bin: ferry(b), server: server, client: s3Client(server), from: server.Bucket(b),
		ours: server.Credentials(b), theirs: server.Credentials(b),
	}
	c.names = fulls(b, archive.New(openS3(b, server, c.from)))
	return c
}

// plain copies with the SDK, and reads what came.
func (c *copies) plain(b *testing.B) (copied, checked time.Duration) {
	b.Helper()
	from, to := plainBucket{c.client, c.from}, plainBucket{c.client, c.server.Bucket(b)}
	copied = timed(b, func() error { return copyAll(b, from, to, c.names) })
	checked = timed(b, func() error { return readAll(b, to, c.names) })
	empty(b, openS3(b, c.server, to.bucket))
	return copied, checked
}

func (c *copies) command(b *testing.B) usage {
	b.Helper()
	to := c.server.Bucket(b)
	used := run(b, c.bin, "copy", "--manual",
		"--source-store", "s3://"+c.from+"?pathStyle=true&endpoint="+c.server.URL, "--source-store-credentials", c.ours,
		"--store", "s3://"+to+"?pathStyle=true&endpoint="+c.server.URL, "--store-credentials", c.theirs)
	empty(b, openS3(b, c.server, to))
	return used
}

func openS3(b *testing.B, server *storeservers.S3, bucket string) store.Store {
	b.Helper()
	s, err := s3.New(s3.Config{
		Bucket: bucket, Endpoint: server.URL, PathStyle: true, CAFile: server.CAFile, CredentialsDir: server.Credentials(b),
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// fulls stores snapshots that do not compress, and returns the names of their
// objects.
func fulls(b *testing.B, a *archive.Archive) (names []string) {
	b.Helper()
	began := time.Now().Truncate(time.Second)
	for i := range copyObjects {
		m := snapshot.Manifest{
			Kind: snapshot.Full, First: int64(i + 1), Last: int64(i + 1), Lineage: "a", ClusterID: "c",
			Time: began.Add(time.Duration(i) * time.Minute),
		}
		m, err := a.Save(b.Context(), m, noise(copyObject))
		if err != nil {
			b.Fatal(err)
		}
		names = append(names, "snapshots/"+m.Name)
	}
	return names
}

func copyAll(b *testing.B, from, to plainBucket, names []string) error {
	b.Helper()
	for _, name := range names {
		body, err := from.download(b.Context(), name)
		if err != nil {
			return err
		}
		if err := to.upload(b.Context(), name, body); err != nil {
			return err
		}
		body.Close()
	}
	return nil
}

func readAll(b *testing.B, from plainBucket, names []string) error {
	b.Helper()
	for _, name := range names {
		if err := drained(from.download(b.Context(), name)); err != nil {
			return err
		}
	}
	return nil
}

// empty makes room for the next round.
func empty(b *testing.B, s store.Store) {
	b.Helper()
	infos, err := s.List(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	for _, info := range infos {
		if err := s.Remove(b.Context(), info.Name); err != nil {
			b.Fatal(err)
		}
	}
}
