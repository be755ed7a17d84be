package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

const (
	rulesFile     = "../../deploy/prometheus/rules.yaml"
	rulesTestFile = "../../deploy/prometheus/rules_test.yaml"
	dashboardFile = "../../deploy/grafana/dashboard.json"
	operations    = "../../docs/operations.md"
)

// rule is an alert.
type rule struct {
	Alert       string
	Expr        string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) (all []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(read(t, rulesFile), &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// query is an expression and the labels that its legend or text names.
type query struct {
	where, expr string
	names       []string
}

// queries are all that rules and dashboard ask for.
func queries(t *testing.T) (all []query) {
	t.Helper()
	for _, r := range alerts(t) {
		q := query{where: r.Alert, expr: r.Expr}
		for _, text := range r.Annotations {
			q.names = append(q.names, submatches(`\$labels\.(\w+)`, text)...)
		}
		all = append(all, q)
	}
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(read(t, dashboardFile), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 && p.Type != "row" {
			t.Errorf("panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, query{"panel " + p.Title, target.Expr, submatches(`\{\{(\w+)\}\}`, target.LegendFormat)})
		}
	}
	return all
}

func submatches(pattern, text string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// series are the values of the labels that each metric has.
type series map[string]map[string][]string

func parseMetrics(text string) series {
	all := series{
		// This one is of kube-state-metrics, as its documentation has it.
		"kube_cronjob_status_last_successful_time": {"cronjob": {"etcd-verify"}},
	}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)(\{.*\})? \S+$`).FindAllStringSubmatch(text, -1) {
		labels := all[m[1]]
		if labels == nil {
			labels = map[string][]string{}
			all[m[1]] = labels
		}
		for _, l := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			labels[l[1]] = append(labels[l[1]], l[2])
		}
	}
	return all
}

// ofTargets are labels that a scrape adds.
var ofTargets = []string{"namespace", "instance"}

// checkMonitoring wants each metric, label and value that rules and dashboard name to
// be in what was scraped.
func checkMonitoring(t *testing.T, text string) {
	scraped := parseMetrics(text)
	used := 0
	for _, q := range queries(t) {
		known := slices.Clone(ofTargets)
		for _, m := range regexp.MustCompile(`\b((?:etcd_ferry|process|go|kube)_\w+)\s*(\{[^}]*\})?`).FindAllStringSubmatch(q.expr, -1) {
			labels, ok := scraped[m[1]]
			if !ok {
				t.Errorf("%s: there is no metric %s", q.where, m[1])
				continue
			}
			used++
			for name := range labels {
				known = append(known, name)
			}
			for _, matcher := range regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
				checkMatcher(t, q.where, m[1], labels, matcher)
			}
		}
		for _, list := range submatches(`\b(?:by|on|without|ignoring)\s*\(([^)]*)\)`, q.expr) {
			for name := range strings.SplitSeq(list, ",") {
				if name = strings.TrimSpace(name); !slices.Contains(known, name) {
					t.Errorf("%s: no metric there has the label %s", q.where, name)
				}
			}
		}
		for _, name := range q.names {
			if !slices.Contains(known, name) {
				t.Errorf("%s: the text names the label %s, which no metric there has", q.where, name)
			}
		}
	}
	if used < 40 {
		t.Errorf("only %d uses of metrics found", used)
	}
}

func checkMatcher(t *testing.T, where, metric string, labels map[string][]string, matcher []string) {
	name, value := matcher[1], matcher[3]
	if slices.Contains(ofTargets, name) {
		return
	}
	for v := range strings.SplitSeq(value, "|") {
		if !slices.Contains(labels[name], v) {
			t.Errorf("%s: %s never has %s=%q, but %q", where, metric, name, v, slices.Compact(slices.Sorted(slices.Values(labels[name]))))
		}
	}
}

func promtool(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), proc.Tool(t, "promtool"), words...).CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", words, err, out)
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rulesFile)
	promtool(t, "test", "rules", rulesTestFile)
	tested := string(read(t, rulesTestFile))
	for _, r := range alerts(t) {
		if !strings.Contains(tested, r.Alert) {
			t.Errorf("no test lets %s fire", r.Alert)
		}
	}
}

// What the dashboard asks is PromQL.
func TestDashboardAsksInPromQL(t *testing.T) {
	t.Parallel()
	type record struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var records []record
	for i, q := range queries(t) {
		expr := strings.NewReplacer("$__rate_interval", "1m", "$namespace", ".*").Replace(q.expr)
		records = append(records, record{fmt.Sprintf("panel_%d", i), expr})
	}
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": records}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}

// Each alert has a heading in docs/operations.md, and leads to it.
func TestAlertsHaveARunbook(t *testing.T) {
	t.Parallel()
	headings := submatches(`(?m)^### (EtcdFerry\w+)$`, string(read(t, operations)))
	var names []string
	for _, r := range alerts(t) {
		names = append(names, r.Alert)
		want := "https://github.com/etcd-ferry/etcd-ferry/blob/main/docs/operations.md#" + strings.ToLower(r.Alert)
		if r.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %s", r.Alert, r.Annotations["runbook_url"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: summary, description or severity are missing", r.Alert)
		}
	}
	if !slices.Equal(names, headings) {
		t.Errorf("alerts are %q, headings in %s are %q", names, operations, headings)
	}
}
