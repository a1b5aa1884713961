package apiserver

import (
	"context"
	"fmt"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// maxUser bounds the names of users that are stored, in bytes. A longer name is an error and is never shortened: policies compare
// it, and its beginning could be the name of another user.
const maxUser = 1024

// requester returns the name of the user, exactly as it is stored: as the requester of a virtual machine, or as an approver. The
// error denies users whose names cannot be stored.
func requester(ctx context.Context, template string) (string, error) {
	user, ok := request.UserFrom(ctx)
	switch {
	case !ok || user.GetName() == "":
		return "", apierrors.NewInternalError(fmt.Errorf("the request has no user"))
	case len(user.GetName()) > maxUser:
		return "", forbidden(template, fmt.Sprintf("user.name: your user name has %d bytes: it must have at most %d, because it is stored", len(user.GetName()), maxUser))
	case !utf8.ValidString(user.GetName()):
		return "", forbidden(template, "user.name: your user name must be valid UTF-8, because it is stored")
	}
	return user.GetName(), nil
}
