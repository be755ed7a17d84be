package e2e

import (
	"os"
	"strings"
	"testing"
)

func TestDemo(t *testing.T) {
	temp := t.TempDir()
	o := ferryWith(t, []string{"TMPDIR=" + temp}, "demo").wantSuccess(t)
	for _, want := range []string{"DISASTER", "the same", "lost: 0 of "} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("%q is missing in:\n%s", want, o.stdout)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v (%v)", left, err)
	}
}
