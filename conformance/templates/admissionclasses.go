package templates

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// admissionRun is a case with Virtward's answer.
type admissionRun struct {
	*admissionCase

	got *answered
}

// admissionClass is a known fault of virt-template.
type admissionClass struct {
	name string
	// of reports by the input whether a case shows the fault.
	of func(*admissionRun) bool
	// right reports whether Virtward gives the right answer.
	right func(*admissionRun) bool
}

// admissionClasses are the known faults, each with what is right. docs/internals/conformance.md explains them.
var admissionClasses = []admissionClass{
	{"a broken template cannot change its metadata", (*admissionRun).keepsSpec, (*admissionRun).isAllowed},
	{"a required parameter without a value hides other faults", (*admissionRun).lacksValue, deniedAt(stageWebhook)},
	{"a generated leading zero fails now and then", (*admissionRun).drawsNumber, (*admissionRun).isAllowed},
	{"an undefined reference in the message has the wrong field", (*admissionRun).refersInMessage, (*admissionRun).namesMessage},
	{"fields below spec.template.spec are not strict", (*admissionRun).isTemplate, (*admissionRun).namesUnknownField},
	{"the names in a request are not validated", (*admissionRun).hasInvalidName, deniedAt(stageSchema)},
	{"the labels in a request are not validated", (*admissionRun).hasInvalidLabel, deniedAt(stageWebhook)},
	{"every user can set the label of captures", (*admissionRun).setsRequestLabel, (*admissionRun).isDeniedForLabel},
	{"a capture in its own namespace needs no permission for the source", (*admissionRun).isLocal, (*admissionRun).isDeniedForSource},
	{"only the first fault is reported", (*admissionRun).isTemplate, (*admissionRun).namesMoreFaults},
}

func (x *admissionRun) isAllowed() bool { return x.got.allowed() }

func deniedAt(stage string) func(*admissionRun) bool {
	return func(x *admissionRun) bool { return x.got.stage == stage }
}

// template is the template of the case; empty if it is none.
func (x *admissionRun) template() (template v1beta1.VirtualMachineTemplate) {
	if json.Unmarshal(x.Object, &template) != nil {
		return v1beta1.VirtualMachineTemplate{}
	}
	return template
}

// request is the request of the case; empty if it is none.
func (x *admissionRun) request() (request v1beta1.VirtualMachineTemplateRequest) {
	if json.Unmarshal(x.Object, &request) != nil {
		return v1beta1.VirtualMachineTemplateRequest{}
	}
	return request
}

func (x *admissionRun) isTemplate() bool {
	return strings.HasPrefix(x.Area, "admission/vmt") && !strings.HasPrefix(x.Area, "admission/vmtr")
}

func (x *admissionRun) keepsSpec() bool {
	var now, before struct{ Spec any }
	return x.isTemplate() && x.Operation == "UPDATE" && json.Unmarshal(x.Object, &now) == nil && json.Unmarshal(x.OldObject, &before) == nil && sameJSON(now.Spec, before.Spec)
}

func (x *admissionRun) lacksValue() bool {
	return x.isTemplate() && slices.ContainsFunc(x.template().Spec.Parameters, func(p v1beta1.Parameter) bool { return p.Required && p.Value == "" && p.Generate == "" })
}

func (x *admissionRun) drawsNumber() bool {
	template := x.template()
	return x.isTemplate() && template.Spec.VirtualMachine != nil && slices.ContainsFunc(template.Spec.Parameters, func(p v1beta1.Parameter) bool {
		return p.Generate != "" && strings.Contains(string(template.Spec.VirtualMachine.Raw), "${{"+p.Name+"}}")
	})
}

func (x *admissionRun) refersInMessage() bool {
	return x.isTemplate() && len(namesIn(x.template().Spec.Message)) > 0
}

func (x *admissionRun) namesMessage() bool {
	return slices.ContainsFunc(x.got.findings, func(f validators.Finding) bool {
		return f.Rule == templates.RuleUndefinedParameter && f.Error.Field == "spec.message"
	})
}

func (x *admissionRun) namesUnknownField() bool {
	return x.got.stage == stageWebhook && slices.ContainsFunc(x.got.findings, func(f validators.Finding) bool {
		return f.Rule == templates.RuleUnknownField && strings.HasPrefix(f.Error.Field, "spec.virtualMachine.spec.template.spec.")
	})
}

// namesMoreFaults reports whether Virtward names the recorded faults, and more.
func (x *admissionRun) namesMoreFaults() bool {
	if x.Expect.Allowed || x.got.stage != x.Expect.Stage || x.got.stage != stageWebhook {
		return false
	}
	denied := ofSeverity(x.got.findings, validators.Deny)
	for _, cause := range x.Expect.Causes {
		if !slices.ContainsFunc(denied, func(c Cause) bool { return c.Class == cause.Class }) {
			return false
		}
	}
	return len(denied) > len(x.Expect.Causes)
}

func (x *admissionRun) hasInvalidName() bool {
	spec := x.request().Spec
	return !x.isTemplate() && (len(validation.IsDNS1123Subdomain(spec.VirtualMachineRef.Name)) > 0 || len(validation.IsDNS1123Label(spec.VirtualMachineRef.Namespace)) > 0 ||
		spec.TemplateName != "" && len(validation.IsDNS1123Subdomain(spec.TemplateName)) > 0)
}

func (x *admissionRun) hasInvalidLabel() bool {
	labels := x.request().Spec.TemplateLabels
	return !x.isTemplate() && slices.ContainsFunc(slices.Collect(maps.Keys(labels)), func(key string) bool {
		return len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(labels[key])) > 0
	})
}

func (x *admissionRun) setsRequestLabel() bool {
	var before v1beta1.VirtualMachineTemplate
	if x.OldObject != nil && json.Unmarshal(x.OldObject, &before) != nil {
		return false
	}
	template := x.template()
	value, set := template.Labels[v1beta1.LabelRequestUID]
	return x.isTemplate() && set && value != before.Labels[v1beta1.LabelRequestUID]
}

func (x *admissionRun) isDeniedForLabel() bool {
	return slices.Equal(x.got.checks, []string{"template-request-label"})
}

func (x *admissionRun) isLocal() bool {
	request := x.request()
	return !x.isTemplate() && request.Spec.VirtualMachineRef.Namespace == request.Namespace
}

// isDeniedForSource reports whether the source is the only check that denies beside the recorded ones.
func (x *admissionRun) isDeniedForSource() bool {
	recorded := []string{"source"}
	for _, cause := range x.Expect.Causes {
		recorded = append(recorded, cause.Check)
	}
	return slices.Equal(recorded, x.got.checks)
}
