package storeservers

import (
	"net/http"
	"slices"
	"testing"
)

// StartVersityGW runs a versitygw that keeps objects as files. It ignores
// If-None-Match when it copies, knows neither SSE nor retention without a
// bucket's consent, and does not speak TLS here.
func StartVersityGW(t testing.TB) *S3 {
	t.Helper()
	return startVersityGW(t)
}

// startVersityGW is StartVersityGW with more flags.
func startVersityGW(t testing.TB, more ...string) *S3 {
	t.Helper()
	s := &S3{
		AccessKeyID: "versity-user", SecretAccessKey: "versity-secret", Region: "eu-test-1",
		client: http.DefaultClient, data: t.TempDir(),
	}
	s.Server = start(t, command{
		program: "versitygw",
		args: func(address string) []string {
			flags := []string{
				"--port=" + address, "--quiet", "--keep-alive",
				"--access=" + s.AccessKeyID, "--secret=" + s.SecretAccessKey, "--region=" + s.Region,
			}
			return slices.Concat(flags, more, []string{"posix", s.data})
		},
	})
	return s
}
