package azure_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/azure"
	"github.com/etcd-ferry/etcd-ferry/store/storetest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// canary is a part of secrets here, and must be in no text.
const canary = "canary8d1f"

// credentials returns a directory with files of these names and contents.
func credentials(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	mount(t, dir, files...)
	return dir
}

func mount(t *testing.T, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// signature returns a shared access signature that allows what the store does.
func signature(t *testing.T, server *storeservers.Azurite) string {
	t.Helper()
	key, err := service.NewSharedKeyCredential(server.Account, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	c, err := service.NewClientWithSharedKeyCredential(server.Endpoint, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.GetSASURL(
		sas.AccountResourceTypes{Container: true, Object: true},
		sas.AccountPermissions{Read: true, Write: true, List: true, Delete: true, Create: true},
		time.Now().Add(time.Hour), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, query, _ := strings.Cut(url, "?")
	return query
}

func testCredentials(t *testing.T, server *storeservers.Azurite) {
	connection := fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;", server.Account, server.Key, server.Endpoint)
	for name, files := range map[string][]string{
		"key":                       {"storageAccount", server.Account, "storageKey", server.Key},
		"signature":                 {"storageAccount", server.Account, "sasToken", signature(t, server)},
		"signature, as portals say": {"storageAccount", server.Account, "sasToken", "?" + signature(t, server)},
		"connection string":         {"connectionString", connection},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, server)
			cfg.CredentialsDir = credentials(t, files...)
			if name == "connection string" {
				cfg.Endpoint = ""
			}
			s := open(t, cfg)
			create(t, s, "a", "x")
			if infos, err := s.List(t.Context(), ""); err != nil || len(infos) != 1 {
				t.Errorf("it lists %v, %v", infos, err)
			}
			for _, secret := range []string{server.Key, "sig="} {
				wantNot(t, s, secret)
				wantNot(t, *s, secret) // a copy is what shows fields
				wantNot(t, cfg, secret)
			}
		})
	}
}

func testKeyIsReplaced(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	old := base64.StdEncoding.EncodeToString([]byte("this is not the key"))
	cfg.CredentialsDir = credentials(t, "storageAccount", server.Account, "storageKey", old)
	s := open(t, cfg)
	for op, err := range storetest.Everything(t, s, 2*blockSize) {
		if !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", op, err)
		}
		wantNot(t, err, old)
	}
	mount(t, cfg.CredentialsDir, "storageKey", server.Key)
	create(t, s, "a", "x")
	mount(t, cfg.CredentialsDir, "storageKey", "not even base64, half written")
	create(t, s, "b", "x")
	if err := os.Remove(filepath.Join(cfg.CredentialsDir, "storageAccount")); err != nil {
		t.Fatal(err)
	}
	create(t, s, "c", "x")
	mount(t, cfg.CredentialsDir, "storageAccount", server.Account, "storageKey", old)
	if _, err := s.List(t.Context(), ""); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("list with another key: %v", err)
	}
}

// Kubernetes replaces all files at once, by a link.
func testMountedSecretIsReadAsOne(t *testing.T, server *storeservers.Azurite) {
	cfg := config(t, server)
	cfg.CredentialsDir = t.TempDir()
	data := filepath.Join(cfg.CredentialsDir, "..data")
	if err := os.Symlink(server.Credentials(t), data); err != nil {
		t.Fatal(err)
	}
	create(t, open(t, cfg), "a", "x")
}

func TestCredentialsThatAreNone(t *testing.T) {
	for name, files := range map[string][]string{
		"nothing":                          {},
		"no account":                       {"storageKey", canary},
		"no base64":                        {"storageAccount", "a", "storageKey", canary + "!"},
		"a connection string that is none": {"connectionString", canary},
		"a connection string without key":  {"connectionString", "AccountName=" + canary},
		"an endpoint that is none":         {"connectionString", "BlobEndpoint=http://%zz" + canary + ";SharedAccessSignature=sig=" + canary},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, azure.Config{Container: "c", Endpoint: "http://127.0.0.1:1", CredentialsDir: credentials(t, files...)})
			for op, err := range storetest.Everything(t, s, 2*blockSize) {
				if !errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v", op, err)
				}
				wantNot(t, err, canary)
			}
		})
	}
}

// A request that fails is told without its query, which is the signature.
func TestNoSignatureInErrors(t *testing.T) {
	dir := credentials(t, "storageAccount", "a", "sasToken", "sv=1&sig="+canary)
	for name, endpoint := range map[string]string{
		"nobody there": "http://127.0.0.1:1",
		"refused":      storetest.Answering(t, 403, header("X-Ms-Error-Code: AuthenticationFailed"), "sig="+canary),
		"unavailable":  storetest.Answering(t, 501, nil, "sig="+canary),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, azure.Config{Container: "c", Endpoint: endpoint, CredentialsDir: dir})
			_, listErr := s.List(t.Context(), "")
			_, _, openErr := s.Open(t.Context(), "a")
			_, swapErr := s.Swap(t.Context(), "a", "1", []byte("x"))
			for _, err := range []error{listErr, openErr, swapErr} {
				if err == nil || store.IsPermanent(err) != (name == "refused") {
					t.Errorf("error is %v", err)
				}
				wantNot(t, err, canary)
			}
		})
	}
}

// wantNot checks that no verb of fmt shows a secret of value.
func wantNot(t *testing.T, value any, secret string) {
	t.Helper()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, value); strings.Contains(text, secret) {
			t.Errorf("%s shows a secret: %s", verb, text)
		}
	}
}

func TestConfigs(t *testing.T) {
	tests := []struct {
		config azure.Config
		want   string // in the error
	}{
		{azure.Config{}, "container"},
		{azure.Config{Container: "a/b", Endpoint: "http://host"}, "container"},
		{azure.Config{Container: "c"}, "endpoint"},
		{azure.Config{Container: "c", Endpoint: "account"}, "want a URL"},
		{azure.Config{Container: "c", Endpoint: "ftp://host"}, "want a URL"},
		{azure.Config{Container: "c", Endpoint: "http://%zz" + canary}, "want a URL"},
		{azure.Config{Container: "c", Endpoint: "https://user:" + canary + "@host"}, "without user"},
		{azure.Config{Container: "c", Endpoint: "https://host?sig=" + canary}, "without user"},
		{azure.Config{Container: "c", Endpoint: "https://host#" + canary}, "without user"},
	}
	for _, test := range tests {
		_, err := azure.New(test.config)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error is %v, want %q", err, test.want)
		}
		wantNot(t, err, canary)
	}
}
