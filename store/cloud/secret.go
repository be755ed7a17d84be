package cloud

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// ReadSecret reads files of a mounted Secret into the strings that belong to
// their names, without white space around them, empty if there is no such file.
// Its errors are fs.ErrPermission and hide what the filesystem says: a key that
// is not there is not an absent object.
func ReadSecret(dir string, values map[string]*string) error {
	// Kubernetes replaces all files at once, by turning this link to another
	// folder. Reading through the link could give files of both.
	state, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	if err != nil {
		state = dir
	}
	for name, value := range values {
		data, err := os.ReadFile(filepath.Join(state, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return NoCredentials(err.Error())
		}
		*value = strings.TrimSpace(string(data))
	}
	return nil
}

// NoCredentials says what is wrong with the credentials.
func NoCredentials(text string) error {
	return Fail(fs.ErrPermission, "credentials: "+text)
}

// Kept holds the client of an SDK, which is made of M and made again when that
// has changed.
type Kept[M comparable, C any] struct {
	mu     sync.Mutex
	made   *M // of what client is
	client C
}

// Get returns a client for what read returns now. Once there is one, what is bad
// changes nothing.
func (k *Kept[M, C]) Get(read func() (M, error), connect func(M) (C, error)) (C, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, err := read()
	if err == nil && (k.made == nil || *k.made != m) {
		var client C
		if client, err = connect(m); err == nil {
			k.client, k.made = client, &m
		}
	}
	if k.made != nil {
		err = nil
	}
	return k.client, err
}

// CheckEndpoint complains about the URL of a server, without repeating what might
// be secret. It is strict because the endpoint is in the texts of errors.
func CheckEndpoint(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("endpoint: want a URL, such as https://host:port")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("endpoint: want a URL without user, password, query or fragment; credentials belong into files")
	}
	return nil
}

// CheckContainer complains about the name of a bucket or container, which is what.
func CheckContainer(what, name string) error {
	if name == "" || strings.ContainsAny(name, "/?#@ ") {
		return fmt.Errorf("%s %.80q: want the name of a %[1]s", what, name)
	}
	return nil
}
