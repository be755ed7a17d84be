package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/s3"
)

// s3Options are the options of s3:// URLs, see s3.Config for what they mean.
var s3Options = []string{
	"endpoint", "region", "pathStyle", "caFile", "kmsKeyID", "customerKeyFile", "lockMode", "lockFor",
}

func openS3(l location) (store.Store, error) {
	cfg := s3.Config{
		Bucket:          l.host,
		Endpoint:        l.options.Get("endpoint"),
		Region:          l.options.Get("region"),
		CAFile:          l.options.Get("caFile"),
		CredentialsDir:  l.credentials,
		KMSKeyID:        l.options.Get("kmsKeyID"),
		CustomerKeyFile: l.options.Get("customerKeyFile"),
		LockMode:        l.options.Get("lockMode"),
	}
	var pathErr, lockErr error
	if value := l.options.Get("pathStyle"); value != "" {
		if cfg.PathStyle, pathErr = strconv.ParseBool(value); pathErr != nil {
			pathErr = errors.New("option pathStyle: want true or false")
		}
	}
	if value := l.options.Get("lockFor"); value != "" {
		if cfg.LockFor, lockErr = time.ParseDuration(value); lockErr != nil {
			lockErr = errors.New("option lockFor: want a duration such as 720h")
		}
	}
	s, err := s3.New(cfg)
	if err := errors.Join(pathErr, lockErr, err); err != nil {
		return nil, err
	}
	return s, nil
}
