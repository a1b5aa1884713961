package convert

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// draft is a policy that is being written.
type draft struct {
	*original

	files  *files
	result *Result
	spec   *policyv1alpha1.VirtualMachinePolicySpec
	// data reports whether the parameters are a ConfigMap, whose keys are below data in the original.
	data bool
	// paths are the fields of the object that each variable reads.
	paths map[string][]path
}

func (d *draft) note(lost bool, field, format string, values ...any) {
	d.result.Notes = append(d.result.Notes, Note{Field: field, Message: fmt.Sprintf(format, values...), Lost: lost})
}

// build writes the policy for one part of the match.
func (d *draft) build(p part) {
	d.result.Policy = &policyv1alpha1.VirtualMachinePolicy{TypeMeta: metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: apikinds.VirtualMachinePolicy}}
	d.spec, d.paths = &d.result.Policy.Spec, map[string][]path{}
	d.describe()
	d.spec.Enforcement = enforcement(d.binding.ValidationActions)
	d.spec.FailurePolicy = policyv1alpha1.PolicyFail
	if policy := d.original.spec.FailurePolicy; policy != nil {
		d.spec.FailurePolicy = policyv1alpha1.PolicyFailure(*policy)
	}
	d.params()
	d.match(p)
	if d.module != "" {
		d.spec.Rego = &policyv1alpha1.PolicyRego{Module: d.module}
	}
	for _, v := range d.original.spec.Variables {
		d.paths[v.Name] = d.fieldsOf(v.Expression)
		d.spec.Variables = append(d.spec.Variables, policyv1alpha1.PolicyVariable{
			Name: v.Name, Expression: d.expression(v.Expression, fmt.Sprintf("spec.variables[%d].expression", len(d.spec.Variables))),
		})
	}
	for i := range d.original.spec.Validations {
		d.validation(&d.original.spec.Validations[i])
	}
	for i := range d.original.spec.AuditAnnotations {
		d.note(true, "spec.validations", "the audit annotation %s has no equivalent: every violation is in the audit annotations of Virtward",
			texts.Shorten(d.original.spec.AuditAnnotations[i].Key, maxQuoted))
	}
}

// describe copies the texts that Kyverno's policies have in annotations.
func (d *draft) describe() {
	text := func(name string, bytes int) string {
		return texts.Shorten(strings.TrimSpace(d.annotations["policies.kyverno.io/"+name]), bytes)
	}
	d.spec.Title, d.spec.Description, d.spec.Category = texts.OneLine(text("title", 120)), text("description", 4096), texts.OneLine(text("category", 63))
	severities := []policyv1alpha1.PolicySeverity{policyv1alpha1.PolicyLow, policyv1alpha1.PolicyMedium, policyv1alpha1.PolicyHigh, policyv1alpha1.PolicyCritical}
	if severity := policyv1alpha1.PolicySeverity(text("severity", 16)); slices.Contains(severities, severity) {
		d.spec.Severity = severity
	}
}

// enforcement returns the strictest of the actions.
func enforcement(actions []admissionregistrationv1.ValidationAction) policyv1alpha1.PolicyEnforcement {
	for _, action := range []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny, admissionregistrationv1.Warn} {
		if slices.Contains(actions, action) {
			return policyv1alpha1.PolicyEnforcement(action)
		}
	}
	return policyv1alpha1.PolicyAudit
}

// match writes the match of the policy.
func (d *draft) match(p part) {
	m := &d.spec.Match
	m.Kinds, m.Operations = p.kinds, p.operations
	constraints, bound := d.original.spec.MatchConstraints, d.binding.MatchResources
	if constraints == nil {
		constraints = &admissionregistrationv1.MatchResources{}
	}
	if bound == nil {
		bound = &admissionregistrationv1.MatchResources{}
	}
	if slices.Contains(p.operations, policyv1alpha1.PolicyDelete) {
		d.note(false, "spec.match.operations", "deletions are admitted while Virtward is down, unless a value of the chart changes that: see docs/policy-requests.md")
	}
	m.ExcludedUsers, m.ExcludedGroups = d.excludedUsers, d.excludedGroups
	if slices.Contains(m.Kinds, policyv1alpha1.PolicyVirtualMachineInstance) && slices.ContainsFunc(slices.Concat(m.ExcludedUsers, m.ExcludedGroups), ofSystem) {
		d.note(false, "spec.match", "instances that KubeVirt creates are evaluated: its accounts cannot be excluded")
	}
	m.NamespaceSelector = both(constraints.NamespaceSelector, bound.NamespaceSelector)
	m.ObjectSelector = both(constraints.ObjectSelector, bound.ObjectSelector)
	if !empty(constraints.ObjectSelector) && !empty(bound.ObjectSelector) && slices.Contains(p.operations, policyv1alpha1.PolicyUpdate) {
		d.note(false, "spec.match.objectSelector", "an update matches if its labels before or after it fit both selectors: "+
			"in the original, one selector can fit before, and the other after")
	}
	for _, c := range d.original.spec.MatchConditions {
		at := fmt.Sprintf("spec.match.matchConditions[%d].expression", len(m.MatchConditions))
		m.MatchConditions = append(m.MatchConditions, policyv1alpha1.PolicyCondition{Name: texts.Shorten(c.Name, 63), Expression: d.expression(c.Expression, at)})
	}
	for _, c := range slices.Concat(p.conditions(), d.further(p)) {
		for slices.ContainsFunc(m.MatchConditions, func(other policyv1alpha1.PolicyCondition) bool { return other.Name == c.Name }) {
			c.Name = valid(c.Name + "-2")
		}
		m.MatchConditions = append(m.MatchConditions, c)
	}
}

