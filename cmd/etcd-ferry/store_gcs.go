package main

import (
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/gcs"
)

// gcsOptions are the options of gs:// URLs, see gcs.Config for what they mean.
var gcsOptions = []string{"endpoint"}

func openGCS(l location) (store.Store, error) {
	s, err := gcs.New(gcs.Config{
		Bucket:         l.host,
		Endpoint:       l.options.Get("endpoint"),
		CredentialsDir: l.credentials,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
