package deploy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/kubelet"
	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// stage is where pods of the manifests run as processes: what a pod would find at
// fixed paths and addresses it finds in a directory and at addresses of its own.
// Nothing else of the manifests is changed, but for a shorter time between two reads
// of the sync object, which comes as a variable.
type stage struct {
	dir   string
	hosts map[string]string // address by what it is called in the manifests
}

func newStage(t *testing.T) *stage { return &stage{t.TempDir(), map[string]string{}} }

// address returns the one for a name, always the same.
func (s *stage) address(t *testing.T, name string) string {
	if s.hosts[name] == "" {
		s.hosts[name] = proc.Address(t)
	}
	return s.hosts[name]
}

// deployment is what a folder makes, on a stage.
type deployment struct {
	*stage
	name    string // of the namespace that it would be in
	objects []object
	config  []string // what a user changes in its files, old and new in turn
	tls     *etcdtest.TLS
}

// deployment returns what a folder makes, with what a user changes in its config: the
// stores are directories, which need no credentials.
func (s *stage) deployment(t *testing.T, name, folder string, config ...string) *deployment {
	t.Helper()
	none := []string{"store-credentials: /etc/store\n", "", "source-store-credentials: /etc/source-store\n", ""}
	return &deployment{s, name, build(t)[folder], append(none, config...), nil}
}

func (d *deployment) spec(t *testing.T, kind, name string) *podSpec {
	t.Helper()
	return &find(t, d.objects, kind, name).pod().Spec
}

// store is the directory of a container.
func (s *stage) store(name string) string { return filepath.Join(s.dir, "store-"+name) }

// replace returns what a pod's words become on the stage.
func (d *deployment) replace(t *testing.T, pod string, spec *podSpec) replacer {
	t.Helper()
	at := func(pod, port string) string { return d.address(t, d.name+"/"+pod+":"+port) }
	volume := filepath.Join(d.dir, d.name, pod)
	oldnew := []string{
		"0.0.0.0:2379", at(pod, "2379"), "0.0.0.0:2380", at(pod, "2380"),
		"127.0.0.1:2379", at(pod, "2379"), "127.0.0.1:8080", at(pod, "8080"), "--listen=:8080", "--listen=" + at(pod, "8080"),
		"--listen=:8081", "--listen=" + at(pod, "8081"), "etcd:2379", at("etcd-0", "2379"),
		"/usr/local/bin/etcd", etcdtest.Tool(t, etcdtest.Newest, "etcd"),
		"/var/lib/etcd/", volume + "/", "/ferry/", volume + ".ferry/", "/scratch", volume + ".scratch",
	}
	if d.tls != nil {
		oldnew = append(oldnew, "/etc/etcd-tls/", filepath.Dir(d.tls.CAFile)+"/")
	}
	for i := range 3 {
		member := fmt.Sprintf("etcd-%d", i)
		for _, port := range []string{"2379", "2380"} {
			oldnew = append(oldnew, member+".etcd-members:"+port, at(member, port))
		}
	}
	return configFiles(t, d.objects, spec, slices.Concat(d.config, oldnew)...)
}

// command returns a container's command line and environment on the stage.
func (d *deployment) command(t *testing.T, pod string, spec *podSpec, c *containerSpec) (words, environ []string) {
	t.Helper()
	r := d.replace(t, pod, spec)
	words = r.Replace(c.line(t, pod))
	if words[0] == entrypoint {
		words[0] = binary
	}
	for name, value := range c.environment(t, pod) {
		environ = append(environ, name+"="+r.Replacer.Replace(value))
	}
	if c.Name != "etcd" {
		environ = append(environ, "ETCD_FERRY_POLL_PERIOD=200ms")
	}
	return words, environ
}

