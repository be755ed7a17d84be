package deploy

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// These are the parts of Kubernetes' objects that the tests look at. That there is
// nothing else in them that Kubernetes does not know has been checked when they were
// built.
type (
	object struct {
		Kind     string `json:"kind"`
		Metadata meta   `json:"metadata"`
		Data     map[string]string
		Spec     struct {
			Selector    selector `json:"selector"`
			PodSelector selector `json:"podSelector"` // of a NetworkPolicy
			Template    template `json:"template"`
			JobTemplate struct { // of a CronJob
				Spec struct {
					Template template `json:"template"`
				} `json:"spec"`
			} `json:"jobTemplate"`
			ServiceName string                    `json:"serviceName"`
			Replicas    int                       `json:"replicas"`
			Claims      []struct{ Metadata meta } `json:"volumeClaimTemplates"`
			Ports       []servicePort             `json:"ports"`
			Policy      struct {
				Rules []struct {
					OnExitCodes struct {
						ContainerName string
						Values        []int
					} `json:"onExitCodes"`
				}
			} `json:"podFailurePolicy"`
		} `json:"spec"`
	}
	meta struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	}
	// selector is matchLabels, or the labels alone, as a Service has them.
	selector    map[string]string
	servicePort struct {
		Name       string          `json:"name"`
		TargetPort json.RawMessage `json:"targetPort"`
	}
	template struct {
		Metadata meta    `json:"metadata"`
		Spec     podSpec `json:"spec"`
	}
	podSpec struct {
		ShareProcessNamespace bool            `json:"shareProcessNamespace"`
		Grace                 int             `json:"terminationGracePeriodSeconds"`
		Token                 *bool           `json:"automountServiceAccountToken"`
		Links                 *bool           `json:"enableServiceLinks"`
		HostPID               bool            `json:"hostPID"`
		HostNetwork           bool            `json:"hostNetwork"`
		Security              securityContext `json:"securityContext"`
		InitContainers        []containerSpec `json:"initContainers"`
		Containers            []containerSpec `json:"containers"`
		Volumes               []volume        `json:"volumes"`
	}
	securityContext struct {
		RunAsNonRoot             *bool `json:"runAsNonRoot"`
		RunAsUser                *int  `json:"runAsUser"`
		AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   *bool `json:"readOnlyRootFilesystem"`
		Privileged               *bool `json:"privileged"`
		Capabilities             struct{ Add, Drop []string }
		SeccompProfile           struct{ Type string }
	}
	containerSpec struct {
		Name      string          `json:"name"`
		Image     string          `json:"image"`
		Command   []string        `json:"command"`
		Args      []string        `json:"args"`
		Env       []variable      `json:"env"`
		Ports     []containerPort `json:"ports"`
		Readiness *probe          `json:"readinessProbe"`
		Liveness  *probe          `json:"livenessProbe"`
		Security  securityContext `json:"securityContext"`
		Mounts    []mount         `json:"volumeMounts"`
	}
	variable struct {
		Name      string `json:"name"`
		Value     string `json:"value"`
		ValueFrom *struct {
			FieldRef struct {
				FieldPath string `json:"fieldPath"`
			} `json:"fieldRef"`
		} `json:"valueFrom"`
	}
	containerPort struct {
		Name          string `json:"name"`
		ContainerPort int    `json:"containerPort"`
	}
	probe struct {
		HTTPGet struct {
			Path   string          `json:"path"`
			Port   json.RawMessage `json:"port"` // a number, or a name in quotes
			Scheme string          `json:"scheme"`
		} `json:"httpGet"`
		InitialDelay int `json:"initialDelaySeconds"`
		Period       int `json:"periodSeconds"`
		Timeout      int `json:"timeoutSeconds"`
		Failures     int `json:"failureThreshold"`
		Grace        int `json:"terminationGracePeriodSeconds"`
	}
	mount struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
		ReadOnly  bool   `json:"readOnly"`
	}
	volume struct {
		Name      string                 `json:"name"`
		EmptyDir  *struct{}              `json:"emptyDir"`
		HostPath  *struct{}              `json:"hostPath"`
		ConfigMap *struct{ Name string } `json:"configMap"`
		Secret    *struct {
			SecretName string `json:"secretName"`
		} `json:"secret"`
	}
)

