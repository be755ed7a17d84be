package s3_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

func testCredentialsAreReadAgain(t *testing.T, server *storeservers.S3) {
	cfg := config(t, server)
	dir := cfg.CredentialsDir
	s := open(t, cfg)
	swap := func() error {
		_, err := s.Swap(t.Context(), fmt.Sprint("object-", len(t.Name())), "none", []byte("x"))
		return err
	}
	steps := []struct {
		what, id, key string
		want          error
	}{
		{"a wrong key", server.AccessKeyID, "wrong", fs.ErrPermission},
		{"a wrong user", "wrong", server.SecretAccessKey, fs.ErrPermission},
		{"good files", server.AccessKeyID, server.SecretAccessKey, store.ErrChanged},
		{"an empty file keeps the old", "", server.SecretAccessKey, store.ErrChanged},
		{"garbage keeps the old", server.AccessKeyID, "two\nlines", store.ErrChanged},
		{"a wrong key again", server.AccessKeyID, "wrong", fs.ErrPermission},
		{"good files again", server.AccessKeyID, server.SecretAccessKey, store.ErrChanged},
	}
	for _, step := range steps {
		write(t, dir, "accessKeyID", step.id)
		write(t, dir, "secretAccessKey", step.key)
		if err := swap(); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.what, err, step.want)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := swap(); !errors.Is(err, store.ErrChanged) {
		t.Errorf("no files keep the old: %v", err)
	}
}

// The files of a mounted Secret change together, and so does where they point to.
func TestCredentialsMoveToAnotherServer(t *testing.T) {
	first, second := storeservers.StartVersityGW(t), storeservers.StartVersityGW(t)
	cfg := config(t, first)
	cfg.Endpoint, cfg.CredentialsDir = "", t.TempDir()
	mount := func(server *storeservers.S3) {
		state := t.TempDir()
		write(t, state, "accessKeyID", server.AccessKeyID)
		write(t, state, "secretAccessKey", server.SecretAccessKey)
		write(t, state, "region", server.Region)
		write(t, state, "endpoint", server.URL+"\n")
		link := filepath.Join(cfg.CredentialsDir, "..data")
		if err := errors.Join(os.Symlink(state, link+"_tmp"), os.Rename(link+"_tmp", link)); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, cfg)
	mount(first)
	create(t, s, "a", "x")
	mount(second)
	if _, err := s.List(t.Context(), ""); !errors.Is(err, store.ErrNoContainer) {
		t.Errorf("the other server has no such bucket, but: %v", err)
	}
}

// What is missing here is not an absent object.
func TestMissingFiles(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for name, cfg := range map[string]s3.Config{
		"credentials":  {CredentialsDir: missing},
		"CA":           {CAFile: missing},
		"customer key": {CustomerKeyFile: missing},
	} {
		cfg.Bucket, cfg.Endpoint = "bucket", "http://127.0.0.1:1"
		for op, err := range storetest.Everything(t, open(t, cfg), 0) {
			if errors.Is(err, fs.ErrNotExist) || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), missing) {
				t.Errorf("%s, %s: %v", name, op, err)
			}
		}
	}
}

// A token file that is not there, deep in the SDK, is not an absent object either.
func TestDefaultChain(t *testing.T) {
	server := storeservers.StartVersityGW(t)
	cfg := config(t, server)
	cfg.CredentialsDir = ""
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Run("token file missing", func(t *testing.T) {
		t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/backup")
		t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", filepath.Join(t.TempDir(), "none"))
		if _, _, err := open(t, cfg).Read(t.Context(), "a"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("environment", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", server.AccessKeyID)
		t.Setenv("AWS_SECRET_ACCESS_KEY", server.SecretAccessKey)
		t.Setenv("AWS_REGION", server.Region)
		create(t, open(t, cfg), "a", "x")
	})
}

func TestNoSecretIsShown(t *testing.T) {
	const canary = "CANARY-5e7d"
	server := storeservers.StartVersityGW(t)
	cfg := config(t, server)
	write(t, cfg.CredentialsDir, "secretAccessKey", canary+"-key")
	write(t, cfg.CredentialsDir, "sessionToken", canary+"-token")
	cfg.CustomerKeyFile = filepath.Join(cfg.CredentialsDir, "customer")
	write(t, cfg.CredentialsDir, "customer", (canary + strings.Repeat("x", 32))[:32])
	s := open(t, cfg)
	var shown strings.Builder
	for op, err := range storetest.Everything(t, s, 0) {
		if err == nil {
			t.Errorf("%s went well", op)
		}
		fmt.Fprintf(&shown, "%v %+v %#v\n", err, err, err)
	}
	write(t, cfg.CredentialsDir, "accessKeyID", canary+" \x00")
	_, err := open(t, cfg).List(t.Context(), "")
	fmt.Fprintf(&shown, "%v %s %+v %#v %+v %#v %+v %#v\n", err, s, s, s, *s, *s, cfg, cfg)
	slog.New(slog.NewJSONHandler(&shown, nil)).Info("x", "store", s, "config", cfg)
	slog.New(slog.NewTextHandler(&shown, nil)).Info("x", "store", s, "config", cfg)
	if _, err := s3.New(s3.Config{Bucket: "b", Endpoint: "https://user:" + canary + "@host"}); err == nil {
		t.Error("an endpoint with a password is accepted")
	} else {
		fmt.Fprintln(&shown, err)
	}
	if strings.Contains(shown.String(), canary) {
		t.Errorf("a secret is shown: %s", shown.String())
	}
}
