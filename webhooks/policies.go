package webhooks

import (
	"fmt"
	"reflect"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/diagnostics"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/validators"
)

func dryRun(request *admissionv1.AdmissionRequest) bool {
	return request.DryRun != nil && *request.DryRun
}

// virtualMachinePolicy rejects a policy that cannot be evaluated. A pre-existing problem is a warning, so that a policy
// that no longer compiles can still be disabled.
func (e *examination) virtualMachinePolicy() error {
	object, old := &policyv1alpha1.VirtualMachinePolicy{}, &policyv1alpha1.VirtualMachinePolicy{}
	if err := evaluator.DecodeStored(e.request.Object.Raw, object); err != nil {
		e.unreadable(reflect.TypeOf(*object), err)
		return nil
	}
	compiled, problems := e.CompilePolicy(object)
	var before []diagnostics.Problem
	if diagnostics.Broken(problems) && e.updates() && evaluator.DecodeStored(e.request.OldObject.Raw, old) == nil {
		if before = problems; !equality.Semantic.DeepEqual(old.Spec, object.Spec) {
			_, before = e.CompilePolicy(old)
		}
	}
	for _, problem := range problems {
		e.findings = append(e.findings, aboutPolicy(problem, slices.Contains(before, problem)))
	}
	if missing := compiled.ParamsMissing(); missing != "" && !diagnostics.Broken(problems) {
		e.findings = append(e.findings, aboutPolicy(diagnostics.Problem{Field: "spec.params.configMap", Message: missing, Warning: true}, false))
	}
	return nil
}

// aboutPolicy returns a problem of a policy as a finding. A pre-existing problem is a warning.
func aboutPolicy(problem diagnostics.Problem, preExisting bool) validators.Finding {
	message := problem.Message
	if problem.Line > 0 {
		message = fmt.Sprintf("%d:%d: %s", problem.Line, problem.Column, message)
	}
	finding := validators.Finding{
		Rule: validators.RulePolicy, Severity: validators.Deny, Remedy: validators.RemedyPolicy,
		Error: &field.Error{Type: field.ErrorTypeInvalid, Field: problem.Field, BadValue: field.OmitValueType{}, Detail: message},
	}
	if problem.Warning || preExisting {
		finding.Severity, finding.PreExisting = validators.Warn, preExisting && !problem.Warning
	}
	return finding
}
