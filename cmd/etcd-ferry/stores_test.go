package main

import (
	"strings"
	"testing"
)

func TestParseStore(t *testing.T) {
	for raw, want := range map[string]string{ // "" if accepted, else a part of the complaint
		"file:///var/backups/etcd":         "",
		"file:///with%20space/and%23hash":  "",
		"":                                 "--store is missing",
		"file://var/backups":               "want an absolute path after three slashes",
		"file:backups":                     "want an absolute path after three slashes",
		"file://":                          "want an absolute path after three slashes",
		"file:///var/backups?region=x":     "no options, remove region",
		"file:///?b=1&b=2&a=3":             "remove a",
		"file:///var/backups#1":            "%23",
		"/var/backups":                     "want a URL, for example file:///",
		"s3://bucket":                      "",
		"s3://bucket/a/prefix/":            "",
		"s3:///prefix":                     "want the name of a bucket",
		"s3:bucket":                        "want the name of a bucket",
		"s3://bucket:1/prefix":             "want the name of a bucket",
		"s3://bucket/../x":                 "invalid",
		"s3://bucket?Region=x":             "no option Region, but endpoint, region",
		"s3://bucket?region=x&region=y":    "option region is there twice",
		"s3://bucket?pathStyle=maybe":      "pathStyle: want true or false",
		"s3://bucket?lockFor=long":         "lockFor: want a duration",
		"s3://bucket?lockFor=1h":           "lock mode",
		"s3://bucket?endpoint=minio:9000":  "endpoint: want a URL",
		"s3://bucket?region=%zz":           "malformed",
		"gs://bucket":                      "",
		"gs:///prefix":                     "want the name of a bucket",
		"gs://bucket?region=x":             "no option region, but endpoint",
		"gs://bucket?endpoint=host:4443":   "endpoint: want a URL",
		"azblob://container":               "URL of the storage account as endpoint",
		"azblob://container?endpoint=x":    "endpoint: want a URL",
		"ftp://host/dir":                   "is not a store",
		"s3://bucket/%zz":                  "not a valid URL",
		"file:///var/backups\x7f":          "not a valid URL",
		"file://user:password@/var/backup": "no user or password",

		"s3://bucket/a?endpoint=https://minio:9000&region=x&pathStyle=true&caFile=/ca.pem": "",
		"s3://bucket/a?lockMode=GOVERNANCE&lockFor=720h&kmsKeyID=x":                        "",
		"gs://bucket/a/prefix?endpoint=http://localhost:4443":                              "",
		"azblob://container/a?endpoint=https://account.blob.core.windows.net":              "",
	} {
		t.Run(raw, func(t *testing.T) {
			_, _, err := (&storeFlags{url: raw}).provider()
			switch {
			case want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case want != "" && err == nil:
				t.Error("accepted")
			case want != "" && !strings.Contains(err.Error(), want):
				t.Errorf("the complaint is %q, want %q in it", err, want)
			}
		})
	}
}

func TestStoreErrorsShowNoSecret(t *testing.T) {
	for _, raw := range []string{
		"s3://key:SECRET@bucket/prefix",
		"s3://bucket/prefix?endpoint=https://key:SECRET@minio",
		"s3://bucket/prefix?pathStyle=SECRET",
		"gs://bucket/prefix?endpoint=https://key:SECRET@host",
		"gs://bucket/prefix?endpoint=https://host?key=SECRET",
		"azblob://container?endpoint=https://host?sig=SECRET",
		"s3://bucket/prefix?lockFor=SECRET",
		"s3://bucket/prefix?region=%SECRET",
		"s3://SECRET@bucket/prefix",
		"s3://bucket/prefix?secretKey=SECRET",
		"s3://key:SECRET@bucket:port/prefix",
		"s3://key:SECRET%zz@bucket/prefix",
		"s3://bucket/prefix?a=1#SECRET",
		"file:///var/backups?token=SECRET",
		"file:key:SECRET@host",
		"key:SECRET@host/dir",
		"\x01://key:SECRET@bucket",
	} {
		_, _, err := (&storeFlags{url: raw}).provider()
		if err == nil {
			t.Errorf("%q was accepted", raw)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: the complaint shows the secret: %v", raw, err)
		}
	}
}

func TestCheckEndpoint(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"http://127.0.0.1:2379":    true,
		"https://etcd-0.etcd:2379": true,
		"unix:///run/etcd.sock":    true,
		"127.0.0.1:2379":           true,
		"[::1]:2379":               true,
		"127.0.0.1":                false,
		"http://":                  false,
		"ftp://host:1":             false,
		"http://u:SECRET@host:1":   false,
		"http://u:SECRET@ho st:1":  false,
		"u:SECRET@host:1":          false,
	} {
		err := checkEndpoint(endpoint)
		if (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
		if err != nil && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: the complaint shows the password: %v", endpoint, err)
		}
	}
}
