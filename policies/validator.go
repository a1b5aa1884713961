package policies

import (
	"errors"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// maxErrors bounds the errors of values, each counted once for every value around it: the library compares each error with all
// others, at every level.
const maxErrors = 2000

var errTooMany = errors.New("there are too many errors: the rest of the values is not validated")

// boundedValidator validates values against a schema, and stops after maxErrors.
type boundedValidator struct{ schema *spec.Schema }

var _ validation.SchemaCreateValidator = boundedValidator{}

func (v boundedValidator) Validate(value any, _ ...validation.ValidationOption) *validate.Result {
	b := &errorBound{left: maxErrors}
	return validate.NewSchemaValidator(v.schema, nil, "", strfmt.Default, b.option).Validate(value)
}

// errorBound counts down the errors.
type errorBound struct{ left int }

func (b *errorBound) option(o *validate.SchemaValidatorOptions) {
	o.NewValidatorForIndex = func(_ int, s *spec.Schema, root any, path string, formats strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
		return partValidator{validate.NewSchemaValidator(s, root, path, formats, b.option), b}
	}
	o.NewValidatorForField = func(_ string, s *spec.Schema, root any, path string, formats strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
		return partValidator{validate.NewSchemaValidator(s, root, path, formats, b.option), b}
	}
}

// partValidator validates an item of a list or a member of an object.
type partValidator struct {
	*validate.SchemaValidator

	bound *errorBound
}

func (v partValidator) Validate(value any) *validate.Result {
	if v.bound.left <= 0 {
		result := &validate.Result{}
		result.AddErrors(errTooMany)
		return result
	}
	before := v.bound.left
	result := v.SchemaValidator.Validate(value)
	v.bound.left -= len(result.Errors)
	if result.IsValid() { // the errors are those of other branches of anyOf
		v.bound.left = before
	}
	return result
}
