package webhooks

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/validators"
)

// RuleTemplateLabels is the rule about the labels of a template that a request asks for. Schemas cannot express it.
const RuleTemplateLabels = "template-labels"

const remedyTemplateLabels = "Use labels that kubectl label accepts."

// templateRequest validates what the schema of a VirtualMachineTemplateRequest cannot: keys and values of labels. The spec
// cannot change after the creation.
func (e *examination) templateRequest() error {
	object, ok := decoded[v1beta1.VirtualMachineTemplateRequest](e)
	if !ok || e.updates() {
		return nil
	}
	at := field.NewPath("spec", "templateLabels")
	for key, value := range object.Spec.TemplateLabels {
		for _, problem := range validation.IsQualifiedName(key) {
			e.invalidLabel(at.Key(key), key, problem)
		}
		for _, problem := range validation.IsValidLabelValue(value) {
			e.invalidLabel(at.Key(key), value, problem)
		}
	}
	validators.Sort(e.findings)
	return nil
}

func (e *examination) invalidLabel(at *field.Path, value, problem string) {
	e.findings = append(e.findings, validators.Finding{
		Rule: RuleTemplateLabels, Severity: validators.Deny, Error: field.Invalid(at, value, problem), Remedy: remedyTemplateLabels,
	})
}
