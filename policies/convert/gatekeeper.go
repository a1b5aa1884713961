package convert

import (
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/policies/export"
)

// templateSpec is the spec of a ConstraintTemplate.
type templateSpec struct {
	CRD struct {
		Spec struct {
			Names struct {
				Kind string `json:"kind"`
			} `json:"names"`
			Validation struct {
				OpenAPIV3Schema map[string]any `json:"openAPIV3Schema,omitempty"`
			} `json:"validation"`
		} `json:"spec"`
	} `json:"crd"`
	Targets []struct {
		Target     string                                  `json:"target"`
		Operations []admissionregistrationv1.OperationType `json:"operations,omitempty"`
		// Rego and Libs are the older form of the code.
		Rego string   `json:"rego,omitempty"`
		Libs []string `json:"libs,omitempty"`
		Code []struct {
			Engine string         `json:"engine"`
			Source map[string]any `json:"source"`
		} `json:"code,omitempty"`
	} `json:"targets"`
}

// engineCEL is the name of the engine of templates in CEL.
const engineCEL = "K8sNativeValidation"

// source returns the code of a template in CEL; nil if it has none.
func (s *templateSpec) source() map[string]any {
	for _, target := range s.Targets {
		for _, code := range target.Code {
			if code.Engine == engineCEL {
				return code.Source
			}
		}
	}
	return nil
}

// celSource is the code of a template in CEL.
type celSource struct {
	Validations     []admissionregistrationv1.Validation       `json:"validations,omitempty"`
	FailurePolicy   *admissionregistrationv1.FailurePolicyType `json:"failurePolicy,omitempty"`
	MatchConditions []admissionregistrationv1.MatchCondition   `json:"matchCondition,omitempty"`
	Variables       []admissionregistrationv1.Variable         `json:"variables,omitempty"`
	GenerateVAP     *bool                                      `json:"generateVAP,omitempty"`
}

