package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store/file"
	"github.com/etcd-ferry/etcd-ferry/syncobject"
	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
)

func TestDoctorHandOver(t *testing.T) {
	e := etcdtest.Start(t)
	dir := t.TempDir()
	line := []string{"--owner-id", "a", "--data-dir", e.DataDir, "--store", "file://" + dir}
	code, found := examined(t, line...)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	wantFinding(t, found, "hand-over: lease", resultOK, "2m0s")
	wantFinding(t, found, "hand-over: force", resultOK, "at least 3m26s is safe")
	wantFinding(t, found, "hand-over: clock", resultOK, "sleeps")
	wantFinding(t, found, "hand-over: signals", resultOK, "may be stopped")
	wantFinding(t, found, "state dir: place", resultOK, e.DataDir+".ferry")
	wantFinding(t, found, "state dir: filesystem", resultOK, "local")
	wantFinding(t, found, "hand-over: owner", resultOK, "nobody")
	wantFinding(t, found, "hand-over: object", resultOK, "no hand-over")
	if _, err := os.Stat(e.DataDir + ".ferry"); !os.IsNotExist(err) {
		t.Errorf("it made a state dir: %v", err)
	}

	e.Stop(t)
	claimedBy(t, dir, "z")
	_, found = examined(t, line...)
	wantFinding(t, found, "hand-over: signals", resultUnchecked, "shareProcessNamespace")
	wantFinding(t, found, "hand-over: owner", resultWarning, `Held by "z" in epoch 3`)
	wantFinding(t, found, "hand-over: object", resultWarning, `claimed by "z"`)
}

const presetTimes = syncobject.Seconds(time.Minute)

// claimedBy has an owner hold the container in a directory, and claim it.
func claimedBy(t *testing.T, dir, id string) {
	t.Helper()
	s := file.New(dir)
	_, _, err := syncobject.NewOwnerFile(s).Update(context.WithoutCancel(t.Context()), func(o syncobject.Owner) (syncobject.Owner, error) {
		return o.Hold(syncobject.Owner{ID: id, Epoch: 3, Lease: presetTimes, Kill: presetTimes, Watchdog: presetTimes})
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = syncobject.NewFile(s).Update(t.Context(), func(o syncobject.Object) (syncobject.Object, error) {
		return o.Claim(syncobject.Claim{ID: id, ForceAfter: time.Minute, At: time.Now()})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDoctorFindsTroubleOfAHandOver(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, name := range []string{"file", "owner.json", "copy-operation.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := "file://" + dir
	for name, test := range map[string]struct {
		args          []string
		check, detail string
	}{
		"short lease":         {[]string{"--lease", "20s"}, "hand-over: lease", "P + R < L/3"},
		"short wait":          {[]string{"--wait", "1m"}, "hand-over: force", "wait for at least 3m26s"},
		"state dir in a file": {[]string{"--data-dir", dir + "/etcd", "--state-dir", path}, "state dir: place", "not a directory"},
		"broken owner.json":   {[]string{"--store", store}, "hand-over: owner", "owner.json"},
		"broken object":       {[]string{"--store", store}, "hand-over: object", "copy-operation.json"},
		"strange filesystem":  {[]string{"--data-dir", dir + "/etcd", "--state-dir", "/proc"}, "state dir: filesystem", "does not know"},
	} {
		t.Run(name, func(t *testing.T) {
			code, found := examined(t, append([]string{"--owner-id", "a"}, test.args...)...)
			if code != codeFailed {
				t.Errorf("exit code %d", code)
			}
			wantFinding(t, found, test.check, resultFailed, test.detail)
		})
	}
}
