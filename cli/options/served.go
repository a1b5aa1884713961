package options

import (
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsNotServed reports whether an error says that the cluster does not serve a kind. An object that does not exist has an answer of its own.
func IsNotServed(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) {
		return false
	}
	unexpected := func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse }
	details := status.Status().Details
	return details == nil || details.Name == "" || slices.ContainsFunc(details.Causes, unexpected)
}
