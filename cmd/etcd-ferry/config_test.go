package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// parsed returns a command whose flags come from a command line, an environment
// and, if it is not empty, a config file.
func parsed(t *testing.T, line string, environ []string, file string) (*cobra.Command, error) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		environ = append(slices.Clip(environ), "ETCD_FERRY_CONFIG="+path)
	}
	root := newRoot(&app{system: system{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}})
	c, args, err := root.Find(strings.Fields(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	_, err = configure(c, environ)
	return c, err
}

func TestPrecedence(t *testing.T) {
	environ := []string{"ETCD_FERRY_DELTA_PERIOD=2s", "HOME=/root"}
	const file = "delta-period: 3s\n"
	for name, test := range map[string]struct {
		line    string
		environ []string
		file    string
		want    string
	}{
		"default":               {"server", nil, "", "20s"},
		"file over default":     {"server", nil, file, "3s"},
		"environment over file": {"server", environ, file, "2s"},
		"flag over all":         {"server --delta-period=1s", environ, file, "1s"},
		"flag with the default": {"server --delta-period=20s", environ, file, "20s"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := parsed(t, test.line, test.environ, test.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Flags().Lookup("delta-period").Value.String(); got != test.want {
				t.Errorf("delta-period is %s, want %s", got, test.want)
			}
		})
	}
}

func TestFileValues(t *testing.T) {
	const file = `
etcd-endpoints: [http://a:1, "http://b:2"]
keep-last: 3
delta-share: 1.5
delta-limit: 8MiB
prune-period: 30m
full-schedule: 0 */2 * * *
log-level: debug
store: file:///backups   # a comment
`
	c, err := parsed(t, "server", nil, file)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"etcd-endpoints": "[http://a:1,http://b:2]", "keep-last": "3", "delta-share": "1.5", "delta-limit": "8MiB",
		"prune-period": "30m0s", "full-schedule": "0 */2 * * *", "log-level": "debug", "store": "file:///backups",
	} {
		if got := c.Flags().Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestTimesAndSwitchesInAFile(t *testing.T) {
	c, err := parsed(t, "restore", nil, "time: 2026-11-20T23:16:00Z\ndry-run: true\nrevision: 12345678901234\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"time": "2026-11-20T23:16:00Z", "dry-run": "true", "revision": "12345678901234"} {
		if got := c.Flags().Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestListInTheEnvironment(t *testing.T) {
	c, err := parsed(t, "snapshot full", []string{"ETCD_FERRY_ETCD_ENDPOINTS=http://a:1,http://b:2"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Flags().Lookup("etcd-endpoints").Value.String(); got != "[http://a:1,http://b:2]" {
		t.Errorf("etcd-endpoints is %s", got)
	}
}

func TestSettingsOfOtherCommandsArePassedOver(t *testing.T) {
	environ := []string{
		"ETCD_FERRY_KEEP_LAST=3",
		// Kubernetes sets these for Services named etcd-ferry and etcd-ferry-main.
		"ETCD_FERRY_SERVICE_HOST=10.0.0.1", "ETCD_FERRY_SERVICE_PORT=80", "ETCD_FERRY_SERVICE_PORT_HTTP=80",
		"ETCD_FERRY_PORT=tcp://10.0.0.1:80", "ETCD_FERRY_PORT_80_TCP=tcp://10.0.0.1:80", "ETCD_FERRY_PORT_80_TCP_ADDR=10.0.0.1",
		"ETCD_FERRY_MAIN_SERVICE_HOST=10.0.0.2", "ETCD_FERRY_MAIN_PORT_80_TCP_PROTO=tcp",
	}
	if _, err := parsed(t, "list", environ, "full-schedule: 0 0 * * *\n"); err != nil {
		t.Error(err)
	}
}

func TestAllComplaintsAtOnce(t *testing.T) {
	environ := []string{"ETCD_FERRY_STOR=x", "ETCD_FERRY_PRUNE_PERIOD=soon", "ETCD_FERRY_delta_limit=1"}
	const file = `
delta-period: 20
stores: file:///x
config: other.yaml
keep-last: [1, 2]
keep-daily: {of: me}
deltaShare: 3
keep-hourly:
keep-weekly: 1
keep-weekly: 2
`
	_, err := parsed(t, "server", environ, file)
	if err == nil {
		t.Fatal("no complaint")
	}
	for _, want := range []string{
		"ETCD_FERRY_STOR:", "ETCD_FERRY_PRUNE_PERIOD:", "ETCD_FERRY_delta_limit:",
		"did you mean ETCD_FERRY_STORE?", "config.yaml, line 2: invalid value for --delta-period:",
		"line 3: stores: there is no flag of that name, did you mean store?", "line 4: config: there is no flag",
		"line 5: invalid value for --keep-last:", "line 6: keep-daily: want a value", "line 7: deltaShare: there is no flag of that name, did you mean delta-share?",
		"line 8: keep-hourly: there is no value", "line 10: keep-weekly: it is on line 9 already",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestBadConfigFiles(t *testing.T) {
	for name, file := range map[string]string{
		"not YAML":        "a: b: c",
		"a list":          "[a, b]",
		"a key twice":     "store: file:///a\nstore: file:///b\n",
		"a document more": "store: file:///a\n---\nstore: file:///b\n",
		"a merged key":    "x: &x {store: file:///a}\n<<: *x\n",
		"a tag":           "store: !secret file:///a\n",
		"itself":          "etcd-endpoints: &x [*x]\n",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parsed(t, "server", nil, file); err == nil || !strings.Contains(err.Error(), "config.yaml") {
				t.Errorf("the complaint is %v, want one that names the file", err)
			}
		})
	}
	if _, err := parsed(t, "server --config=/no/such/file", nil, ""); err == nil {
		t.Error("a missing config file is accepted")
	}
}

func TestEmptyConfigFile(t *testing.T) {
	if _, err := parsed(t, "server", nil, "# nothing yet\n"); err != nil {
		t.Error(err)
	}
}
