package deploy

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What each folder makes, so that nothing gets lost unseen.
func TestFoldersMakeWhatTheyShould(t *testing.T) {
	cluster := []string{
		"ConfigMap etcd-ferry", "CronJob etcd-verify", "NetworkPolicy etcd", "NetworkPolicy etcd-verify", "PodDisruptionBudget etcd",
		"Service etcd", "Service etcd-members", "StatefulSet etcd",
	}
	want := map[string][]string{
		"base": cluster, "three-members": cluster, "three-members-tls": cluster,
		"copy-job":         {"ConfigMap etcd-copy", "Job etcd-copy", "NetworkPolicy etcd-copy"},
		"copy-statefulset": {"ConfigMap etcd-copy", "NetworkPolicy etcd-copy", "Service etcd-copy", "StatefulSet etcd-copy"},
	}
	for folder, objects := range build(t) {
		var got []string
		for _, o := range objects {
			name := o.Metadata.Name
			if o.Kind == "ConfigMap" { // its hash makes pods follow a change
				name = name[:strings.LastIndexByte(name, '-')]
			}
			got = append(got, o.Kind+" "+name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want[folder]) {
			t.Errorf("%s makes %q, want %q", folder, got, want[folder])
		}
	}
	for _, folder := range clusters()[1:] {
		if n := find(t, build(t)[folder], "StatefulSet", "etcd").Spec.Replicas; n != 3 {
			t.Errorf("%s has %d", folder, n)
		}
	}
}

// clusters are the folders that make an etcd.
func clusters() []string { return []string{"base", "three-members", "three-members-tls"} }

// pods calls check with every pod of every folder.
func pods(t *testing.T, check func(t *testing.T, all []object, o *object, pod *template)) {
	for folder, objects := range build(t) {
		for i := range objects {
			if pod := objects[i].pod(); pod != nil {
				t.Run(folder+"/"+objects[i].Kind+"/"+objects[i].Metadata.Name, func(t *testing.T) {
					check(t, objects, &objects[i], pod)
				})
			}
		}
	}
}

func all(s *podSpec) []containerSpec { return slices.Concat(s.InitContainers, s.Containers) }

func is[T comparable](p *T, want T) bool { return p != nil && *p == want }

// Everything that can be dropped is dropped, and everybody is the same nobody: the
// server has to signal etcd.
func TestPodsHaveNoPrivileges(t *testing.T) {
	pods(t, func(t *testing.T, _ []object, _ *object, pod *template) {
		s := pod.Spec
		switch {
		case !is(s.Security.RunAsNonRoot, true) || !is(s.Security.RunAsUser, 65532):
			t.Error("the pod does not run as 65532")
		case s.Security.SeccompProfile.Type != "RuntimeDefault" || s.HostPID || s.HostNetwork:
			t.Error("the pod has too much of its host")
		case !is(s.Token, false) || !is(s.Links, false):
			t.Error("the pod has a token, or variables of Services that etcd takes for its own")
		}
		for _, c := range all(&s) {
			if x := c.Security; x.RunAsUser != nil || x.RunAsNonRoot != nil || !is(x.AllowPrivilegeEscalation, false) ||
				!is(x.ReadOnlyRootFilesystem, true) || x.Privileged != nil || len(x.Capabilities.Add) > 0 || !slices.Equal(x.Capabilities.Drop, []string{"ALL"}) {
				t.Errorf("container %s: %+v", c.Name, x)
			}
			if tag := c.Image[strings.LastIndexByte(c.Image, ':')+1:]; !strings.HasPrefix(tag, "v") {
				t.Errorf("container %s runs %s, which is no version", c.Name, c.Image)
			}
		}
		for _, v := range s.Volumes {
			if v.HostPath != nil {
				t.Errorf("volume %s is the host's", v.Name)
			}
		}
	})
}

// What one object calls another is what that is called.
func TestReferencesHold(t *testing.T) {
	pods(t, func(t *testing.T, objects []object, o *object, pod *template) {
		volumes := map[string]bool{}
		for _, v := range pod.Spec.Volumes {
			volumes[v.Name] = false
			if v.ConfigMap != nil && !slices.ContainsFunc(objects, func(o object) bool { return o.Kind == "ConfigMap" && o.Metadata.Name == v.ConfigMap.Name }) {
				t.Errorf("there is no ConfigMap %s", v.ConfigMap.Name)
			}
		}
		for _, c := range o.Spec.Claims {
			volumes[c.Metadata.Name] = false
		}
		for _, c := range all(&pod.Spec) {
			for _, m := range c.Mounts {
				if _, ok := volumes[m.Name]; !ok {
					t.Errorf("container %s mounts %s, which there is not", c.Name, m.Name)
				}
				volumes[m.Name] = true
			}
		}
		for name, used := range volumes {
			if !used {
				t.Errorf("nobody mounts %s", name)
			}
		}
		if o.Kind == "StatefulSet" {
			find(t, objects, "Service", o.Spec.ServiceName)
			if !o.Spec.Selector.matches(pod.Metadata.Labels) {
				t.Errorf("%v does not select its own pods", o.Spec.Selector)
			}
		}
		for _, rule := range o.Spec.Policy.Rules {
			pod.Spec.container(t, rule.OnExitCodes.ContainerName)
		}
		guarded := slices.ContainsFunc(objects, func(o object) bool {
			return o.Kind == "NetworkPolicy" && o.Spec.PodSelector.matches(pod.Metadata.Labels)
		})
		if !guarded {
			t.Error("no NetworkPolicy selects the pods")
		}
	})
	for folder, objects := range build(t) {
		for _, o := range objects {
			if s := slices.Concat(slices.Collect(maps.Keys(o.Spec.Selector)), slices.Collect(maps.Keys(o.Spec.PodSelector))); len(s) == 0 {
				continue
			}
			var ports []string
			selected := false
			for i := range objects {
				pod := objects[i].pod()
				if pod == nil || !o.Spec.Selector.matches(pod.Metadata.Labels) && !o.Spec.PodSelector.matches(pod.Metadata.Labels) {
					continue
				}
				selected = true
				for _, c := range pod.Spec.Containers {
					for _, p := range c.Ports {
						ports = append(ports, strconv.Quote(p.Name))
					}
				}
			}
			if !selected {
				t.Errorf("%s: %s %s selects nobody", folder, o.Kind, o.Metadata.Name)
			}
			for _, p := range o.Spec.Ports {
				if !slices.Contains(ports, string(p.TargetPort)) {
					t.Errorf("%s: Service %s leads to port %s, the pods have %s", folder, o.Metadata.Name, p.TargetPort, ports)
				}
			}
		}
	}
}

// printed runs etcd-ferry with --print-config and returns the values.
func printed(t *testing.T, environ, words []string) map[string]string {
	t.Helper()
	if at := slices.Index(words, "--"); at >= 0 {
		words = slices.Insert(slices.Clone(words), at, "--print-config")
	} else {
		words = append(slices.Clone(words), "--print-config")
	}
	out, err := ferry(t, environ, words...).Output()
	if err != nil {
		t.Fatalf("%q: %v", words, explain(err))
	}
	values := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(line, ": ")
		value, _, _ = strings.Cut(strings.TrimSpace(value), " # ")
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		values[name] = strings.Trim(value, "'")
	}
	return values
}

