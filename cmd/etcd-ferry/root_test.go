package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/restorer"
)

var update = flag.Bool("update", false, "write the golden files anew")

// ran is the outcome of a command line.
type ran struct {
	code           int
	stdout, stderr string
}

func runLine(ctx context.Context, args ...string) ran {
	var stdout, stderr bytes.Buffer
	code := run(ctx, system{args: args, stdout: &stdout, stderr: &stderr})
	return ran{code, stdout.String(), stderr.String()}
}

func TestHelp(t *testing.T) {
	golden := filepath.Join("testdata", "help.golden")
	got := runLine(t.Context(), "--help")
	if *update {
		if err := os.WriteFile(golden, []byte(got.stdout), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.stdout != string(want) || got.code != 0 {
		t.Errorf("exit code %d; the help is not that of %s (-update writes it anew):\n%s", got.code, golden, got.stdout)
	}
}

// commands returns all commands, groups too.
func commands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, commands(sub)...)
	}
	return all
}

func TestEveryHelpTellsTheExitCodes(t *testing.T) {
	for _, c := range commands(newRoot(&app{})) {
		line := strings.Fields(c.CommandPath() + " --help")[1:]
		got := runLine(t.Context(), line...)
		if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, exitHelp()) {
			t.Errorf("%v: exit code %d, help without exit codes:\n%s%s", line, got.code, got.stdout, got.stderr)
		}
	}
}

func TestEveryFlagIsExplained(t *testing.T) {
	for _, c := range commands(newRoot(&app{})) {
		if c.Short == "" {
			t.Errorf("%s has no short help", c.CommandPath())
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s has no help", c.CommandPath(), f.Name)
			}
		})
	}
}

func TestWrongUsage(t *testing.T) {
	for line, want := range map[string][]string{
		"restor":                 {`unknown command "restor"`, "restore", "see: etcd-ferry --help"},
		"snapshot":               {"needs one of the commands full, delta"},
		"snapshot ful --store x": {`unknown command "ful"`, "did you mean full?"},
		"snapshot everything":    {"did you mean full or delta?"},
		"list --stor file:///x":  {"unknown flag: --stor", "see: etcd-ferry list --help"},
		"list extra":             {`unknown command "extra"`},
		"snapshot full -o xml":   {"--store is missing", `--output "xml"`},
		"list --store file:///x --log-level loud --log-format xml":                          {`--log-level "loud"`, `--log-format "xml"`},
		"prune --store file:///x":                                                           {"give at least one --keep"},
		"prune --store file:///x --keep-last -1":                                            {"must not be below 0"},
		"server --store file:///x --etcd-endpoints=":                                        {"--etcd-endpoints is empty"},
		"server --store file:///x --full-schedule=daily --listen=80":                        {"--full-schedule", "five fields", "--listen"},
		"server --store file:///x --defrag-schedule=often --defrag-free-share=1":            {"--defrag-schedule", "five fields", "--defrag-free-share"},
		"server --store file:///x --delta-limit 1.5GB":                                      {"--delta-limit", "16MiB"},
		"server --store file:///x --pprof-listen :6060":                                     {"--pprof-listen", "--pprof-from-anywhere"},
		"server --store file:///x --pprof-from-anywhere":                                    {"needs --pprof-listen"},
		"server --store file:///x --tls-cert c --tls-allowed-san n":                         {"--tls-cert and --tls-key go together", "needs --tls-client-ca"},
		"verify --store file:///x --listen :1 --tls-key k":                                  {"--tls-cert and --tls-key go together"},
		"copy --store file:///x --source-store file:///y --owner-id b --tls-client-ca c":    {"--tls-client-ca needs --tls-cert"},
		"restore --store file:///x":                                                         {"--data-dir is missing"},
		"restore --store file:///x --data-dir d --time yesterday":                           {`--time "yesterday"`},
		"restore --store file:///x --data-dir d --name b --initial-cluster a=http://a:2380": {"--initial-cluster"},
		"restore --store file:///x --data-dir d --bump-revision 1":                          {"--mark-compacted"},
		"restore --store file:///x --data-dir d --revision 5 --time 2026-01-02T03:04:05Z":   {"exclude each other"},
		"snapshot full --store file:///x --etcd-cert c":                                     {"--etcd-cert and --etcd-key belong together"},
	} {
		t.Run(line, func(t *testing.T) {
			got := runLine(t.Context(), strings.Fields(line)...)
			if got.code != 2 || got.stdout != "" {
				t.Errorf("exit code %d, want 2; stdout %q", got.code, got.stdout)
			}
			for _, part := range want {
				if !strings.Contains(got.stderr, part) {
					t.Errorf("%q is missing in:\n%s", part, got.stderr)
				}
			}
		})
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("a signal came"))
	got := runLine(ctx, "list", "--store", "file://"+t.TempDir())
	if got.code != 1 || !strings.Contains(got.stderr, "error: interrupted, a signal came") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

func TestVersionInAllFormats(t *testing.T) {
	for format, want := range map[string]string{"table": "etcd-ferry  ", "json": `"version": "`, "yaml": "version: "} {
		if got := runLine(t.Context(), "version", "-o", format); got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("%s: exit code %d, %s", format, got.code, got.stdout)
		}
	}
}

func TestScheduleIsInUTC(t *testing.T) {
	s, err := parseSchedule("0 6 * * *")
	if err != nil {
		t.Fatal(err)
	}
	zone := time.FixedZone("east", 5*60*60)
	got := s.Next(time.Date(2026, 11, 20, 12, 0, 0, 0, zone)) // 07:00 UTC
	if want := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("the next full is due at %s, want %s", got, want)
	}
	if _, err := parseSchedule("0 0 31 2 *"); err == nil {
		t.Error("a day that never comes is accepted")
	}
	if s, err := parseSchedule(""); s != nil || err != nil {
		t.Errorf("no schedule is %v, %v", s, err)
	}
}

func TestStartLine(t *testing.T) {
	single := restorer.Options{Name: "default", InitialCluster: "default=http://localhost:2380"}
	if got, want := startLine("/var/lib/etcd", single), "etcd --data-dir /var/lib/etcd --name default"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	member := restorer.Options{Name: "a", InitialCluster: "a=http://a:1,b=http://b:1", PeerURLs: []string{"http://a:1"}}
	want := `etcd --data-dir '/it'\''s here' --name a --initial-cluster a=http://a:1,b=http://b:1 --initial-advertise-peer-urls http://a:1`
	if got := startLine("/it's here", member); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