// constraintSpec is the spec of a constraint.
type constraintSpec struct {
	EnforcementAction        string         `json:"enforcementAction,omitempty"`
	ScopedEnforcementActions []scopedAction `json:"scopedEnforcementActions,omitempty"`
	Match                    struct {
		Kinds              []constraintKinds     `json:"kinds,omitempty"`
		Scope              string                `json:"scope,omitempty"`
		Namespaces         []string              `json:"namespaces,omitempty"`
		ExcludedNamespaces []string              `json:"excludedNamespaces,omitempty"`
		LabelSelector      *metav1.LabelSelector `json:"labelSelector,omitempty"`
		NamespaceSelector  *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
		Name               string                `json:"name,omitempty"`
		Source             string                `json:"source,omitempty"`
	} `json:"match,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// constraintKinds are kinds of some API groups.
type constraintKinds struct {
	APIGroups []string `json:"apiGroups,omitempty"`
	Kinds     []string `json:"kinds,omitempty"`
}

// scopedAction is the action at some enforcement points.
type scopedAction struct {
	Action            string `json:"action"`
	EnforcementPoints []struct {
		Name string `json:"name"`
	} `json:"enforcementPoints"`
}

// template notes a ConstraintTemplate that no constraint uses. Constraints are converted with their templates.
func (c *converter) template(i int, object *unstructured.Unstructured) {
	var spec templateSpec
	// The code of other engines has fields of its own.
	if _, err := decode(object, &spec); err != nil {
		c.unreadable(i, object, err)
		return
	}
	used := slices.ContainsFunc(c.files.objects, func(o *unstructured.Unstructured) bool {
		return kindOf(o).Group == constraintGroup && o.GetKind() == spec.CRD.Spec.Names.Kind
	})
	if !used {
		c.leave(i, object, NoConstraint, "")
	}
}

// templateOf returns the template of a constraint, nil if it is not among the files.
func (f *files) templateOf(constraint *unstructured.Unstructured) *unstructured.Unstructured {
	for _, object := range f.objects {
		kind, _, _ := unstructured.NestedString(object.Object, "spec", "crd", "spec", "names", "kind")
		if kindOf(object) == constraintTemplate && kind == constraint.GetKind() {
			return object
		}
	}
	return nil
}

// The variables that Gatekeeper adds to each template.
const (
	variableObject = "anyObject"
	variableParams = "params"
)

// parameters writes the parameters, and replaces the variables that Gatekeeper adds: variables.params becomes params, and
// variables.anyObject becomes object, except at deletions. An expression that reads the constraint itself, as params, keeps
// the variables.
func (o *original) parameters(constraint *unstructured.Unstructured, parameters map[string]any) {
	deletes := slices.ContainsFunc(slices.Collect(maps.Keys(o.matched)), func(c cell) bool { return c.operation == policyv1alpha1.PolicyDelete })
	read, raw := false, false
	all := o.expressions()
	for _, text := range all {
		read = read || strings.Contains(*text, variableParams)
		raw = raw || export.Reads(*text, variableParams)
	}
	if !raw && parameters != nil && o.without(variableParams, variableParams) {
		if read {
			o.values = parameters
		}
	} else if read {
		expression := "dyn(null)"
		if parameters != nil {
			o.values, expression = map[string]any{"metadata": map[string]any{"name": constraint.GetName()}, "spec": map[string]any{"parameters": parameters}}, "params.spec.parameters"
		}
		if raw {
			o.values = whole(constraint, parameters)
		}
		o.spec.Variables = append([]admissionregistrationv1.Variable{{Name: variableParams, Expression: expression}}, o.spec.Variables...)
	}
	if o.values != nil {
		o.differs("spec.params", "copied from the constraint: change the parameters here")
	}
	if deletes || !o.without(variableObject, "object") {
		object := "object"
		if deletes {
			object = "object == null ? oldObject : object"
		}
		o.spec.Variables = append([]admissionregistrationv1.Variable{{Name: variableObject, Expression: object}}, o.spec.Variables...)
	}
}

// whole returns a constraint with its parameters.
func whole(constraint *unstructured.Unstructured, parameters map[string]any) map[string]any {
	spec, _, _ := unstructured.NestedMap(constraint.Object, "spec")
	if parameters != nil {
		spec["parameters"] = parameters
	}
	return map[string]any{"metadata": map[string]any{"name": constraint.GetName()}, "spec": spec}
}

// expressions returns all expressions of the original.
func (o *original) expressions() []*string {
	var all []*string
	for i := range o.spec.MatchConditions {
		all = append(all, &o.spec.MatchConditions[i].Expression)
	}
	for i := range o.spec.Variables {
		all = append(all, &o.spec.Variables[i].Expression)
	}
	for i := range o.spec.Validations {
		all = append(all, &o.spec.Validations[i].Expression)
		if o.spec.Validations[i].MessageExpression != "" {
			all = append(all, &o.spec.Validations[i].MessageExpression)
		}
	}
	return all
}

// without replaces a variable by a name in all expressions, and reports whether that is possible; if not, none changes.
func (o *original) without(variable, name string) bool {
	all := o.expressions()
	changed := make([]string, len(all))
	for i, text := range all {
		var err error
		if changed[i], err = export.WithoutVariable(*text, variable, name); err != nil {
			return false
		}
	}
	for i := range all {
		*all[i] = changed[i]
	}
	return true
}

// parametersOf returns the parameters of a constraint with the defaults of the template's schema; nil if there are none.
func (s *templateSpec) parametersOf(spec *constraintSpec) map[string]any {
	schema := s.CRD.Spec.Validation.OpenAPIV3Schema
	given := spec.Parameters
	if given == nil {
		given, _ = schema["default"].(map[string]any)
	}
	parameters, _ := withDefaults(given, schema).(map[string]any)
	return parameters
}

// withDefaults returns a value with the defaults of its schema, as the API server adds them. A value that is absent stays
// absent, unless its schema has a default. So does null, unless the schema permits it.
func withDefaults(value any, schema map[string]any) any {
	switch v := value.(type) {
	case map[string]any:
		if v == nil {
			return nil
		}
		properties, _ := schema["properties"].(map[string]any)
		made := maps.Clone(v)
		for name, property := range properties {
			of, _ := property.(map[string]any)
			if made[name] == nil && of["nullable"] != true {
				delete(made, name)
			}
			if _, set := made[name]; !set && of["default"] != nil {
				made[name] = of["default"]
			}
			if made[name] != nil {
				made[name] = withDefaults(made[name], of)
			}
		}
		if others, ok := schema["additionalProperties"].(map[string]any); ok {
			for name, other := range made {
				if _, named := properties[name]; !named && other != nil {
					made[name] = withDefaults(other, others)
				}
			}
		}
		return made
	case []any:
		items, _ := schema["items"].(map[string]any)
		made := slices.Clone(v)
		for i := range made {
			made[i] = withDefaults(made[i], items)
		}
		return made
	}
	return value
}
