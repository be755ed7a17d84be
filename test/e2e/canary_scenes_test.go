package e2e

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-ferry/etcd-ferry/test/etcdtest"
	"github.com/etcd-ferry/etcd-ferry/test/storeservers"
)

// nowhere is where nobody listens.
const nowhere = "http://127.0.0.1:1"

func always(string) bool { return true }
func never(string) bool  { return false }

// stage is what scenes have in common: an etcd with a password, a key pair, and
// all secrets.
type stage struct {
	secrets secrets
	base    scene // without a store
}

func newStage(t *testing.T) *stage {
	t.Helper()
	e := etcdtest.Start(t)
	e.EnableAuth(t)
	k := newKeys(t)
	return &stage{
		secrets: secrets{
			"etcd password": e.Auth.Password,
			"age identity":  k.identity.String(),
		},
		base: scene{
			etcd:       []string{endpoints(e), "--etcd-user-file=" + e.Auth.File},
			recipients: []string{k.recipients}, identities: []string{k.identities}, fails: never,
		},
	}
}

// secret returns a new secret, which is looked for from now on.
func (s *stage) secret(name string) string {
	value := "canary-" + rand.Text()
	s.secrets[name] = value
	return value
}

// at returns a scene with a store.
func (s *stage) at(store, credentials string, fails func(string) bool) scene {
	scene := s.base
	scene.store, scene.fails = []string{"--store=" + store}, fails
	if credentials != "" {
		scene.store = append(scene.store, "--store-credentials="+credentials)
	}
	scene.environ = []string{"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"}
	return scene
}

