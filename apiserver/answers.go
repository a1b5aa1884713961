package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/validators"
)

// templateKind names templates in errors.
var templateKind = schema.GroupKind{Group: v1beta1.GroupVersion.Group, Kind: apikinds.VirtualMachineTemplate}

// templateResource names templates in errors that name resources.
var templateResource = schema.GroupResource{Group: templateKind.Group, Resource: subresources.Resource}

// maxWarning bounds one warning, in bytes.
const maxWarning = 1024

// warn sends the findings that do not deny as warnings.
func warn(ctx context.Context, findings []validators.Finding) {
	for i := range findings {
		if f := &findings[i]; f.Severity == validators.Warn {
			warning.AddWarning(ctx, "", texts.Shorten(fmt.Sprintf("%s [virtward/%s]", f.Error.Error(), f.Rule), maxWarning))
		}
	}
}

// maxCauses bounds the causes of an answer.
const maxCauses = 50

// invalid is the answer to values, or to a template, that cannot be rendered: 422 with a cause for each finding.
func invalid(name string, findings []validators.Finding) error {
	var causes []metav1.StatusCause
	for i := range findings {
		if f := &findings[i]; f.Severity == validators.Deny {
			text := fmt.Sprintf("%s [virtward/%s] %s", f.Error.ErrorBody(), f.Rule, f.Remedy)
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(f.Error.Type), Field: f.Error.Field, Message: texts.Shorten(text, maxWarning)})
		}
	}
	return unprocessable(name, causes)
}

// unprocessable is an answer with causes. The message has the first.
func unprocessable(name string, causes []metav1.StatusCause) error {
	message := ""
	if len(causes) > 0 {
		message = causes[0].Field + ": " + causes[0].Message
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: texts.Shorten(fmt.Sprintf("%s %q is invalid: %s", templateKind, name, message), maxWarning),
		Details: &metav1.StatusDetails{Group: templateKind.Group, Kind: templateKind.Kind, Name: name, Causes: causes[:min(len(causes), maxCauses)]},
	}}
}

// unrenderable is the answer to a template without a digest.
func unrenderable(name string, err error) error {
	return unprocessable(name, []metav1.StatusCause{{Type: metav1.CauseType(field.ErrorTypeInvalid), Field: "spec.virtualMachine", Message: texts.Shorten(err.Error(), maxWarning)}})
}

// asReadAnswer is asAnswer for an error of reading: a denial is about the rights of Virtward, not of the user.
func asReadAnswer(err error, action string) error {
	if apierrors.IsForbidden(err) {
		return apierrors.NewInternalError(fmt.Errorf("virtward may not %s: %w", action, err))
	}
	return asAnswer(err, action)
}

// asAnswer is an error of the API server as the answer to the user: the same, unless it is about the rights of Virtward.
func asAnswer(err error, action string) error {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return apierrors.NewInternalError(fmt.Errorf("virtward may not %s: %w", action, err))
	case errors.As(err, &status) && status.Status().Code != 0:
		return err
	}
	return apierrors.NewInternalError(fmt.Errorf("virtward could not %s: %w", action, err))
}
