package s3_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// answering returns a store whose server gives one answer to everything.
func answering(t *testing.T, status int, header http.Header, body string) *s3.Store {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "accessKeyID", "id")
	write(t, dir, "secretAccessKey", "secret")
	return open(t, s3.Config{Bucket: "bucket", Endpoint: storetest.Answering(t, status, header, body), PathStyle: true, CredentialsDir: dir})
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Only S3 can say that something is absent, taken or forbidden.
func TestNonsense(t *testing.T) {
	const html = "<html><head><title>Hello</title></head><body>Welcome to the hotel</body></html>"
	for _, status := range []int{200, 301, 401, 403, 404, 409, 500, 502} {
		for name, body := range map[string]string{"html": html, "empty": "", "text": "Not here", "torn": "<Error><Code>NoSuchK"} {
			if status == 200 && body == "" {
				continue
			}
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				s := answering(t, status, nil, body)
				for op, err := range storetest.Everything(t, s, 0) {
					if op == "remove" && status == 200 {
						continue // there is nothing in such an answer
					}
					if err == nil || store.IsPermanent(err) || errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s: %v", op, err)
					}
				}
			})
		}
	}
}

func TestAnswers(t *testing.T) {
	for code, test := range map[string]struct {
		status int
		want   error
		advice string
	}{
		"AccessDenied":          {403, fs.ErrPermission, "give the user of these credentials s3:"},
		"InvalidAccessKeyId":    {403, fs.ErrPermission, "credentials"},
		"SignatureDoesNotMatch": {403, fs.ErrPermission, "credentials"},
		"ExpiredToken":          {400, fs.ErrPermission, "credentials"},
		"RequestTimeTooSkewed":  {403, fs.ErrPermission, "clock"},
		"PermanentRedirect":     {301, fs.ErrInvalid, "region"},
		"NotImplemented":        {501, fs.ErrInvalid, "conditional writes"},
		"NoSuchBucket":          {404, store.ErrNoContainer, "bucket"},
	} {
		t.Run(code, func(t *testing.T) {
			s := answering(t, test.status, nil, "<Error><Code>"+code+"</Code><Message>what it says</Message></Error>")
			for op, err := range storetest.Everything(t, s, partSize+1) {
				if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.advice) || !strings.Contains(err.Error(), "what it says") {
					t.Errorf("%s: %v", op, err)
				}
			}
		})
	}
	for _, code := range []string{"ConditionalRequestConflict", "SlowDown", "InternalError", "RequestTimeout"} {
		for op, err := range storetest.Everything(t, answering(t, 409, nil, "<Error><Code>"+code+"</Code></Error>"), 0) {
			if store.IsPermanent(err) || !strings.Contains(err.Error(), code) {
				t.Errorf("%s, %s: %v", code, op, err)
			}
		}
	}
}

func TestSlowDown(t *testing.T) {
	s := answering(t, 503, http.Header{"Retry-After": {"1"}}, "<Error><Code>SlowDown</Code></Error>")
	retried := store.Retry(s)
	retried.Attempts, retried.Base = 2, 1
	began := time.Now()
	if _, _, err := retried.Read(t.Context(), "a"); err == nil || time.Since(began) < time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A server that does not answer is an error that can be retried.
func TestStall(t *testing.T) {
	server := storeservers.StartVersityGW(t)
	cfg := config(t, server)
	cfg.Stall = 300 * time.Millisecond
	s := open(t, cfg)
	version := create(t, s, "a", "x").Version
	server.Pause()
	for op, call := range map[string]func() error{
		"read": func() error { _, _, err := s.Read(t.Context(), "a"); return err },
		"swap": func() error { _, err := s.Swap(t.Context(), "a", version, []byte("y")); return err },
	} {
		if err := call(); err == nil || store.IsPermanent(err) {
			t.Errorf("%s: %v", op, err)
		}
	}
	server.Resume()
	if _, _, err := s.Read(t.Context(), "a"); err != nil {
		t.Error(err)
	}
}
