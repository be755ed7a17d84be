package e2e

import (
	"os"
	"regexp"
	"testing"
)

func TestDemo(t *testing.T) {
	temp := t.TempDir()
	o := ferryWith(t, []string{"TMPDIR=" + temp}, "demo").wantSuccess(t)
	for _, want := range []string{
		`A's readiness probe answers 503`,
		`A is in state Ceded`,
		`decided by the source`,
		`B serves reads`,
		`past the gate: in 4\.0s it has served nobody`,
		`acknowledged  [\d,]{6,} writes: [\d,]{6,} by A, [1-9][\d,]* by B`,
		`lost          0 of [\d,]{6,} acknowledged writes`,
		`downtime      \d+\.\ds from the last write of A`,
	} {
		if !regexp.MustCompile(want).MatchString(o.stdout) {
			t.Errorf("%q is missing in:\n%s", want, o.stdout)
		}
	}
	hashes := regexp.MustCompile(`hash +(\w{8}) at the end of A, (\w{8}) in B`).FindStringSubmatch(o.stdout)
	if len(hashes) != 3 || hashes[1] != hashes[2] {
		t.Errorf("the hashes are %v in:\n%s", hashes, o.stdout)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("the demo left %v (%v)", left, err)
	}
}
