package webhooks

import (
	"encoding/json"
	"math/rand/v2"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// RuleTemplateLabels is the rule about the labels of a template that a request asks for. Schemas cannot express it.
const RuleTemplateLabels = "template-labels"

const remedyTemplateLabels = "Use labels that kubectl label accepts."

// template validates a VirtualMachineTemplate with its default values. Only a changed spec is validated. Pre-existing
// findings are warnings.
func (e *examination) template() error {
	object, ok := decoded[v1beta1.VirtualMachineTemplate](e)
	if !ok {
		return nil
	}
	findings := checkTemplate(object)
	if e.updates() && templates.Denied(findings) {
		before := &v1beta1.VirtualMachineTemplate{}
		if evaluator.DecodeStored(e.request.OldObject.Raw, before) == nil {
			effective.RatchetFindings(findings, document(e.request.Object.Raw), checkTemplate(before), document(e.request.OldObject.Raw))
		}
	}
	e.findings = append(e.findings, findings...)
	return nil
}

// checkTemplate validates a template. The same random values are drawn each time, so that the verdict depends on the
// template only.
func checkTemplate(object *v1beta1.VirtualMachineTemplate) []validators.Finding {
	return templates.Check(&object.Spec, rand.New(rand.NewPCG(1, 2))) //nolint:gosec // the values are discarded
}

// document returns an object as a map; empty if it is not JSON.
func document(raw []byte) map[string]any {
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return map[string]any{}
	}
	return fields
}

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
