package gcs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

// Explain implements cloud.Driver.
func (d *driver) Explain(_ string, err error) error {
	var answer *googleapi.Error
	var token *auth.Error
	switch {
	case errors.Is(err, storage.ErrBucketNotExist):
		return cloud.Fail(store.ErrNoContainer, "there is no such bucket: is its name right? It has to be made before the first backup")
	case errors.As(err, &answer):
		return cloud.Later(&http.Response{Header: answer.Header}, explainAnswer(answer))
	case errors.As(err, &token) && cloud.Refused(token.Response) && !token.Temporary():
		return cloud.Fail(fs.ErrPermission, "the credentials are refused, are they still valid? "+cloud.OneLine(token.Error()))
	}
	return nil
}

// explainAnswer gives the answer of the server its class. All that can be tried
// again is left without one.
func explainAnswer(answer *googleapi.Error) error {
	text := fmt.Sprintf("%d %s: %s", answer.Code, http.StatusText(answer.Code), cloud.OneLine(cmp.Or(answer.Message, answer.Body)))
	switch {
	case answer.Code != http.StatusUnauthorized && answer.Code != http.StatusForbidden, hasReason(answer, "rateLimitExceeded", "userRateLimitExceeded"):
		return cloud.Fail(nil, text)
	case hasReason(answer, "retentionPolicyNotMet", "objectUnderActiveHold"): // whoever asks
		return cloud.Fail(fs.ErrPermission, "a retention policy or a hold forbids to overwrite or delete it, use a bucket without one: "+text)
	}
	return cloud.Fail(fs.ErrPermission, "the credentials need the role Storage Object Admin (roles/storage.objectAdmin) on the bucket: "+text)
}

func hasReason(answer *googleapi.Error, reasons ...string) bool {
	return slices.ContainsFunc(answer.Errors, func(item googleapi.ErrorItem) bool {
		return slices.Contains(reasons, item.Reason)
	})
}

// statusOf returns the status of an answer, 0 if err is none.
func statusOf(err error) int {
	var answer *googleapi.Error
	if !errors.As(err, &answer) {
		return 0
	}
	return answer.Code
}
