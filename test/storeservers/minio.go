package storeservers

import (
	"crypto/rand"
	"encoding/base64"
	"path/filepath"
	"testing"
)

// KMSKey is the one key that StartMinIO's server can encrypt with.
const KMSKey = "test-key"

// StartMinIO runs a MinIO with one drive, that speaks TLS and can encrypt. It
// ignores If-Match when it deletes and If-None-Match when it copies, and lists
// multipart uploads only of the exact name that is asked for.
func StartMinIO(t testing.TB) *S3 {
	t.Helper()
	certs := t.TempDir()
	client := selfSigned(t, filepath.Join(certs, "public.crt"), filepath.Join(certs, "private.key"))
	s := &S3{
		AccessKeyID: "minio-user", SecretAccessKey: "minio-secret", Region: "eu-test-1",
		CAFile: filepath.Join(certs, "public.crt"), client: client, data: t.TempDir(),
	}
	key := make([]byte, 32)
	rand.Read(key)
	s.Server = start(t, command{
		program: "minio",
		scheme:  "https",
		client:  client,
		args: func(address string) []string {
			return []string{"server", "--quiet", "--address=" + address, "--certs-dir=" + certs, s.data}
		},
		env: []string{
			"MINIO_ROOT_USER=" + s.AccessKeyID, "MINIO_ROOT_PASSWORD=" + s.SecretAccessKey,
			"MINIO_REGION=" + s.Region, "MINIO_BROWSER=off", "MINIO_UPDATE=off",
			"MINIO_KMS_SECRET_KEY=" + KMSKey + ":" + base64.StdEncoding.EncodeToString(key),
		},
	})
	return s
}
