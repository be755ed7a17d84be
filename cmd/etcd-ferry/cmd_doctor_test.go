package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
)

// examined runs doctor and returns the exit code, and the findings by check.
func examined(t *testing.T, args ...string) (code int, found map[string]finding) {
	t.Helper()
	got := runLine(t.Context(), append([]string{"doctor", "-o", "json"}, args...)...)
	var d diagnosis
	if err := json.Unmarshal([]byte(got.stdout), &d); err != nil {
		t.Fatalf("%v in %s%s", err, got.stdout, got.stderr)
	}
	found = map[string]finding{}
	failed := 0
	for _, f := range d.Checks {
		found[f.Check] = f
		if f.Result == resultFailed {
			failed++
		}
	}
	if d.Failed != failed || (got.code == 0) != (failed == 0) || len(found) != len(d.Checks) {
		t.Errorf("exit code %d, and %+v", got.code, d)
	}
	return got.code, found
}

func wantFinding(t *testing.T, found map[string]finding, check, result, detail string) {
	t.Helper()
	if f := found[check]; f.Result != result || !strings.Contains(f.Detail, detail) {
		t.Errorf("%s is %q: %s; want %q and in it %q", check, f.Result, f.Detail, result, detail)
	}
}

func TestDoctorOnADirectory(t *testing.T) {
	dir := t.TempDir()
	code, found := examined(t, "--store", "file://"+dir, "--data-dir", filepath.Join(dir, "not", "yet"))
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, step := range store.ProbeSteps() {
		wantFinding(t, found, "store: "+step.Name, resultOK, step.Want)
	}
	wantFinding(t, found, "store: remove", resultOK, "nothing")
	wantFinding(t, found, "data dir: place", resultOK, dir)
	wantFinding(t, found, "data dir: room", resultUnchecked, "are free")
	for check, flag := range map[string]string{
		"source store": "--source-store", "etcd": "--etcd-endpoints", "recipients": "--recipients-file", "identities": "--identities-file",
	} {
		wantFinding(t, found, check, resultUnchecked, "give "+flag)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "[a-z]*")); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

func TestDoctorReadOnly(t *testing.T) {
	dir := t.TempDir()
	_, found := examined(t, "--store", "file://"+dir, "--read-only")
	wantFinding(t, found, "store: promises", resultUnchecked, "--read-only")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it wrote %v, %v", left, err)
	}
}

func TestDoctorFindsTrouble(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, []byte("no key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ flag, value, check, detail string }{
		"no store":             {"--store", "file://" + dir + "/missing", "store: reach", "volume mounted"},
		"no source store":      {"--source-store", "file://" + dir + "/missing", "source store: reach", "volume mounted"},
		"a strange filesystem": {"--store", "file:///proc", "store: place", "does not know"},
		"no etcd":              {"--etcd-endpoints", "http://127.0.0.1:1", "etcd http://127.0.0.1:1: reach", "refused"},
		"recipients":           {"--recipients-file", path, "recipients", "one key of age to a line"},
		"identities":           {"--identities-file", dir + "/missing", "identities", "no such file"},
		"not a directory":      {"--data-dir", path, "data dir: place", "not a directory"},
		"data dir in a file":   {"--data-dir", path + "/etcd", "data dir: place", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, found := examined(t, test.flag, test.value)
			if code != codeFailed {
				t.Errorf("exit code %d", code)
			}
			wantFinding(t, found, test.check, resultFailed, test.detail)
		})
	}
}

func TestDoctorUsage(t *testing.T) {
	for line, want := range map[string]string{
		"doctor":                                    "nothing to check: give at least one of --store",
		"doctor --store nonsense":                   "--store",
		"doctor --data-dir x --timeout 0s":          "--timeout must be above 0",
		"doctor --etcd-endpoints http://u:p@host:1": "--etcd-user-file",
	} {
		if got := runLine(t.Context(), strings.Fields(line)...); got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit code %d: %s", line, got.code, got.stderr)
		}
	}
}

func TestEtcdVersionsThatAreSupported(t *testing.T) {
	for version, result := range map[string]string{
		"3.5.35": resultOK, "3.7.0-rc.1": resultOK, "3.4.30": resultWarning, "3.50.1": resultWarning, "4.0.0": resultWarning,
	} {
		if got := checkEtcdVersion("", version).Result; got != result {
			t.Errorf("etcd %s: %s, want %s", version, got, result)
		}
	}
}