// Every command line of ours is one that the program takes, with the environment and
// the config file that it gets there.
func TestCommandLinesAreTaken(t *testing.T) {
	taken := map[string]int{}
	pods(t, func(t *testing.T, objects []object, o *object, pod *template) {
		files := configFiles(t, objects, &pod.Spec)
		for _, c := range all(&pod.Spec) {
			words := c.line(t, o.Metadata.Name+"-0")
			if filepath.Base(words[0]) != "etcd-ferry" {
				t.Errorf("container %s runs %s", c.Name, words[0])
				continue
			}
			environ := []string{}
			for name, value := range c.environment(t, o.Metadata.Name+"-0") {
				environ = append(environ, name+"="+value)
			}
			values := printed(t, environ, files.Replace(words[1:]))
			taken[words[1]]++
			for _, name := range []string{"config", "data-dir", "store-credentials", "source-store-credentials", "temp-dir", "install", "etcd-cacert", "etcd-cert", "etcd-key"} {
				if path := values[name]; strings.HasPrefix(path, "/") && !mounted(&c, path) {
					t.Errorf("container %s: --%s %s is on no volume", c.Name, name, path)
				}
			}
		}
	})
	want := map[string]int{"gate": 6, "server": 3, "verify": 3, "copy": 2}
	if !maps.Equal(taken, want) {
		t.Errorf("there were %v, want %v", taken, want)
	}
}

// mounted reports whether path is below a mount of c, and not the mount itself if it
// is to be made.
func mounted(c *containerSpec, path string) bool {
	return slices.ContainsFunc(c.Mounts, func(m mount) bool { return path == m.MountPath || strings.HasPrefix(path, m.MountPath+"/") })
}

// Every flag of etcd is one that etcd has.
func TestEtcdHasItsFlags(t *testing.T) {
	for _, version := range etcdVersions(t) {
		out, err := etcdHelp(t, version)
		if err != nil {
			t.Fatal(err)
		}
		for _, folder := range clusters() {
			for _, arg := range find(t, build(t)[folder], "StatefulSet", "etcd").Spec.Template.Spec.container(t, "etcd").Args {
				flag, _, _ := strings.Cut(arg, "=")
				if !strings.Contains(out, flag+" ") {
					t.Errorf("etcd %s has no %s", version, flag)
				}
			}
		}
	}
}

