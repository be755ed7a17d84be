package gcs_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/gcs"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// canary is a part of every secret here, and must be in no text.
const canary = "canary-8d1f"

// issuer is where service accounts get their tokens.
type issuer struct {
	url string

	mu     sync.Mutex
	status int // of its answers
	given  int
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(i.status)
		if i.status != http.StatusOK {
			fmt.Fprint(w, `{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}`)
			return
		}
		i.given++
		fmt.Fprintf(w, `{"access_token": "%s-token-%d", "token_type": "Bearer", "expires_in": 3600}`, canary, i.given)
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

func (i *issuer) answer(status int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status = status
}

// key returns a new key of a service account.
func (i *issuer) key(t *testing.T) string {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	key, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "ferry@example.test", "private_key_id": canary, "token_uri": i.url,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(key)
}

// mount puts a key into a directory of credentials.
func mount(t *testing.T, dir, key string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "serviceaccount.json"), []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
}

// guarded returns a store whose server sees tokens, and the last that it saw.
func guarded(t *testing.T) (s *gcs.Store, dir string, token func() string) {
	t.Helper()
	server := storeservers.StartGCS(t)
	cfg := config(t, server)
	var mu sync.Mutex
	var last string
	cfg.Endpoint = storetest.Proxy(t, server.URL, func(r *http.Request, forward func() *http.Response) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		last = r.Header.Get("Authorization")
		return forward()
	})
	cfg.CredentialsDir = t.TempDir()
	return open(t, cfg), cfg.CredentialsDir, func() string {
		mu.Lock()
		defer mu.Unlock()
		return last
	}
}

func TestKeyIsReplaced(t *testing.T) {
	s, dir, token := guarded(t)
	i := newIssuer(t)
	list := func(want string) {
		t.Helper()
		if _, err := s.List(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		if got := token(); got != "Bearer "+canary+want {
			t.Errorf("it came with %q, want %q", got, want)
		}
	}
	mount(t, dir, i.key(t))
	list("-token-1")
	list("-token-1")
	mount(t, dir, i.key(t))
	list("-token-2")
	mount(t, dir, `{"type": "service_acc`) // half written
	list("-token-2")
	if err := os.Remove(filepath.Join(dir, "serviceaccount.json")); err != nil {
		t.Fatal(err)
	}
	list("-token-2")
	mount(t, dir, i.key(t))
	list("-token-3")
}

func TestRefusedKey(t *testing.T) {
	s, dir, _ := guarded(t)
	i := newIssuer(t)
	mount(t, dir, i.key(t))
	i.answer(http.StatusBadRequest)
	for op, err := range storetest.Everything(t, s, 2*chunkSize) {
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "invalid_grant") {
			t.Errorf("%s: %v", op, err)
		}
		wantNoSecret(t, err)
	}
}

// An issuer that is down says nothing about the key.
func TestIssuerIsDown(t *testing.T) {
	s, dir, _ := guarded(t)
	mount(t, dir, strings.Replace(newIssuer(t).key(t), "http://127.0.0.1:", "http://127.0.0.1:1", 1))
	if _, err := s.List(t.Context(), ""); err == nil || store.IsPermanent(err) {
		t.Errorf("list: %v", err)
	}
}

func TestKeysThatAreNone(t *testing.T) {
	for name, key := range map[string]string{
		"nothing":               "",
		"no JSON":               canary,
		"cut off":               `{"type": "service_account", "private_key": "` + canary,
		"no key in it":          `{"type": "service_account", "client_email": "` + canary + `", "private_key": "` + canary + `"}`,
		"of another kind":       `{"type": "authorized_user", "client_secret": "` + canary + `"}`,
		"a URL for the private": `{"type": "external_account", "token_url": "http://` + canary + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			s, dir, _ := guarded(t)
			mount(t, dir, key)
			for op, err := range storetest.Everything(t, s, 2*chunkSize) {
				if !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", op, err)
				}
				wantNoSecret(t, err)
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		s, dir, _ := guarded(t)
		for op, err := range storetest.Everything(t, s, 2*chunkSize) {
			if !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: %v", op, err)
			}
		}
	})
}

func TestNoSecretInTexts(t *testing.T) {
	s, dir, _ := guarded(t)
	mount(t, dir, newIssuer(t).key(t))
	if _, err := s.List(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	wantNoSecret(t, s)
	wantNoSecret(t, *s) // a copy is what shows fields
	if got := s.String(); !strings.HasPrefix(got, "gs://bucket-") {
		t.Errorf("the store is called %q", got)
	}
}

// wantNoSecret checks everything that fmt makes of a value.
func wantNoSecret(t *testing.T, value any) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, value); strings.Contains(text, canary) || strings.Contains(text, "PRIVATE") {
			t.Errorf("%s shows a secret: %s", verb, text)
		}
	}
}

func TestConfigs(t *testing.T) {
	tests := []struct {
		config gcs.Config
		want   string // in the error
	}{
		{gcs.Config{}, "bucket"},
		{gcs.Config{Bucket: "a/b"}, "bucket"},
		{gcs.Config{Bucket: "b", Endpoint: "localhost:4443"}, "want a URL"},
		{gcs.Config{Bucket: "b", Endpoint: "ftp://host"}, "want a URL"},
		{gcs.Config{Bucket: "b", Endpoint: "http://%zz" + canary}, "want a URL"},
		{gcs.Config{Bucket: "b", Endpoint: "https://user:" + canary + "@host"}, "without user"},
		{gcs.Config{Bucket: "b", Endpoint: "https://host?key=" + canary}, "without user"},
		{gcs.Config{Bucket: "b", Endpoint: "https://host#" + canary}, "without user"},
	}
	for _, test := range tests {
		_, err := gcs.New(test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error is %v, want %q", err, test.want)
		}
		wantNoSecret(t, err)
	}
}
