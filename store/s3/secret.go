package s3

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// secret is what a mounted Secret holds.
type secret struct{ accessKeyID, secretAccessKey, sessionToken, region, endpoint string }

// readSecret reads a mounted Secret. Its errors wrap fs.ErrPermission and hide
// what the filesystem says: a key that is not there is not an absent object.
func readSecret(dir string) (secret, error) {
	// Kubernetes replaces all files at once, by turning this link to another
	// folder. Reading through the link could give one file of each.
	state, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	if err != nil {
		state = dir
	}
	var s secret
	for name, value := range map[string]*string{
		"accessKeyID": &s.accessKeyID, "secretAccessKey": &s.secretAccessKey,
		"sessionToken": &s.sessionToken, "region": &s.region, "endpoint": &s.endpoint,
	} {
		data, err := os.ReadFile(filepath.Join(state, name))
		optional := value != &s.accessKeyID && value != &s.secretAccessKey
		if err != nil && (!optional || !errors.Is(err, fs.ErrNotExist)) {
			return secret{}, fmt.Errorf("%w: credentials: %s", fs.ErrPermission, err.Error())
		}
		*value = strings.TrimSpace(string(data))
		if !optional && *value == "" || strings.ContainsFunc(*value, unprintable) {
			return secret{}, fmt.Errorf("%w: credentials: %s holds no such thing", fs.ErrPermission, filepath.Join(dir, name))
		}
	}
	if s.endpoint != "" && !validEndpoint(s.endpoint) {
		return secret{}, fmt.Errorf("%w: credentials: %s holds no URL of a server", fs.ErrPermission, filepath.Join(dir, "endpoint"))
	}
	return s, nil
}

func unprintable(r rune) bool { return r <= ' ' || r > '~' }
