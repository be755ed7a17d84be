package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestStateDirIsOnTheVolumeOfTheDataDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volume", "etcd")
	if err := checkBeside(dir, dir+".ferry"); err != nil {
		t.Error(err)
	}
	err := checkBeside("/proc", "/proc.ferry") // a volume that is mounted at the data dir
	if err == nil || !strings.Contains(err.Error(), "one level above") || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("got %v", err)
	}
}
