package storeservers

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// S3 is a server that speaks the protocol of Amazon S3, path style.
type S3 struct {
	*Server

	// The keys of the user who may do everything.
	AccessKeyID, SecretAccessKey string
	Region                       string
	// CAFile holds the certificate that the server shows; empty without TLS.
	CAFile string

	client *http.Client
	data   string // folder that holds the buckets
}

// Bucket makes an empty bucket. To both servers a folder is one.
func (s *S3) Bucket(t testing.TB) string {
	t.Helper()
	name := "bucket-" + strings.ToLower(rand.Text())
	if err := os.Mkdir(filepath.Join(s.data, name), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// Credentials returns a folder with the keys of the user, in the files of a
// mounted Secret.
func (s *S3) Credentials(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"accessKeyID": s.AccessKeyID, "secretAccessKey": s.SecretAccessKey, "region": s.Region,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// HTTP returns a client that trusts the certificate of the server.
func (s *S3) HTTP() *http.Client { return s.client }
