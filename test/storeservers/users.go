package storeservers

import (
	"os/exec"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/test/proc"
)

// StartVersityGWWithUsers is StartVersityGW for a test that makes users and takes
// them away, which is known to the server at once.
func StartVersityGWWithUsers(t testing.TB) *S3 {
	t.Helper()
	return startVersityGW(t, "--iam-dir="+t.TempDir(), "--iam-cache-disable")
}

// MakeUser makes a user who may do everything.
func (s *S3) MakeUser(t testing.TB, accessKeyID, secretAccessKey string) {
	t.Helper()
	s.administrate(t, "create-user", "--access="+accessKeyID, "--secret="+secretAccessKey, "--role=admin")
}

// RemoveUser takes a user away.
func (s *S3) RemoveUser(t testing.TB, accessKeyID string) {
	t.Helper()
	s.administrate(t, "delete-user", "--access="+accessKeyID)
}

func (s *S3) administrate(t testing.TB, words ...string) {
	t.Helper()
	admin := []string{"admin", "--access=" + s.AccessKeyID, "--secret=" + s.SecretAccessKey, "--region=" + s.Region, "--endpoint-url=" + s.URL}
	if out, err := exec.CommandContext(t.Context(), proc.Tool(t, s.name), append(admin, words...)...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", s.name, words[0], err, out)
	}
}