// ofSystem reports whether a user or a group can be an account of KubeVirt, or have it.
func ofSystem(name string) bool {
	return strings.HasPrefix(name, "system:serviceaccount") || name == "system:authenticated"
}

// validation writes a validation.
func (d *draft) validation(v *admissionregistrationv1.Validation) {
	at := fmt.Sprintf("spec.validations[%d]", len(d.spec.Validations))
	made := policyv1alpha1.PolicyValidation{
		Expression: d.expression(v.Expression, at+".expression"), Message: v.Message,
		FieldPath: common(d.fieldsOf(v.Expression)),
	}
	if v.MessageExpression != "" {
		made.MessageExpression = d.expression(v.MessageExpression, at+".messageExpression")
	}
	if made.Message == "" && made.MessageExpression == "" {
		made.Message = texts.Shorten("failed expression: "+texts.OneLine(v.Expression), 1024)
	}
	if v.Reason != nil {
		made.Reason = policyv1alpha1.PolicyReason(*v.Reason)
	}
	d.spec.Validations = append(d.spec.Validations, made)
}

// params writes the parameters.
func (d *draft) params() {
	if d.values != nil {
		raw, err := json.Marshal(d.values)
		if err != nil {
			d.note(true, "spec.params", "the parameters cannot be copied: %s", texts.OneLine(err.Error()))
			return
		}
		d.spec.Params = &policyv1alpha1.PolicyParams{Values: &apiextensionsv1.JSON{Raw: raw}}
		return
	}
	kind, ref := d.original.spec.ParamKind, d.binding.ParamRef
	if kind == nil || ref == nil {
		return
	}
	if kind.APIVersion == "v1" && kind.Kind == "ConfigMap" && ref.Name != "" && ref.Namespace != "" {
		d.data = true
		d.spec.Params = &policyv1alpha1.PolicyParams{ConfigMap: &policyv1alpha1.PolicyConfigMap{Namespace: ref.Namespace, Name: ref.Name}}
		if ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == admissionregistrationv1.AllowAction {
			d.spec.Params.ParameterNotFoundAction = policyv1alpha1.PolicyParameterAllow
		}
		d.note(false, "spec.params.configMap", "Virtward reads ConfigMaps of its own namespace, and of those in the value policies.paramsNamespaces of the chart")
		return
	}
	named := texts.Shorten(strings.TrimSpace(kind.Kind+" "+ref.Name), maxQuoted)
	found := d.files.parameters(kind, ref)
	switch {
	case len(found) != 1 && ref.Selector != nil:
		d.note(true, "spec.params", "the binding selects its parameters by labels, and %d objects of the files match: exactly one can be copied", len(found))
	case len(found) == 0 && ref.Namespace == "" && kind.Kind == "ConfigMap":
		d.note(true, "spec.params", "each namespace has its own %s as parameters: a policy has the same parameters in all namespaces", named)
	case len(found) != 1:
		d.note(true, "spec.params", "the parameters are in the %s: add its file with -f to copy them", named)
	default:
		d.copy(found[0], named)
	}
}

// copy writes the content of an object as values.
func (d *draft) copy(object *unstructured.Unstructured, named string) {
	content := object.DeepCopy().Object
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(content, name)
	}
	metadata := map[string]any{"name": object.GetName()}
	if labels := object.GetLabels(); len(labels) > 0 {
		metadata["labels"], _, _ = unstructured.NestedFieldCopy(object.Object, "metadata", "labels")
	}
	content["metadata"] = metadata
	raw, err := json.Marshal(content)
	if err != nil {
		d.note(true, "spec.params", "the %s cannot be copied: %s", named, texts.OneLine(err.Error()))
		return
	}
	d.spec.Params = &policyv1alpha1.PolicyParams{Values: &apiextensionsv1.JSON{Raw: raw}}
	d.note(false, "spec.params", "copied from the %s: change the parameters here", named)
}
