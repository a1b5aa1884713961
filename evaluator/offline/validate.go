package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// Written is an object as its author wrote it.
type Written struct {
	Object map[string]any
	// Old is the object before an update, or nil.
	Old map[string]any
	// Namespace is the namespace of objects that name none.
	Namespace string
	// UnknownFields is Warn if fields that the schema does not have are warnings; otherwise they deny the object.
	UnknownFields validators.Severity
}

// Validate adds the findings of the API server's own validation to the result of an object, or to an empty one. It adds none
// for a kind without a schema.
func (s *Schemas) Validate(ctx context.Context, w Written, result *evaluator.Result) error {
	kind := (&unstructured.Unstructured{Object: w.Object}).GroupVersionKind()
	found, installed, err := s.find(kind)
	if err != nil || found == nil {
		return err
	}
	v := &validation{Schemas: s, Written: w, schema: found, kind: kind, result: result}
	if err := v.unknownFields(installed); err != nil {
		return err
	}
	v.newFields()
	if err := v.values(ctx); err != nil {
		return err
	}
	result.Findings = append(result.Findings, v.findings...)
	validators.Sort(result.Findings)
	return nil
}

// addRepeated adds a warning for each field that a file sets more than once. It replaces no other finding: the object has the
// last value.
func addRepeated(repeated []manifests.Repeated, result *evaluator.Result) {
	for _, r := range repeated {
		result.Findings = append(result.Findings, validators.Finding{
			Rule: validators.RuleSchema, Severity: validators.Warn, Remedy: "Remove one of the two.",
			Error: &field.Error{
				Type: field.ErrorTypeDuplicate, Field: r.Path, BadValue: field.OmitValueType{},
				Detail: fmt.Sprintf("is set in line %d and again in line %d: kubectl uses the last value silently, and Kustomize rejects the file", r.First, r.Last),
			},
		})
	}
	validators.Sort(result.Findings)
}

// validation is the validation of one object.
type validation struct {
	*Schemas
	Written

	schema *schemas.Schema
	kind   schema.GroupVersionKind
	// result is that of the object's evaluation.
	result   *evaluator.Result
	findings []validators.Finding
	// added are the steps of fields that the schema has, and KubeVirt's types in this program do not.
	added [][]string
}

const unknownField = "unknown field "

// newFields finds the fields that a later KubeVirt in the cluster has, and removes the warnings about them.
func (v *validation) newFields() {
	v.result.Warnings = slices.DeleteFunc(v.result.Warnings, func(text string) bool {
		path, unknown := strings.CutPrefix(text, unknownField)
		steps := fieldpath.Split(path)
		if unknown = unknown && v.schema.Declares(steps); unknown {
			v.added = append(v.added, steps)
		}
		return unknown
	})
}

// unknownFields adds a finding for each field that the schema does not have, also in the virtual machine of a template, which
// the schema of templates does not describe.
func (v *validation) unknownFields(installed bool) error {
	if err := v.unknownIn(v.Object, v.schema, v.kind, installed, ""); err != nil {
		return err
	}
	if v.kind.GroupKind() != evaluator.Template {
		return nil
	}
	at := evaluator.TemplateVM
	value, _ := fieldpath.Get(v.Object, fieldpath.Split(at))
	made, _ := value.(map[string]any)
	kind := apikinds.VirtualMachines.GroupVersionKind
	found, installed, err := v.find(kind)
	if err != nil || found == nil {
		return err
	}
	return v.unknownIn(made, found, kind, installed, at+".")
}

