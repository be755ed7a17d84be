package azure

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/etcd-ferry/etcd-ferry/store"
	"github.com/etcd-ferry/etcd-ferry/store/cloud"
)

// Explain implements cloud.Driver.
func (d *driver) Explain(op string, err error) error {
	var answer *azcore.ResponseError
	var token *azidentity.AuthenticationFailedError
	switch {
	case errors.As(err, &answer):
		text, class := explainAnswer(op, answer)
		return cloud.Later(answer.RawResponse, cloud.Fail(class, text))
	case errors.As(err, &token) && cloud.Refused(token.RawResponse):
		return cloud.Fail(fs.ErrPermission, "the credentials are refused, are they still valid? "+cloud.OneLine(token.Error()))
	}
	return nil
}

// classes are what codes of Azure mean. The code that is missing here, and is
// not about permissions, can be tried again.
var classes = map[bloberror.Code]struct {
	class  error
	advice string
}{
	bloberror.ContainerNotFound:        {store.ErrNoContainer, "there is no such container: is its name right? It has to be made before the first backup: "},
	bloberror.BlobNotFound:             {fs.ErrNotExist, ""},
	bloberror.BlobAlreadyExists:        {fs.ErrExist, ""},
	bloberror.ConditionNotMet:          {store.ErrChanged, ""},
	bloberror.BlobImmutableDueToPolicy: {fs.ErrPermission, "an immutability policy or a legal hold forbids to overwrite or delete it, use a container without one: "},
	bloberror.CannotVerifyCopySource:   {errors.ErrUnsupported, ""},
}

// explainAnswer gives the answer of the server its class. Its text is left out:
// of a signature that does not match it tells too much.
func explainAnswer(op string, answer *azcore.ResponseError) (text string, class error) {
	text = fmt.Sprintf("%d %s", answer.StatusCode, answer.ErrorCode)
	known, ok := classes[bloberror.Code(answer.ErrorCode)]
	switch {
	case ok:
		return known.advice + text, known.class
	case answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden:
		return "the credentials need the role Storage Blob Data Contributor, or a valid key or signature that may read, write, list and delete, and the account's firewall must let us in: " + text, fs.ErrPermission
	case op == "copy" && answer.StatusCode == http.StatusNotImplemented:
		return text, errors.ErrUnsupported
	}
	return text, nil
}
