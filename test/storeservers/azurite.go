package storeservers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Azurite is Microsoft's stand-in for Azure Blob Storage, with one account. It
// does not copy from URLs and knows no immutability. It needs Node.js.
type Azurite struct {
	*Server
	// Endpoint is the URL of the account.
	Endpoint string
	// Account and Key are the account's name and its secret.
	Account, Key string
}

// StartAzurite runs a server without containers.
func StartAzurite(t testing.TB) *Azurite {
	t.Helper()
	key := make([]byte, 64)
	rand.Read(key)
	a := &Azurite{Account: "ferry", Key: base64.StdEncoding.EncodeToString(key)}
	dir := t.TempDir()
	a.Server = start(t, command{
		program: "azurite/node_modules/.bin/azurite-blob",
		env:     []string{"AZURITE_ACCOUNTS=" + a.Account + ":" + a.Key},
		args: func(address string) []string {
			host, port, _ := net.SplitHostPort(address)
			return []string{
				"--blobHost", host, "--blobPort", port, "--location", dir,
				"--skipApiVersionCheck", "--disableTelemetry", "--silent",
			}
		},
	})
	a.Endpoint = a.URL + "/" + a.Account
	return a
}

// MakeContainer makes an empty container.
func (a *Azurite) MakeContainer(t testing.TB, name string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, a.Endpoint+"/"+name+"?restype=container", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	a.sign(request, name)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatalf("make container %s: %s", name, response.Status)
	}
}

// sign authorizes a request that makes a container.
func (a *Azurite) sign(request *http.Request, container string) {
	const version = "2021-12-02"
	now := time.Now().UTC().Format(http.TimeFormat)
	request.Header.Set("x-ms-date", now)
	request.Header.Set("x-ms-version", version)
	key, _ := base64.StdEncoding.DecodeString(a.Key)
	mac := hmac.New(sha256.New, key)
	// The account is named twice: by itself, and as the first part of the path.
	fmt.Fprintf(mac, "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:%s\nx-ms-version:%s\n/%[3]s/%[3]s/%s\nrestype:container",
		now, version, a.Account, container)
	request.Header.Set("Authorization", "SharedKey "+a.Account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// Credentials returns a folder with the account and its key, in the files of a
// mounted Secret.
func (a *Azurite) Credentials(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"storageAccount": a.Account, "storageKey": a.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