// folder makes a directory of files.
func folder(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// with returns files with others in place of some.
func with(content, changes map[string]string) map[string]string {
	changed := maps.Clone(content)
	maps.Copy(changed, changes)
	return changed
}

// scenes are all there are, by kind of credentials and what is wrong with them.
func (s *stage) scenes(t *testing.T) map[string]map[string]scene {
	t.Helper()
	azurite := storeservers.StartAzurite(t)
	return map[string]map[string]scene{
		"etcd and age":             s.directoryScenes(t),
		"s3 with an own key":       s.s3Scenes(t),
		"s3 from the environment":  s.s3EnvironmentScenes(t),
		"gcs":                      s.gcsScenes(t),
		"azure, key":               s.azureScenes(t, azurite, "key", map[string]string{"storageAccount": azurite.Account, "storageKey": azurite.Key}),
		"azure, signature":         s.azureScenes(t, azurite, "sas", map[string]string{"storageAccount": azurite.Account, "sasToken": s.sas(azurite)}),
		"azure, connection string": s.azureScenes(t, azurite, "connection", map[string]string{"connectionString": connection(azurite.Endpoint, azurite.Account, azurite.Key)}),
	}
}

func (s *stage) directoryScenes(t *testing.T) map[string]scene {
	t.Helper()
	open := func(fails ...string) scene {
		return s.at("file://"+t.TempDir(), "", func(command string) bool {
			for _, f := range fails {
				if strings.HasPrefix(command, f) {
					return true
				}
			}
			return false
		})
	}
	// Without snapshots nothing else works either.
	broken := []string{"snapshot", "verify", "restore", "doctor", "server", "copy", "list-", "prune-"}
	wrong, malformed := open(broken...), open(broken...)
	dir := folder(t, map[string]string{
		"wrong":     "root:" + s.secret("wrong etcd password"),
		"malformed": s.secret("etcd password without a user"),
		"key":       strings.Replace(s.secrets["age identity"], "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-1Q", 1),
		"no key":    s.secret("age identity of an unknown kind"),
	})
	endpoint := s.base.etcd[0]
	wrong.etcd = []string{endpoint, "--etcd-user-file=" + filepath.Join(dir, "wrong")}
	wrong.identities = []string{"--identities-file=" + filepath.Join(dir, "key")}
	malformed.etcd = []string{endpoint, "--etcd-user-file=" + filepath.Join(dir, "malformed")}
	malformed.identities = []string{"--identities-file=" + filepath.Join(dir, "no key")}
	malformed.recipients = []string{"--recipients-file=" + filepath.Join(dir, "no key")}
	return map[string]scene{"right": open(), "wrong": wrong, "malformed": malformed}
}

func (s *stage) s3Scenes(t *testing.T) map[string]scene {
	t.Helper()
	server := storeservers.StartMinIO(t)
	s.secrets["s3 key"] = server.SecretAccessKey
	right := map[string]string{
		"accessKeyID": server.AccessKeyID, "secretAccessKey": server.SecretAccessKey, "region": server.Region,
		"customer": s.secret("s3 customer key")[:32],
	}
	s.secrets["s3 customer key"] = right["customer"]
	at := func(endpoint string, content map[string]string, fails func(string) bool) scene {
		dir := folder(t, content)
		return s.at(fmt.Sprintf("s3://%s/prefix?endpoint=%s&pathStyle=true&caFile=%s&customerKeyFile=%s",
			server.Bucket(t), endpoint, server.CAFile, filepath.Join(dir, "customer")), dir, fails)
	}
	return map[string]scene{
		"right":       at(server.URL, right, never),
		"unreachable": at(nowhere, right, always),
		"wrong key":   at(server.URL, with(right, map[string]string{"secretAccessKey": s.secret("wrong s3 key")}), always),
		"wrong id":    at(server.URL, with(right, map[string]string{"accessKeyID": s.secret("wrong s3 key id")}), always),
		"wrong token": at(server.URL, with(right, map[string]string{"sessionToken": s.secret("wrong s3 token")}), always),
		"long key":    at(server.URL, with(right, map[string]string{"customer": s.secret("long customer key")}), always),
		"malformed":   at(server.URL, with(right, map[string]string{"secretAccessKey": s.secret("s3 key before a space") + " \x00"}), always),
	}
}

func (s *stage) s3EnvironmentScenes(t *testing.T) map[string]scene {
	t.Helper()
	server := storeservers.StartVersityGW(t)
	s.secrets["s3 key in the environment"] = server.SecretAccessKey
	at := func(endpoint, key, token string, fails func(string) bool) scene {
		scene := s.at(fmt.Sprintf("s3://%s?endpoint=%s&pathStyle=true&region=%s", server.Bucket(t), endpoint, server.Region), "", fails)
		scene.environ = append(scene.environ, "AWS_ACCESS_KEY_ID="+server.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+key, "AWS_SESSION_TOKEN="+token)
		return scene
	}
	return map[string]scene{
		"right":       at(server.URL, server.SecretAccessKey, "", never),
		"unreachable": at(nowhere, server.SecretAccessKey, s.secret("s3 token"), always),
		"wrong key":   at(server.URL, s.secret("wrong s3 key in the environment"), "", always),
		"wrong token": at(server.URL, server.SecretAccessKey, s.secret("wrong s3 token in the environment"), always),
	}
}

func (s *stage) gcsScenes(t *testing.T) map[string]scene {
	t.Helper()
	server := storeservers.StartGCS(t)
	server.MakeBucket(t, "bucket")
	token := s.secret("gcs token")
	issuer := func(status int, answer string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprint(w, answer)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	willing := issuer(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token))
	right := map[string]string{"serviceaccount.json": s.serviceAccount(t, willing)}
	refused := map[string]string{"serviceaccount.json": s.serviceAccount(t, issuer(http.StatusBadRequest, `{"error":"invalid_grant"}`))}
	cut := map[string]string{"serviceaccount.json": right["serviceaccount.json"][:len(right["serviceaccount.json"])/2]}
	at := func(endpoint string, content map[string]string, fails func(string) bool) scene {
		return s.at("gs://bucket/"+strings.ToLower(rand.Text())+"?endpoint="+endpoint, folder(t, content), fails)
	}
	return map[string]scene{
		"right":       at(server.URL, right, never),
		"unreachable": at(nowhere, right, always),
		"refused":     at(server.URL, refused, always),
		"cut off":     at(server.URL, cut, always),
	}
}

// serviceAccount returns the JSON of a new key. Every line of it is a secret.
func (s *stage) serviceAccount(t *testing.T, tokens string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	body := strings.Split(strings.TrimSpace(block), "\n")
	s.secrets[fmt.Sprintf("gcs key %d", len(s.secrets))] = strings.Join(body[1:len(body)-2], "\n")
	text, err := json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": "test", "client_email": "backup@test.iam.gserviceaccount.com", "client_id": "1",
		"private_key_id": s.secret(fmt.Sprintf("gcs key id %d", len(s.secrets))), "private_key": block, "token_uri": tokens,
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (s *stage) azureScenes(t *testing.T, server *storeservers.Azurite, kind string, right map[string]string) map[string]scene {
	t.Helper()
	s.secrets["azure key"] = server.Key
	server.MakeContainer(t, kind)
	at := func(endpoint string, content map[string]string, fails func(string) bool) scene {
		return s.at("azblob://"+kind+"/"+strings.ToLower(rand.Text())+"?endpoint="+endpoint, folder(t, content), fails)
	}
	lost, wrong, malformed := maps.Clone(right), maps.Clone(right), maps.Clone(right)
	otherKey := base64.StdEncoding.EncodeToString([]byte(s.secret("wrong azure key, " + kind)))
	s.secrets["wrong azure key in base64, "+kind] = otherKey
	switch kind {
	case "key":
		wrong["storageKey"] = otherKey
		malformed["storageKey"] = s.secret("malformed azure key") + "!"
	case "sas":
		values, err := url.ParseQuery(right["sasToken"])
		if err != nil {
			t.Fatal(err)
		}
		values.Set("sig", otherKey)
		wrong["sasToken"] = values.Encode()
		malformed["sasToken"] = "sig=%zz" + s.secret("malformed signature")
	case "connection":
		lost["connectionString"] = connection(nowhere+"/"+server.Account, server.Account, server.Key)
		wrong["connectionString"] = connection(server.Endpoint, server.Account, otherKey)
		malformed["connectionString"] = "AccountName;" + s.secret("malformed connection string")
	}
	return map[string]scene{
		"right":       at(server.Endpoint, right, never),
		"unreachable": at(nowhere+"/"+server.Account, lost, always),
		"wrong":       at(server.Endpoint, wrong, always),
		"malformed":   at(server.Endpoint, malformed, always),
	}
}

func connection(endpoint, account, key string) string {
	return "DefaultEndpointsProtocol=http;AccountName=" + account + ";AccountKey=" + key + ";BlobEndpoint=" + endpoint + ";"
}

// sas signs a token for all of an account, for an hour:
// https://learn.microsoft.com/rest/api/storageservices/create-account-sas
func (s *stage) sas(server *storeservers.Azurite) string {
	const permissions, version = "rwdlac", "2021-12-02"
	until := time.Now().UTC().Add(time.Hour).Format("2006-01-02T15:04:05Z")
	key, _ := base64.StdEncoding.DecodeString(server.Key)
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s\n%s\nb\nsco\n\n%s\n\n\n%s\n\n", server.Account, permissions, until, version)
	signature := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	s.secrets["azure signature"] = signature
	return url.Values{
		"sv": {version}, "ss": {"b"}, "srt": {"sco"}, "sp": {permissions}, "se": {until}, "sig": {signature},
	}.Encode()
}
