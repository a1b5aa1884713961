package schemas

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/virtward/virtward/fieldpath"
)

// prepared returns an object as the API server validates it: without unknown fields, and with the defaults of the schema.
func (s *Schema) prepared(object map[string]any) map[string]any {
	object = runtime.DeepCopyJSON(object)
	pruning.Prune(object, s.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
	defaulting.Default(object, s.structural)
	if s.ignoresStatus() {
		delete(object, "status")
	}
	return object
}

// MaxValues bounds the values of an object that is validated: each can have errors, which are sorted out later. Objects that an
// API server stores have far fewer.
const MaxValues = 100_000

// values counts the values of an object, and stops above a bound.
func values(value any, most int) (n int) {
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			if n += values(child, most-n); n > most {
				break
			}
		}
	case []any:
		for i := range v {
			if n += values(v[i], most-n); n > most {
				break
			}
		}
	}
	return n + 1
}

// Validate returns the errors of the API server for an object, without those of its metadata. old is the object before an
// update, or nil: rules that compare the two are skipped then.
func (s *Schema) Validate(ctx context.Context, object, old map[string]any) (field.ErrorList, error) {
	validator, err := s.values()
	if err != nil {
		return nil, fmt.Errorf("the schema: %w", err)
	}
	if values(object, MaxValues) > MaxValues || values(old, MaxValues) > MaxValues {
		return field.ErrorList{{Type: field.ErrorTypeTooMany, BadValue: field.OmitValueType{}, Detail: fmt.Sprintf("must have at most %d values", MaxValues)}}, nil
	}
	object = s.prepared(object)
	var errs field.ErrorList
	if old != nil {
		old = s.prepared(old)
		errs = validation.ValidateCustomResourceUpdate(nil, object, old, validator)
	} else {
		errs = validation.ValidateCustomResource(nil, object, validator)
	}
	errs = append(errs, s.validateReplicas(object)...)
	errs = append(errs, objectmeta.Validate(ctx, nil, object, s.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, object)...)
	if rules := s.rules(); rules != nil && !blocks(errs) {
		var before any
		if old != nil {
			before = old
		}
		failed, _ := rules.Validate(ctx, nil, s.structural, object, before, celconfig.RuntimeCELCostBudget)
		errs = append(errs, failed...)
	}
	return bounded(errs), nil
}

// blocks reports whether the API server skips the CEL rules because of other errors.
func blocks(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

// validateReplicas validates the number that the scale subresource reads.
func (s *Schema) validateReplicas(object map[string]any) field.ErrorList {
	if s.subresources == nil || s.subresources.Scale == nil {
		return nil
	}
	path := strings.TrimPrefix(s.subresources.Scale.SpecReplicasPath, ".")
	replicas, _, err := unstructured.NestedInt64(object, strings.Split(path, ".")...)
	switch {
	case err != nil: // the type is an error of the schema
		return nil
	case replicas < 0:
		return field.ErrorList{{Type: field.ErrorTypeInvalid, Field: path, BadValue: replicas, Detail: "must not be negative"}}
	case replicas > math.MaxInt32:
		return field.ErrorList{{Type: field.ErrorTypeInvalid, Field: path, BadValue: replicas, Detail: fmt.Sprintf("must not exceed %d", math.MaxInt32)}}
	}
	return nil
}

// Missing returns the paths of the required objects, lists and quantities that an object does not have as its author wrote it,
// sorted. KubeVirt's mutating webhook rejects it for them, before its types would fill them. A missing text, number or truth
// value is its zero value there.
func (s *Schema) Missing(object map[string]any) []string {
	var found []string
	missing(s.prepared(object), s.structural, "", &found)
	slices.Sort(found)
	return found
}

func missing(value any, node *structuralschema.Structural, path string, found *[]string) {
	if node == nil || len(*found) >= maxErrors {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		if node.ValueValidation != nil {
			for _, name := range node.ValueValidation.Required {
				if property := node.Properties[name]; v[name] == nil && !scalar(&property) {
					*found = append(*found, joined(path, name))
				}
			}
		}
		for name, child := range v {
			if property, known := node.Properties[name]; known {
				missing(child, &property, joined(path, name), found)
			} else if node.AdditionalProperties != nil {
				missing(child, node.AdditionalProperties.Structural, fieldpath.Keyed(path, name), found)
			}
		}
	case []any:
		for i := range v {
			missing(v[i], node.Items, fieldpath.Indexed(path, i, ""), found)
		}
	}
}

// scalar reports whether a value is a text, a number or a truth value.
func scalar(node *structuralschema.Structural) bool {
	switch node.Type {
	case "string", "integer", "number", "boolean":
		return true
	}
	return false
}

// ValidateMetadata returns the errors of the API server for the metadata of a new object. An object without a namespace
// gets the default one.
func (s *Schema) ValidateMetadata(object map[string]any, defaultNamespace string) field.ErrorList {
	path := field.NewPath("metadata")
	meta, found, err := objectmeta.GetObjectMeta(object, false)
	if err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, plain(err))}
	}
	if !found || meta == nil {
		meta = &metav1.ObjectMeta{}
	}
	switch {
	case !s.namespaced():
		meta.Namespace = ""
	case meta.Namespace == "":
		meta.Namespace = defaultNamespace
	}
	if meta.Name == "" && meta.GenerateName != "" { // the API server appends random characters
		meta.Name = meta.GenerateName + "xxxxx"
	}
	return bounded(apimachineryvalidation.ValidateObjectMeta(meta, s.namespaced(), apimachineryvalidation.NameIsDNSSubdomain, path))
}

// plain describes an error of the decoder without its prefix.
func plain(err error) string {
	for unwrapped := errors.Unwrap(err); unwrapped != nil; unwrapped = errors.Unwrap(err) {
		err = unwrapped
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

// maxErrors bounds the errors of one object.
const maxErrors = 100

// bounded leaves out values that are not scalars, and errors above the limit. It moves paths from texts to fields.
func bounded(errs field.ErrorList) field.ErrorList {
	if len(errs) > maxErrors {
		errs = errs[:maxErrors]
	}
	for _, err := range errs {
		switch err.BadValue.(type) {
		case map[string]any, []any:
			err.BadValue = field.OmitValueType{}
		}
		located(err)
	}
	return errs
}

// located reads the field from texts such as "Checked value must be of type integer with format int32 in spec.replicas",
// and leaves it out of texts such as "spec.replicas in body must be of type integer".
func located(err *field.Error) {
	if before, path, found := cutLast(err.Detail, " in "); found && (err.Field == "" || err.Field == "<nil>") && !strings.ContainsAny(path, " \"") {
		err.Field, err.Detail, err.BadValue = path, before, field.OmitValueType{}
	}
	err.Detail = strings.TrimPrefix(err.Detail, err.Field+" in body ")
}

func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}