// run starts a pod: the init containers one after the other, then the others.
func (d *deployment) run(t *testing.T, set, pod string) *kubelet.Pod {
	t.Helper()
	spec := d.spec(t, "StatefulSet", set)
	for _, folder := range []string{"", ".ferry", ".scratch"} {
		if err := os.MkdirAll(filepath.Join(d.dir, d.name, pod)+folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i := range spec.InitContainers {
		words, environ := d.command(t, pod, spec, &spec.InitContainers[i])
		if out, err := ferry(t, environ, words[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", words, err, out)
		}
	}
	var containers []kubelet.Container
	for i := range spec.Containers {
		c := &spec.Containers[i]
		words, environ := d.command(t, pod, spec, c)
		containers = append(containers, kubelet.Container{
			Name: c.Name, Command: words, Env: environ,
			Readiness: d.probe(t, pod, c, c.Readiness), Liveness: d.probe(t, pod, c, c.Liveness),
		})
	}
	p := kubelet.Run(t, containers...)
	t.Cleanup(p.Crash) // an orderly end would take its time
	return p
}

func (d *deployment) probe(t *testing.T, pod string, c *containerSpec, p *probe) kubelet.Probe {
	if p == nil {
		return kubelet.Probe{}
	}
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	return kubelet.Probe{
		URL:    d.url(t, pod, fmt.Sprint(c.port(t, p.HTTPGet.Port)), p.HTTPGet.Path),
		Period: second(p.Period), Timeout: second(p.Timeout), Failures: max(1, p.Failures),
	}
}

func (d *deployment) url(t *testing.T, pod, port, path string) string {
	return "http://" + d.address(t, d.name+"/"+pod+":"+port) + path
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", patience, what)
		}
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // other processes have no virtual time
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	content, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(content)
}

func (d *deployment) client(t *testing.T, pod string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{d.address(t, d.name+"/"+pod+":2379")}, TLS: d.tls.Config(t), DialTimeout: time.Minute, Logger: zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// once runs the only container of a Job or CronJob to its end.
func (d *deployment) once(t *testing.T, kind, name string) error {
	t.Helper()
	spec := d.spec(t, kind, name)
	words, environ := d.command(t, name, spec, &spec.Containers[0])
	if err := os.MkdirAll(filepath.Join(d.dir, d.name, name)+".scratch", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := ferry(t, environ, words[1:]...).Output()
	return explain(err)
}

// verifier runs the CronJob's command with --listen, until it has verified, and returns
// its metrics.
func (d *deployment) verifier(t *testing.T) (metrics string) {
	t.Helper()
	spec := d.spec(t, "CronJob", "etcd-verify")
	words, environ := d.command(t, "etcd-verify", spec, &spec.Containers[0])
	address := proc.Address(t)
	p, err := proc.Start(ferry(t, environ, append(words[1:], "--listen="+address)...))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	eventually(t, "it is verified", func() bool {
		_, metrics = get(t, "http://"+address+"/metrics")
		return strings.Contains(metrics, `etcd_ferry_verification_result{result="ok"} 1`)
	})
	return metrics
}

// TestPodsRun plays a whole life: an etcd is deployed, written to, backed up,
// verified, handed over by the StatefulSet that copies, goes on elsewhere, and comes
// back by the Job.
func TestPodsRun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.deployment(t, "a", "base", "s3://etcd-a/main", "file://"+s.store("a"))
	podA := a.run(t, "etcd", "etcd-0")
	eventually(t, "a is ready", func() bool { return podA.Ready("etcd") })
	for _, c := range a.spec(t, "StatefulSet", "etcd").Containers {
		for _, p := range []*probe{c.Readiness, c.Liveness} {
			if url := a.probe(t, "etcd-0", &c, p).URL; url != "" {
				if status, body := get(t, url); status != http.StatusOK {
					t.Errorf("%s is answered %d: %s", url, status, body)
				}
			}
		}
	}
	written, err := a.client(t, "etcd-0").Put(t.Context(), "ferried", "byte for byte")
	if err != nil {
		t.Fatal(err)
	}
	var verdict error
	eventually(t, "a trial restore is well", func() bool {
		verdict = a.once(t, "CronJob", "etcd-verify")
		return verdict == nil
	})

	verifying := a.verifier(t)

	copying := s.deployment(t, "copy", "copy-statefulset", "s3://etcd-a/main", "file://"+s.store("a"), "s3://etcd-b/main", "file://"+s.store("b"))
	podCopy := copying.run(t, "etcd-copy", "etcd-copy-0")
	eventually(t, "the copy is ready", func() bool { return podCopy.Ready("copy") })
	eventually(t, "a is not ready", func() bool { return !podA.Ready("etcd") })
	_, ofServer := get(t, a.url(t, "etcd-0", "8080", "/metrics"))
	_, ofCopy := get(t, copying.url(t, "etcd-copy-0", "8081", "/metrics"))
	t.Run("monitoring", func(t *testing.T) { checkMonitoring(t, ofServer+ofCopy+verifying) })
	podCopy.Stop()

	b := s.deployment(t, "b", "base", "s3://etcd-a/main", "file://"+s.store("b"), "owner-id: a", "owner-id: b")
	podB := b.run(t, "etcd", "etcd-0")
	eventually(t, "b is ready", func() bool { return podB.Ready("etcd") })
	r, err := b.client(t, "etcd-0").Get(t.Context(), "ferried")
	if err != nil || len(r.Kvs) != 1 || r.Kvs[0].ModRevision != written.Header.Revision {
		t.Errorf("b has %v, %v", r, err)
	}
	back := s.deployment(t, "back", "copy-job", "s3://etcd-a/main", "file://"+s.store("b"), "s3://etcd-b/main", "file://"+s.store("a"), "owner-id: b", "owner-id: a")
	if err := back.once(t, "Job", "etcd-copy"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a is ready again", func() bool { return podA.Ready("etcd") })
	if n := podA.Restarts("server") + podB.Restarts("server"); n > 0 {
		t.Errorf("%d restarts of servers", n)
	}
	podA.Stop()
	if record, err := os.ReadFile(filepath.Join(s.store("a"), "owner.json")); err != nil || !strings.Contains(string(record), `"Released"`) {
		t.Errorf("a was ended in order, and says %s %v", record, err)
	}
}

// TestThreeMembersRun: the overlays make a cluster, of which one backs up, and what it
// has stored is verified.
func TestThreeMembersRun(t *testing.T) {
	for folder, tls := range map[string]bool{"three-members": false, "three-members-tls": true} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			d := s.deployment(t, "a", folder, "s3://etcd-a/main", "file://"+s.store("a"))
			if tls {
				d.tls = etcdtest.Secret(t, t.TempDir())
			}
			var pods []*kubelet.Pod
			for i := range 3 {
				pods = append(pods, d.run(t, "etcd", fmt.Sprintf("etcd-%d", i)))
			}
			for i, p := range pods {
				eventually(t, fmt.Sprintf("etcd-%d is ready", i), func() bool { return p.Ready("etcd") })
			}
			members, err := d.client(t, "etcd-0").MemberList(t.Context())
			if err != nil || len(members.Members) != 3 {
				t.Fatalf("%v %v", members, err)
			}
			eventually(t, "one of them backs up", func() bool {
				running := 0
				for i := range 3 {
					_, text := get(t, d.url(t, fmt.Sprintf("etcd-%d", i), "8080", "/metrics"))
					running += strings.Count(text, "\netcd_ferry_backup_running 1\n")
				}
				return running == 1
			})
			eventually(t, "a trial restore is well", func() bool { return d.once(t, "CronJob", "etcd-verify") == nil })
		})
	}
}
