package webhooks

import (
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/validators"
)

// ExceptionRemedy is said once in a denial by policies that have exceptions.
const ExceptionRemedy = "Exceptions are possible: kubectl explain vmpolex."

// lastExemptable returns the index of the last finding of a policy from which an exception can exempt an object of a kind;
// -1 without one.
func lastExemptable(set *policies.Set, kind string, denied []validators.Finding) int {
	for i := len(denied) - 1; i >= 0; i-- {
		if set.Exemptable(kind, &denied[i]) {
			return i
		}
	}
	return -1
}

var exceptionKind = apikinds.PolicyExceptions.GroupKind()

// exempterWanted returns the user who is recorded as the author of the spec of an exception.
func exempterWanted(request *admissionv1.AdmissionRequest) (string, error) {
	if request.Operation == admissionv1.Update {
		old, object := &policyv1alpha1.VirtualMachinePolicyException{}, &policyv1alpha1.VirtualMachinePolicyException{}
		if err := errors.Join(evaluator.DecodeStored(request.OldObject.Raw, old), evaluator.DecodeStored(request.Object.Raw, object)); err != nil {
			return "", fmt.Errorf("reading the exception: %w", err)
		}
		if equality.Semantic.DeepEqual(old.Spec, object.Spec) {
			return old.Annotations[policyv1alpha1.AnnotationExemptedBy], nil
		}
	}
	return request.UserInfo.Username, nil
}

// policyException rejects an exception that can have no effect, and warns of policies that it does not reach.
func (e *examination) policyException() error {
	object, ok := decoded[policyv1alpha1.VirtualMachinePolicyException](e)
	if !ok {
		return nil
	}
	if e.ExceptionDuration <= 0 {
		e.rejectException(field.Forbidden(field.NewPath("spec"), "exceptions are switched off: policies.exceptions.enabled is false in the chart's values"))
		return nil
	}
	for _, wrong := range policies.CheckException(object, e.ExceptionDuration, e.began) {
		e.rejectException(wrong)
	}
	set, path := e.snapshot.Policies(), field.NewPath("spec", "policies")
	for i, name := range object.Spec.Policies {
		switch policy := set.Find(name); {
		case policy == nil:
			e.warnings = append(e.warnings, shortened(fmt.Sprintf("%s: there is no policy %s", path.Index(i), name)))
		case slices.Contains(policy.Spec().ExportTo, policyv1alpha1.PolicyExportAPIServer):
			e.warnings = append(e.warnings, shortened(fmt.Sprintf("%s: the API server also enforces policy %s (exportTo), without exceptions", path.Index(i), name)))
		}
	}
	e.warnings = bounded(e.warnings, 0)
	if exceptions := set.Exceptions(); exceptions.Possible() && !e.updates() && exceptions.Active(object.Namespace, e.began) >= policies.MaxExceptions {
		e.warnings = append(e.warnings, fmt.Sprintf("the exception is not active: the namespace has %d older active exceptions", policies.MaxExceptions))
	}
	return nil
}

func (e *examination) rejectException(wrong *field.Error) {
	e.findings = append(e.findings, validators.Finding{Rule: validators.RulePolicyException, Severity: validators.Deny, Error: wrong, Remedy: validators.RemedyPolicyException})
}
