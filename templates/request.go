package templates

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/validators"
)

// CheckRequest validates what the schema of a VirtualMachineTemplateRequest cannot: the keys and values of labels.
func CheckRequest(spec *v1beta1.VirtualMachineTemplateRequestSpec) []validators.Finding {
	r := &report{}
	at := field.NewPath("spec", "templateLabels")
	for key, value := range spec.TemplateLabels {
		for _, problem := range validation.IsQualifiedName(key) {
			r.deny(RuleLabels, field.Invalid(at.Key(key), key, problem))
		}
		for _, problem := range validation.IsValidLabelValue(value) {
			r.deny(RuleLabels, field.Invalid(at.Key(key), value, problem))
		}
	}
	return r.sorted()
}
