package main

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/etcd-ferry/etcd-ferry/pkg/archive"
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/file"
)

const storeExample = "for example file:///var/backups/etcd or s3://bucket/prefix"

// storeFlags say where snapshots are kept.
type storeFlags struct {
	source           bool // the store to copy from, in place of the one to work on
	url, credentials string
}

func (s *storeFlags) flags(fs *pflag.FlagSet) {
	what := "of the store that holds the snapshots, "
	if s.source {
		what = "of the store to copy from, "
	}
	fs.StringVar(&s.url, s.flag(), "", "`URL` "+what+storeExample)
	fs.StringVar(&s.credentials, s.flag()+"-credentials", "",
		"`dir` with the credentials for --"+s.flag()+", one to a file, read again when they change; default: those of the environment")
}

// flag returns the name of the flag for the URL.
func (s *storeFlags) flag() string {
	if s.source {
		return "source-store"
	}
	return "store"
}

func (s *storeFlags) role() string {
	if s.source {
		return "source"
	}
	return "destination"
}

func (s *storeFlags) check() error {
	_, _, err := s.provider()
	return err
}

// open returns the archive in the store, without looking whether it is there.
func (s *storeFlags) open(m *metrics) (*archive.Archive, error) {
	wrapped, err := s.wrapped(m)
	if err != nil {
		return nil, err
	}
	return archive.New(wrapped), nil
}

// wrapped returns the store, counted and retried, without looking whether it is
// there.
func (s *storeFlags) wrapped(m *metrics) (store.Store, error) {
	_, retried, err := s.both(m)
	return retried, err
}

// both returns the store, counted, once so that every call is one attempt, and
// once so that calls are repeated.
func (s *storeFlags) both(m *metrics) (once, retried store.Store, err error) {
	provider, prefix, err := s.provider()
	if err != nil {
		return nil, nil, err
	}
	counted := m.store(s.role(), provider)
	return store.Prefix(counted, prefix), store.Prefix(store.Retry(counted), prefix), nil
}

// provider returns the store that the flags name, and the prefix of the names
// there. It does no I/O. Its errors never show user information or values of a
// query, where secrets might be.
func (s *storeFlags) provider() (store.Store, string, error) {
	if s.url == "" {
		return nil, "", fmt.Errorf("--%s is missing: say where the snapshots are kept, %s", s.flag(), storeExample)
	}
	u, err := url.Parse(s.url)
	if err != nil { // its text would show the URL
		return nil, "", fmt.Errorf("--%s is not a valid URL, write %s", s.flag(), storeExample)
	}
	provider, prefix, err := provide(u, s.credentials)
	if err != nil {
		return nil, "", fmt.Errorf("--%s %s: %w", s.flag(), redact(u), err)
	}
	return provider, prefix, nil
}

// scheme is a kind of stores.
type scheme struct {
	options []string // of its URLs, behind the question mark
	open    func(location) (store.Store, error)
	whole   bool // the URL names a store as a whole, there is no prefix
}

// schemes are all kinds of stores, by the scheme of their URLs.
var schemes = map[string]scheme{
	"file":   {open: openFile, whole: true},
	"s3":     {open: openS3, options: s3Options},
	"gs":     {open: openGCS, options: gcsOptions},
	"azblob": {open: openAzure, options: azureOptions},
}

// location is a URL in pieces, and the directory with the credentials for it.
type location struct {
	host, path  string
	options     url.Values
	credentials string
}

func provide(u *url.URL, credentials string) (s store.Store, prefix string, err error) {
	kind, known := schemes[u.Scheme]
	options, malformed := url.ParseQuery(u.RawQuery)
	switch {
	case u.Scheme == "":
		return nil, "", errors.New("want a URL, " + storeExample)
	case !known:
		return nil, "", fmt.Errorf("%s:// is not a store of this build, which has %s", u.Scheme, list(slices.Sorted(maps.Keys(schemes))))
	case u.User != nil:
		return nil, "", errors.New("a URL has no user or password, credentials are in a directory or the environment")
	case u.Fragment != "":
		return nil, "", errors.New("write # as %23 in a URL")
	case malformed != nil:
		return nil, "", errors.New("what is behind the question mark is malformed, write it as ?name=value&name=value")
	}
	if err := checkOptions(options, kind.options); err != nil {
		return nil, "", err
	}
	if !kind.whole {
		if prefix, err = bucketPrefix(u); err != nil {
			return nil, "", err
		}
	}
	s, err = kind.open(location{u.Host, u.Path, options, credentials})
	return s, prefix, err
}

// bucketPrefix returns the prefix that the path of u is.
func bucketPrefix(u *url.URL) (string, error) {
	if u.Host == "" || u.Port() != "" || u.Opaque != "" {
		return "", fmt.Errorf("want the name of a bucket after two slashes, as in %s://bucket/prefix", u.Scheme)
	}
	prefix := strings.Trim(u.Path, "/")
	if prefix == "" {
		return "", nil
	}
	return prefix, store.CheckName(prefix)
}

// checkOptions complains about what is no option or given twice.
func checkOptions(options url.Values, known []string) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(options)) {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			errs = append(errs, fmt.Errorf("there are no options, remove %s", name))
		case !slices.Contains(known, name):
			errs = append(errs, fmt.Errorf("there is no option %s, but %s", name, list(known)))
		case len(options[name]) > 1:
			errs = append(errs, fmt.Errorf("option %s is there twice", name))
		}
	}
	return errors.Join(errs...)
}

func list(names []string) string { return strings.Join(names, ", ") }

func openFile(l location) (store.Store, error) {
	switch {
	case l.host != "" || !strings.HasPrefix(l.path, "/"):
		return nil, errors.New("want an absolute path after three slashes, for example file:///var/backups/etcd")
	case l.credentials != "":
		return nil, errors.New("a directory needs no credentials, leave them out")
	}
	return file.New(l.path), nil
}

// redact returns u without what might be secret.
func redact(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
