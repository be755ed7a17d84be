package bench

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// ferry builds the program once a benchmark and returns its path.
func ferry(b *testing.B) string {
	b.Helper()
	b.Setenv("CGO_ENABLED", "0") // as it is shipped
	bin, err := proc.Build(b.TempDir(), "etcd-ferry")
	if err != nil {
		b.Fatal(err)
	}
	return bin
}

// usage is what a finished process has used.
type usage struct {
	wall, cpu time.Duration
	rss       int64 // bytes, peak
}

// process is a program that is being measured.
type process struct {
	*exec.Cmd
	output bytes.Buffer
	began  time.Time
	rss    chan int64
}

func start(b *testing.B, name string, args ...string) *process {
	b.Helper()
	p := &process{Cmd: exec.CommandContext(b.Context(), name, args...), began: time.Now(), rss: make(chan int64, 1)}
	p.Stdout, p.Stderr = &p.output, &p.output
	if err := p.Start(); err != nil {
		b.Fatal(err)
	}
	go func() { p.rss <- peak(p.Process.Pid) }()
	return p
}

// wait waits for the end of the process, which must be a good one.
func (p *process) wait(b *testing.B) usage {
	b.Helper()
	if err := p.Wait(); err != nil {
		b.Fatalf("%s: %v\n%s", strings.Join(p.Args, " "), err, p.output.String())
	}
	return usage{time.Since(p.began), p.ProcessState.UserTime() + p.ProcessState.SystemTime(), <-p.rss}
}

// run runs a command to its end.
func run(b *testing.B, name string, args ...string) usage {
	b.Helper()
	return start(b, name, args...).wait(b)
}

// peak samples a process' peak of resident memory until it is gone. What
// wait4(2) reports would include the memory of this process at the fork.
func peak(pid int) (bytes int64) {
	for {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, after, found := strings.Cut(string(status), "VmHWM:")
		if err != nil || !found { // gone, or a zombie
			return bytes
		}
		var kib int64
		if _, err := fmt.Sscan(after, &kib); err == nil {
			bytes = kib << 10
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // another process has no virtual time
	}
}

func median[T cmp.Ordered](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// tellLoad prints the machine's load beside the figures.
func tellLoad(b *testing.B) {
	b.Helper()
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("load average %s", strings.TrimSpace(string(load)))
}

const mib = 1 << 20

// object returns text like a Kubernetes object in JSON: mostly the same words
// in every object, and ids, times and hashes in no two.
func object(rng *rand.Rand, size int) []byte {
	var s strings.Builder
	id := func() string {
		return fmt.Sprintf("%08x-%04x-%04x", rng.Uint32(), rng.Uint32()&0xffff, rng.Uint32()&0xffff)
	}
	fmt.Fprintf(&s, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"app-%s","namespace":"team-%d","uid":"%s",`+
		`"resourceVersion":"%d","labels":{"app":"web","pod-template-hash":"%x"},"ownerReferences":[{"kind":"ReplicaSet","uid":"%s"}]},`+
		`"spec":{"containers":[`, id(), rng.IntN(100), id(), rng.Uint32(), rng.Uint32(), id())
	for s.Len() < size {
		fmt.Fprintf(&s, `{"name":"c-%d","image":"registry.example/app@sha256:%016x%016x%016x%016x","env":[{"name":"TOKEN","value":"%s"}],`+
			`"resources":{"limits":{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"100m","memory":"64Mi"}},`+
			`"volumeMounts":[{"name":"kube-api-access-%05x","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}]},`,
			rng.IntN(10), rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64(), token(rng), rng.Uint32()&0xfffff)
	}
	return []byte(s.String()[:size])
}

// token is what does not compress: certificates, tokens, keys.
func token(rng *rand.Rand) string {
	raw := make([]byte, 48)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}
