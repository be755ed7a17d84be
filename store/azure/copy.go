package azure

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

const (
	// pollInterval is how often a copy is asked how far it is.
	pollInterval = time.Second
	// cleanupTimeout bounds what is done after a copy has failed.
	cleanupTimeout = 30 * time.Second
)

// errCopying is that of an object which is not there yet.
var errCopying = errors.New("it is being copied, or its copy was given up")

// whole reports whether an object has been copied, or is no copy.
func whole(status *blob.CopyStatusType) bool {
	return status == nil || *status == blob.CopyStatusTypeSuccess
}

// Reaches implements cloud.Driver. Within an account the credentials of the
// request allow to read its source too.
func (d *driver) Reaches(src cloud.Driver) bool {
	from, ok := src.(*driver)
	return ok && from.config.Endpoint == d.config.Endpoint && from.config.CredentialsDir == d.config.CredentialsDir
}

// Copy implements cloud.Driver. Within an account it mostly ends at once.
func (d *driver) Copy(ctx context.Context, w cloud.Write, src cloud.Driver, was store.Info) (store.Info, error) {
	to, err := d.blob(w.Name)
	if err != nil {
		return store.Info{}, err
	}
	from, err := src.(*driver).blob(was.Name)
	if err != nil {
		return store.Info{}, err
	}
	started, err := to.StartCopyFromURL(ctx, from.URL(), &blob.StartCopyFromURLOptions{
		Metadata: metadata(w), AccessConditions: only(w.Old),
		SourceModifiedAccessConditions: &blob.SourceModifiedAccessConditions{SourceIfMatch: etagOf(was.Version)},
	})
	if err != nil {
		return store.Info{}, taken(err)
	}
	info, err := wait(ctx, w, to)
	if err != nil {
		undo(ctx, to, started.CopyID)
	}
	return info, err
}

// wait returns when a copy has ended, with the object as it was seen last.
func wait(ctx context.Context, w cloud.Write, to *blockblob.Client) (info store.Info, err error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		there, err := to.GetProperties(ctx, nil)
		if err != nil {
			return info, err
		}
		info = infoOf(w.Name, there.ContentLength, there.LastModified, there.ETag)
		switch {
		case whole(there.CopyStatus):
			return info, nil
		case *there.CopyStatus != blob.CopyStatusTypePending:
			return info, cloud.Fail(nil, fmt.Sprintf("the copy has ended as %s", *there.CopyStatus))
		}
		select {
		case <-ctx.Done():
			return info, ctx.Err()
		case <-tick.C:
		}
	}
}

// undo stops a copy, even if ctx has ended, and removes what it leaves, an empty
// object, unless it has been replaced.
func undo(ctx context.Context, to *blockblob.Client, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if id != nil {
		_, _ = to.AbortCopyFromURL(ctx, *id, nil) // it may have ended just now
	}
	there, err := to.GetProperties(ctx, nil)
	if err != nil || there.CopyID == nil || id == nil || *there.CopyID != *id {
		return
	}
	_, _ = to.Delete(ctx, &blob.DeleteOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: there.ETag}},
	})
}
