package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

func cpuOf(pid string) time.Duration {
	data, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, after, _ := strings.Cut(string(data), ") ")
	f := strings.Fields(after)
	u, _ := strconv.Atoi(f[11])
	s, _ := strconv.Atoi(f[12])
	return time.Duration(u+s) * 10 * time.Millisecond
}

func serverPid() string {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range found {
		data, _ := os.ReadFile(f)
		pid := filepath.Base(filepath.Dir(f))
		if strings.Contains(string(data), "versitygw") {
			st, _ := os.ReadFile("/proc/" + pid + "/stat")
			_, after, _ := strings.Cut(string(st), ") ")
			if strings.Fields(after)[1] == strconv.Itoa(os.Getpid()) {
				return pid
			}
		}
	}
	return "0"
}

func BenchmarkPerfCopy(b *testing.B) {
	bins := strings.Split(os.Getenv("FERRY_BINS"), ",")
	server := storeservers.StartVersityGW(b)
	sp := serverPid()
	client, from := s3Client(server), server.Bucket(b)
	ours, theirs := server.Credentials(b), server.Credentials(b)
	source := openS3(b, server, from)
	names := fulls(b, archive.New(source))
	rounds, _ := strconv.Atoi(os.Getenv("ROUNDS"))
	all := map[string][]time.Duration{}
	for b.Loop() {
		for range max(rounds, 1) {
			plain := server.Bucket(b)
			c0 := cpuOf(sp)
			me0 := cpuOf(strconv.Itoa(os.Getpid()))
			copied := timed(b, func() error { return copyAll(b, plainBucket{client, from}, plainBucket{client, plain}, names) })
			checked := timed(b, func() error { return readAll(b, plainBucket{client, plain}, names) })
			fmt.Printf("plain %v + %v  cpu mine %v server %v\n", copied, checked, cpuOf(strconv.Itoa(os.Getpid()))-me0, cpuOf(sp)-c0)
			empty(b, openS3(b, server, plain))
			all["plain"] = append(all["plain"], copied)
			all["checked"] = append(all["checked"], copied+checked)
			for _, bin := range bins {
				to := server.Bucket(b)
				c0 := cpuOf(sp)
				used := run(b, bin, "copy", "--manual",
					"--source-store", "s3://"+from+"?pathStyle=true&endpoint="+server.URL, "--source-store-credentials", ours,
					"--store", "s3://"+to+"?pathStyle=true&endpoint="+server.URL, "--store-credentials", theirs)
				fmt.Printf("%s %v cpu %v server %v rss %d\n", bin, used.wall, used.cpu, cpuOf(sp)-c0, used.rss>>20)
				empty(b, openS3(b, server, to))
				all[bin] = append(all[bin], used.wall)
			}
		}
		for k, v := range all {
			fmt.Println("MEDIAN", k, median(v))
		}
	}
	tellLoad(b)
}
