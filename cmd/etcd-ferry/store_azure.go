package main

import (
	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/azure"
)

// azureOptions are the options of azblob:// URLs, see azure.Config for what they
// mean.
var azureOptions = []string{"endpoint"}

func openAzure(l location) (store.Store, error) {
	s, err := azure.New(azure.Config{
		Container:      l.host,
		Endpoint:       l.options.Get("endpoint"),
		CredentialsDir: l.credentials,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
