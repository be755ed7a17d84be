package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// printed runs a command line with --print-config, an environment and a config
// file.
func printed(t *testing.T, line string, environ []string, file string) ran {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args := append(strings.Fields(line), "--print-config", "--config", path)
	code := run(t.Context(), system{args: args, environ: environ, stdout: &stdout, stderr: &stderr})
	return ran{code, strings.ReplaceAll(stdout.String(), path, "FILE"), stderr.String()}
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !slices.Contains(strings.Split(text, "\n"), want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

func TestPrintConfigTellsOrigins(t *testing.T) {
	got := printed(t, "server --delta-share=3 --full-schedule=", []string{"ETCD_FERRY_KEEP_LAST=7"}, `
# nothing here
store: s3://b/p?region=r
etcd-endpoints: [http://a:1, "http://b:2"]
implicit-fencing: false
wait: 1h # of another command
`)
	if got.code != 0 || got.stderr != "" {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	wantLines(t, got.stdout,
		"# etcd-ferry server",
		"delta-share: 3 # flag", `full-schedule: "" # flag`,
		"keep-last: 7 # environment variable ETCD_FERRY_KEEP_LAST",
		"store: s3://b/p?region=r # config file FILE, line 3",
		"etcd-endpoints: ['http://a:1', 'http://b:2'] # config file FILE, line 4",
		"implicit-fencing: false # config file FILE, line 5",
		"delta-period: 20s # default", "tls-allowed-san: [] # default",
	)
	for _, other := range []string{"wait", "help", "config", "print-config"} {
		if strings.Contains(got.stdout, "\n"+other+":") {
			t.Errorf("%s is printed", other)
		}
	}
}

// What was understood is printed beside the complaints.
func TestPrintConfigOfWrongUsage(t *testing.T) {
	got := printed(t, "server --delta-share=0", nil, "stor: file:///x\ndelta-period: soon\n")
	if got.code != 2 {
		t.Errorf("exit code %d, want 2", got.code)
	}
	wantLines(t, got.stdout, "delta-share: 0 # flag", "delta-period: 20s # default")
	for _, want := range []string{"did you mean store?", "--delta-period", "--delta-share must be above 0", "--store is missing"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("%q is missing in:\n%s", want, got.stderr)
		}
	}
}

// Whatever a secret was put into, it is not printed, and neither is it in the
// complaint.
func TestPrintConfigHidesSecrets(t *testing.T) {
	for flag, values := range map[string][]string{
		"store": {
			"s3://me:canary@b/p", "s3://canary@b", "s3://b/p?sessionToken=canary&region=r", "s3://b?endpoint=https://u:canary@h",
			"s3://b?endpoint=https%3A%2F%2Fu%3Acanary%40h", "s3://b/p#canary", "s3://b:canary%zz@p", "s3://b?region=%zzcanary",
		},
		"etcd-endpoints":  {"http://me:canary@h:1", "me:canary@h:1", "http://h:1?password=canary", "http://me:can/ary@h:1"},
		"initial-cluster": {"a=http://me:canary@h:1"},
	} {
		for _, value := range values {
			got := printed(t, "server --"+flag+"="+value, nil, "")
			if strings.Contains(got.stdout, "canary") || strings.Contains(got.stdout, "can/ary") || !strings.Contains(got.stdout, hidden) {
				t.Errorf("%s of %s:\n%s", flag, value, got.stdout)
			}
			if flag != "initial-cluster" && strings.Contains(got.stderr, "canary") {
				t.Errorf("%s of %s: %s", flag, value, got.stderr)
			}
		}
	}
	got := printed(t, "server --store=s3://me:canary@b/p?region=r&token=canary", nil, "")
	wantLines(t, got.stdout, "store: s3://***@b/p?region=r&token=*** # flag")
}

func TestPrintConfigOfEveryCommand(t *testing.T) {
	for _, c := range commands(newRoot(&app{})) {
		if c.HasSubCommands() || c.Hidden {
			continue
		}
		name := strings.TrimPrefix(c.CommandPath(), "etcd-ferry ")
		got := printed(t, name, []string{"ETCD_FERRY_LOG_LEVEL=warn"}, "")
		wantLines(t, got.stdout, "# etcd-ferry "+name, "log-level: warn # environment variable ETCD_FERRY_LOG_LEVEL")
		if got.code != 0 && got.code != 2 {
			t.Errorf("%s: exit code %d: %s", name, got.code, got.stderr)
		}
	}
}

// values are those of all flags of c.
func values(c *cobra.Command) map[string]string {
	all := map[string]string{}
	c.Flags().VisitAll(func(f *pflag.Flag) { all[f.Name] = f.Value.String() })
	delete(all, configFlag)
	return all
}

// FuzzConfigFile: whatever a config file says, either there is a complaint, or what
// is printed of it means the same.
func FuzzConfigFile(f *testing.F) {
	for _, seed := range []string{
		"", "---\n", "store: file:///x\n", "delta-share: .5\ndelta-limit: 8MiB\nkeep-last: 0x10\n",
		"etcd-endpoints: [a:1, \"b:2,c:3\"]\ntls-allowed-san: []\n", "log-level: |\n  a\n  b\n", "a: &a x\nstore: *a\n",
		"full-schedule: '0 */6 * * *' # c\n", "? [a]\n: b\n", "owner-id: \"\\0\\x85\\uFEFF\"\n", "etcd-endpoints: &x [*x]\n", "implicit-fencing: yes\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		read := func(content []byte) (*cobra.Command, origins, error) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			c, _, err := newRoot(&app{}).Find([]string{"server"})
			if err == nil {
				err = c.ParseFlags([]string{"--config", path})
			}
			if err != nil {
				t.Fatal(err)
			}
			from, err := configure(c, nil)
			return c, from, err
		}
		c, from, err := read(content)
		if err != nil {
			if !strings.Contains(err.Error(), "config.yaml") {
				t.Errorf("the complaint does not name the file: %v", err)
			}
			return
		}
		var out bytes.Buffer
		if err := printConfig(&out, c, from); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out.String(), hidden) {
			return
		}
		again, _, err := read(out.Bytes())
		if err != nil {
			t.Fatalf("%v in what was printed:\n%s", err, out.String())
		}
		want := values(c)
		for name, got := range values(again) {
			if got != want[name] {
				t.Errorf("%s is %q, printed and read it is %q:\n%s", name, want[name], got, out.String())
			}
		}
	})
}