// unknownIn adds the unknown fields of an object at a path. Each replaces the warning about the same field, and adds its
// suggestion to the finding of rendering a template.
func (v *validation) unknownIn(object map[string]any, of *schemas.Schema, kind schema.GroupVersionKind, installed bool, path string) error {
	for _, u := range of.Unknown(object) {
		severity, detail, meant := validators.Deny, "is not a field of "+kind.Kind, ""
		if v.UnknownFields == validators.Warn {
			severity = validators.Warn
		}
		if !installed {
			minors, err := v.havingField(kind, u)
			if err != nil {
				return err
			}
			if len(minors) > 0 {
				severity = validators.Warn
				detail += fmt.Sprintf(" in KubeVirt %s; KubeVirt %s has it", v.embedded.Minor(), strings.Join(minors, ", "))
			}
		}
		if u.Meant != "" {
			meant = ": did you mean " + u.Meant + "?"
		}
		u.Path = path + u.Path
		v.result.Warnings = slices.DeleteFunc(v.result.Warnings, func(text string) bool { return text == unknownField+u.Path })
		if known := v.undefinedAt(u.Path); known != nil {
			completed := *known.Error
			completed.Detail += meant
			known.Error = &completed
			continue
		}
		v.add(validators.RuleUnknownField, severity, validators.RemedyUnknownField, &field.Error{
			Type: field.ErrorTypeForbidden, Field: u.Path, BadValue: field.OmitValueType{}, Detail: detail + meant,
		})
	}
	return nil
}

// values adds the errors about values. The API server validates what the mutating webhooks return, so a virtual machine is
// validated as KubeVirt completes it.
func (v *validation) values(ctx context.Context) error {
	for _, err := range v.schema.ValidateMetadata(v.Object, v.Namespace) {
		v.addValue(err)
	}
	mutated, err := v.mutated()
	if err != nil {
		return err
	}
	if mutated == nil {
		mutated = v.Object
	}
	errs, err := v.schema.Validate(ctx, mutated, v.Old)
	if err != nil {
		return err
	}
	for _, err := range errs {
		v.addValue(err)
	}
	if !v.completes() {
		return nil
	}
	for _, path := range v.schema.Missing(v.Object) {
		v.addValue(&field.Error{Type: field.ErrorTypeRequired, Field: path, BadValue: "", Detail: "KubeVirt's webhook rejects an object without it"})
	}
	return nil
}

// completes reports whether KubeVirt's mutating webhook changes objects of the kind.
func (v *validation) completes() bool {
	kind := v.kind.GroupKind()
	return kind == evaluator.VirtualMachine || kind == evaluator.VirtualMachineInstance
}

// addValue adds an error. It skips a second reason to deny the object for the same field, and for a value that the author
// did not write, any second reason: such a value follows from others.
func (v *validation) addValue(err *field.Error) {
	steps := fieldpath.Split(err.Field)
	_, present := fieldpath.Get(v.Object, steps)
	written := present == len(steps) || err.Type == field.ErrorTypeRequired
	same := func(f validators.Finding) bool {
		return f.Severity == validators.Deny && (!written || f.Error.Field == err.Field || f.Effective == err.Field)
	}
	if !slices.ContainsFunc(v.result.Findings, same) && !slices.ContainsFunc(v.findings, same) {
		v.add(validators.RuleSchema, validators.Deny, validators.RemedySchema, err)
	}
}

// undefinedAt returns the finding of rendering a template about an unknown field, or nil.
func (v *validation) undefinedAt(path string) *validators.Finding {
	i := slices.IndexFunc(v.result.Findings, func(f validators.Finding) bool {
		return f.Rule == templates.RuleUnknownField && f.Error.Field == path
	})
	if i < 0 {
		return nil
	}
	return &v.result.Findings[i]
}

// mutated returns a virtual machine as KubeVirt's mutating webhook returns it, or nil for an object that it does not change.
func (v *validation) mutated() (map[string]any, error) {
	verdict := v.result.Verdict
	if verdict == nil || verdict.Container != nil || !v.completes() {
		return nil, nil
	}
	var completed any = verdict.VMI
	if verdict.VM != nil {
		completed = verdict.VM
	}
	data, err := json.Marshal(completed)
	if err != nil {
		return nil, fmt.Errorf("encoding the completed object: %w", err)
	}
	var fields map[string]any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, &fields); err != nil {
		return nil, fmt.Errorf("encoding the completed object: %w", err)
	}
	for _, steps := range v.added { // a type without the field drops it
		last := len(steps) - 1
		value, _ := fieldpath.Get(v.Object, steps)
		around, _ := fieldpath.Get(fields, steps[:last])
		if object, ok := around.(map[string]any); ok {
			object[steps[last]] = value
		}
	}
	return fields, nil
}

func (v *validation) add(rule string, severity validators.Severity, remedy string, err *field.Error) {
	v.findings = append(v.findings, validators.Finding{Rule: rule, Severity: severity, Error: err, Remedy: remedy})
}
