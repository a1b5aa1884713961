package webhooks

import (
	"reflect"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/validators"
)

// siteDefaults rejects VirtualMachineDefaults that can have no effect, or whose values violate a rule.
func (e *examination) siteDefaults() error {
	object := &policyv1alpha1.VirtualMachineDefaults{}
	if err := evaluator.DecodeStored(e.request.Object.Raw, object); err != nil {
		e.unreadable(reflect.TypeOf(*object), err)
		return nil
	}
	errs, err := e.snapshot.CheckDefaults(object)
	for _, wrong := range errs {
		e.findings = append(e.findings, validators.Finding{
			Rule: validators.RuleSiteDefaults, Severity: validators.Deny, Error: wrong, Remedy: validators.RemedySiteDefaults,
		})
	}
	return err
}