// The times of the manifests keep what the server counts on (HANDOVER §4).
func TestTimesOfTheStatefulSet(t *testing.T) {
	for _, folder := range clusters() {
		objects := build(t)[folder]
		o := find(t, objects, "StatefulSet", "etcd")
		spec := &o.Spec.Template.Spec
		server, etcd := spec.container(t, "server"), spec.container(t, "etcd")
		environ := []string{}
		for name, value := range server.environment(t, "etcd-0") {
			environ = append(environ, name+"="+value)
		}
		values := printed(t, environ, configFiles(t, objects, spec).Replace(server.line(t, "etcd-0")[1:]))
		watchdog := etcd.Liveness
		worst := watchdog.InitialDelay + watchdog.Period*(watchdog.Failures+1) + watchdog.Timeout + watchdog.Grace
		if g := seconds(t, values["watchdog"]); worst > g || watchdog.HTTPGet.Path != "/livez/etcd" {
			t.Errorf("%s: an etcd whose server is silent at %s is gone after %d s, --watchdog is %d s", folder, watchdog.HTTPGet.Path, worst, g)
		}
		if k := seconds(t, values["kill-grace"]); watchdog.Grace < k {
			t.Errorf("%s: etcd gets %d s to end from the kubelet, and %d s from the server", folder, watchdog.Grace, k)
		}
		if end := seconds(t, values["kill-budget"]) + seconds(t, values["release-timeout"]); spec.Grace < end {
			t.Errorf("%s: the pod gets %d s to end, the server may need %d s", folder, spec.Grace, end)
		}
		if !spec.ShareProcessNamespace {
			t.Errorf("%s: the server does not see etcd", folder)
		}
		for _, c := range []*containerSpec{server, etcd} {
			at := slices.IndexFunc(c.Mounts, func(m mount) bool { return m.Name == "data" })
			if at < 0 || c.Mounts[at].MountPath != filepath.Dir(values["data-dir"]) || c.Mounts[at].ReadOnly {
				t.Errorf("%s: %s does not have the volume one level above %s", folder, c.Name, values["data-dir"])
			}
		}
		if !slices.Contains(etcd.Args, "--data-dir="+values["data-dir"]) {
			t.Errorf("%s: etcd has another data dir than %s", folder, values["data-dir"])
		}
	}
}

// Every probe asks where somebody listens, for something that is answered there.
// TestPodsRun shows that it is.
func TestProbesHaveAListener(t *testing.T) {
	pods(t, func(t *testing.T, objects []object, _ *object, pod *template) {
		files := configFiles(t, objects, &pod.Spec)
		for _, c := range pod.Spec.Containers {
			for _, p := range []*probe{c.Readiness, c.Liveness} {
				if p == nil {
					continue
				}
				port := c.port(t, p.HTTPGet.Port)
				listener := slices.ContainsFunc(pod.Spec.Containers, func(other containerSpec) bool {
					words := files.Replace(other.line(t, "x-0"))
					return slices.Contains(words, fmt.Sprintf("--listen=:%d", port))
				})
				if !listener || p.HTTPGet.Scheme != "" || p.Period == 0 || p.Timeout == 0 {
					t.Errorf("container %s: %s at port %d: nobody listens, or times are missing", c.Name, p.HTTPGet.Path, port)
				}
			}
		}
	})
}

// port returns the number of a probe's port.
func (c *containerSpec) port(t *testing.T, raw json.RawMessage) int {
	t.Helper()
	var number int
	if json.Unmarshal(raw, &number) == nil {
		return number
	}
	for _, p := range c.Ports {
		if strconv.Quote(p.Name) == string(raw) {
			return p.ContainerPort
		}
	}
	t.Fatalf("container %s has no port %s", c.Name, raw)
	return 0
}

// replacer replaces what is only there in a pod.
type replacer struct{ *strings.Replacer }

func (r replacer) Replace(words []string) []string {
	replaced := make([]string, len(words))
	for i, w := range words {
		replaced[i] = r.Replacer.Replace(w)
	}
	return replaced
}

// configFiles writes what ConfigMaps hold, and returns what leads there.
func configFiles(t *testing.T, objects []object, s *podSpec, oldnew ...string) replacer {
	t.Helper()
	change := strings.NewReplacer(oldnew...)
	for _, v := range s.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		for _, c := range s.Containers {
			for _, m := range c.Mounts {
				if m.Name != v.Name {
					continue
				}
				dir := t.TempDir()
				for name, content := range find(t, objects, "ConfigMap", v.ConfigMap.Name).Data {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(change.Replace(content)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				oldnew = append(oldnew, m.MountPath+"/", dir+"/")
			}
		}
	}
	return replacer{strings.NewReplacer(oldnew...)}
}
