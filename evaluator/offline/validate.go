package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/validators"
)

// validate adds the findings of the API server's own validation to the result of an object of a file.
func (w *Evaluator) validate(ctx context.Context, d manifests.Document, result *evaluator.Result) error {
	kind := d.Object.GroupVersionKind()
	found, installed, err := w.schemas.find(kind)
	if err != nil || found == nil {
		return err
	}
	v := &validation{Evaluator: w, schema: found, installed: installed, kind: kind, object: d.Object.Object, result: result}
	if err := v.unknownFields(); err != nil {
		return err
	}
	if err := v.values(ctx); err != nil {
		return err
	}
	result.Findings = append(result.Findings, v.findings...)
	validators.Sort(result.Findings)
	return nil
}

// validation is the validation of one object.
type validation struct {
	*Evaluator

	schema    *schemas.Schema
	installed bool
	kind      schema.GroupVersionKind
	// object is the object as it was written, and result that of its evaluation.
	object   map[string]any
	result   *evaluator.Result
	findings []validators.Finding
}

// unknownFields adds a finding for each field that the schema does not have. It replaces the warning about the same field.
func (v *validation) unknownFields() error {
	for _, u := range v.schema.Unknown(v.object) {
		severity, detail := validators.Deny, "is not a field of "+v.kind.Kind
		if v.UnknownFields == validators.Warn {
			severity = validators.Warn
		}
		if !v.installed {
			minors, err := v.schemas.havingField(v.kind, u)
			if err != nil {
				return err
			}
			if len(minors) > 0 {
				severity = validators.Warn
				detail += fmt.Sprintf(" in KubeVirt %s; KubeVirt %s has it", v.schemas.embedded.Minor(), strings.Join(minors, ", "))
			}
		}
		if u.Meant != "" {
			detail += ": did you mean " + u.Meant + "?"
		}
		v.add(validators.RuleUnknownField, severity, validators.RemedyUnknownField, &field.Error{
			Type: field.ErrorTypeForbidden, Field: u.Path, BadValue: field.OmitValueType{}, Detail: detail,
		})
		v.result.Warnings = slices.DeleteFunc(v.result.Warnings, func(text string) bool { return text == "unknown field "+u.Path })
	}
	return nil
}

// values adds the errors about values. The API server validates what the mutating webhooks return, so a virtual machine is
// validated as KubeVirt completes it.
func (v *validation) values(ctx context.Context) error {
	for _, err := range v.schema.ValidateMetadata(v.object, v.DefaultNamespace) {
		v.addValue(err)
	}
	mutated, err := v.mutated()
	if err != nil {
		return err
	}
	if mutated == nil {
		mutated = v.object
	}
	errs, err := v.schema.Validate(ctx, mutated, nil)
	if err != nil {
		return err
	}
	for _, err := range errs {
		v.addValue(err)
	}
	if v.completes() {
		for _, m := range v.schema.Missing(v.object) {
			err := &field.Error{Type: field.ErrorTypeRequired, Field: m.Path, BadValue: "", Detail: "KubeVirt's webhook rejects an object without it"}
			if m.Filled && v.deniedAt(m.Path) {
				continue
			}
			if m.Filled {
				v.add(validators.RuleSchema, validators.Warn, validators.RemedySchema, err)
			} else {
				v.addValue(err)
			}
		}
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
	_, present := fieldpath.Get(v.object, steps)
	written := present == len(steps) || err.Type == field.ErrorTypeRequired
	same := func(f validators.Finding) bool {
		return f.Severity == validators.Deny && (!written || f.Error.Field == err.Field || f.Effective == err.Field)
	}
	if !slices.ContainsFunc(v.result.Findings, same) && !slices.ContainsFunc(v.findings, same) {
		v.add(validators.RuleSchema, validators.Deny, validators.RemedySchema, err)
	}
}

// deniedAt reports whether a finding denies the object for a field.
func (v *validation) deniedAt(path string) bool {
	return slices.ContainsFunc(slices.Concat(v.result.Findings, v.findings), func(f validators.Finding) bool {
		return f.Severity == validators.Deny && f.Error.Field == path
	})
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
	return fields, nil
}

func (v *validation) add(rule string, severity validators.Severity, remedy string, err *field.Error) {
	v.findings = append(v.findings, validators.Finding{Rule: rule, Severity: severity, Error: err, Remedy: remedy})
}