func (s *selector) UnmarshalJSON(data []byte) error {
	var match struct {
		MatchLabels map[string]string `json:"matchLabels"`
	}
	if json.Unmarshal(data, &match) == nil && match.MatchLabels != nil {
		*s = match.MatchLabels
		return nil
	}
	return json.Unmarshal(data, (*map[string]string)(s))
}

// matches reports whether a pod with these labels is selected. Here no selector may
// mean everything.
func (s selector) matches(labels map[string]string) bool {
	for k, v := range s {
		if labels[k] != v {
			return false
		}
	}
	return len(s) > 0
}

// folders are all kustomizations.
func folders() []string {
	return []string{"base", "three-members", "three-members-tls", "copy-job", "copy-statefulset"}
}

// manifests are built once.
var manifests struct {
	sync.Mutex
	all map[string][]object
}

// build returns the objects of all kustomizations by folder.
func build(t *testing.T) map[string][]object {
	t.Helper()
	manifests.Lock()
	defer manifests.Unlock()
	if manifests.all != nil {
		return manifests.all
	}
	var args []string
	for _, f := range folders() {
		args = append(args, filepath.Join("..", "..", "deploy", "kustomize", f))
	}
	var stderr strings.Builder
	tool := exec.CommandContext(t.Context(), proc.Tool(t, "manifests"), args...)
	tool.Stderr = &stderr
	out, err := tool.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	var lists [][]object
	if err := json.Unmarshal(out, &lists); err != nil {
		t.Fatal(err)
	}
	manifests.all = map[string][]object{}
	for i, f := range folders() {
		manifests.all[f] = lists[i]
	}
	return manifests.all
}

// pod returns the template of the pods that o makes, nil if it makes none.
func (o *object) pod() *template {
	switch o.Kind {
	case "StatefulSet", "Job":
		return &o.Spec.Template
	case "CronJob":
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// find returns the object of a kind and a name. What a generator has added to the
// name does not count.
func find(t *testing.T, all []object, kind, name string) *object {
	t.Helper()
	for i, o := range all {
		if o.Kind == kind && (o.Metadata.Name == name || strings.HasPrefix(o.Metadata.Name, name+"-") && kind == "ConfigMap") {
			return &all[i]
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

func (s *podSpec) container(t *testing.T, name string) *containerSpec {
	t.Helper()
	for i, c := range s.Containers {
		if c.Name == name {
			return &s.Containers[i]
		}
	}
	t.Fatalf("there is no container %s", name)
	return nil
}

// environment returns the variables of c in a pod, one referring to those before it
// as Kubernetes has it.
func (c *containerSpec) environment(t *testing.T, pod string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, v := range c.Env {
		value := expand(v.Value, env)
		if v.ValueFrom != nil {
			if v.ValueFrom.FieldRef.FieldPath != "metadata.name" {
				t.Fatalf("%s comes from %s", v.Name, v.ValueFrom.FieldRef.FieldPath)
			}
			value = pod
		}
		env[v.Name] = value
	}
	return env
}

// expand replaces $(NAME) by what is known; the rest stays, as in Kubernetes.
func expand(s string, env map[string]string) string {
	for name, value := range env {
		s = strings.ReplaceAll(s, "$("+name+")", value)
	}
	return s
}

// line returns the whole command line of c in a pod. The entrypoint of our image is
// the program, that of etcd's is not relied on.
func (c *containerSpec) line(t *testing.T, pod string) []string {
	t.Helper()
	words := append([]string{}, c.Command...)
	if len(words) == 0 {
		if !strings.HasPrefix(c.Image, "etcd-ferry:") {
			t.Fatalf("container %s of image %s has no command", c.Name, c.Image)
		}
		words = []string{entrypoint}
	}
	env := c.environment(t, pod)
	for _, a := range c.Args {
		words = append(words, expand(a, env))
	}
	for _, w := range words {
		if strings.Contains(w, "$(") {
			t.Errorf("container %s: %s refers to no variable", c.Name, w)
		}
	}
	return words
}

// entrypoint is that of our image.
const entrypoint = "/etcd-ferry"
