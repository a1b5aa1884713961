package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/export"
	"github.com/virtward/virtward/texts"
)

// Note is a difference between the original and the policy.
type Note struct {
	// Field is a path in the policy; empty for the whole policy.
	Field string `json:"field,omitempty"`
	// Message says what differs.
	Message string `json:"message"`
	// Lost reports whether the policy lacks a part of the original, or does not compile.
	Lost bool `json:"lost"`
}

// Result is what one object became.
type Result struct {
	// Index is the position of the object in the input.
	Index int `json:"-"`
	// Source is the kind and the name of the original.
	Source string `json:"source"`
	// Policy is nil if the original is not converted.
	Policy *policyv1alpha1.VirtualMachinePolicy `json:"policy,omitempty"`
	// Notes are sorted by the order of the fields in the original.
	Notes []Note `json:"notes,omitempty"`
}

// Complete reports whether the policy has all parts of the original, and compiles.
func (r *Result) Complete() bool {
	return !slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Lost })
}

// Convert returns the policies that the objects become, in the order of the objects. Bindings, exceptions and parameters
// become parts of the policies that they are for. A policy with several bindings becomes several policies.
func Convert(env *cel.Environment, objects []*unstructured.Unstructured) []Result {
	c := &converter{env: env, files: sorted(objects), names: map[string]bool{}}
	for i, object := range objects {
		switch kindOf(object) {
		case native:
			c.native(i, object)
		case kyverno, kyvernoNamespaced:
			c.kyverno(i, object)
		default:
			c.other(i, object)
		}
	}
	return c.results
}

// converter converts the objects of some files.
type converter struct {
	env     *cel.Environment
	files   *files
	names   map[string]bool
	results []Result
}

// leave adds a result without a policy.
func (c *converter) leave(i int, object *unstructured.Unstructured, lost bool, message string) {
	c.results = append(c.results, Result{Index: i, Source: described(object), Notes: []Note{{Message: message, Lost: lost}}})
}

// described returns the kind and the name of an object.
func described(object *unstructured.Unstructured) string {
	return strings.TrimSpace(object.GetKind() + " " + object.GetName())
}

// add converts one original with one binding into one policy for each part of its match.
func (c *converter) add(o *original) {
	if policy, ok := export.Original(c.env, &o.spec, o.name, enforcement(o.binding.ValidationActions)); ok {
		policy.TypeMeta = metav1.TypeMeta{APIVersion: policyv1alpha1.GroupVersion.String(), Kind: apikinds.VirtualMachinePolicy}
		c.results = append(c.results, Result{Index: o.index, Source: o.source(), Policy: policy, Notes: append(o.notes, Note{
			Message: "Virtward exported this policy: its title, its description and its fieldPaths are not in the original",
		})})
		return
	}
	parts, notes := o.match()
	o.notes = append(o.notes, notes...)
	if len(parts) == 0 {
		c.results = append(c.results, Result{Index: o.index, Source: o.source(), Notes: append(o.notes, Note{
			Message: "it matches no VirtualMachine, VirtualMachineInstance or VirtualMachinePool", Lost: true,
		})})
		return
	}
	for i := range parts {
		r := Result{Index: o.index, Source: o.source(), Notes: slices.Clone(o.notes)}
		d := &draft{original: o, files: c.files, result: &r}
		d.build(parts[i])
		name := o.policyName()
		if len(parts) > 1 {
			name += fmt.Sprintf("-%d", i+1)
		}
		r.Policy.Name = c.unique(name, &r)
		c.check(&r)
		c.results = append(c.results, r)
	}
}

// unique returns a name that is valid and that no other policy has.
func (c *converter) unique(name string, r *Result) string {
	found := valid(name)
	for n := 2; c.names[found]; n++ {
		found = valid(fmt.Sprintf("%s-%d", name, n))
	}
	if found != name {
		r.Notes = append(r.Notes, Note{Field: "metadata.name", Message: fmt.Sprintf("the original name %q is too long, or not unique", texts.Shorten(name, maxQuoted))})
	}
	c.names[found] = true
	return found
}

// maxQuoted bounds what notes quote of an original, in bytes.
const maxQuoted = 80

// check compiles the policy. An error is a note: the cluster would not accept it. The compiler of native policies does not
// know the types of objects: where that makes the difference, the expression is written without types.
func (c *converter) check(r *Result) {
	_, problems := policies.Compile(c.env, r.Policy, nil)
	untyped := map[string]string{}
	for _, p := range problems {
		if p.Warning {
			continue
		}
		text := expressionAt(&r.Policy.Spec, p.Field)
		if text == nil {
			continue
		}
		if strings.HasSuffix(p.Field, ".fieldPath") { // the path was a guess
			*text = ""
		} else if changed, err := export.Untyped(*text); err == nil && untyped[p.Field] == "" {
			untyped[p.Field], *text = p.Message, changed
		}
	}
	_, problems = policies.Compile(c.env, r.Policy, nil)
	for _, p := range problems {
		if !p.Warning {
			delete(untyped, p.Field)
			r.Notes = append(r.Notes, Note{Field: p.Field, Message: "it does not compile: " + p.Message + pointer(p.Message), Lost: true})
		}
	}
	for _, field := range slices.Sorted(maps.Keys(untyped)) {
		r.Notes = append(r.Notes, Note{Field: field, Message: "the object has no type here, as in the original; with its type: " + untyped[field]})
	}
}

// expressionAt returns an expression, or a fieldPath, of a policy; nil if the field is none.
func expressionAt(spec *policyv1alpha1.VirtualMachinePolicySpec, field string) *string {
	at := func(format string, i int) bool { return field == fmt.Sprintf(format, i) }
	for i := range spec.Match.MatchConditions {
		if at("spec.match.matchConditions[%d].expression", i) {
			return &spec.Match.MatchConditions[i].Expression
		}
	}
	for i := range spec.Variables {
		if at("spec.variables[%d].expression", i) {
			return &spec.Variables[i].Expression
		}
	}
	for i := range spec.Validations {
		v := &spec.Validations[i]
		switch {
		case at("spec.validations[%d].expression", i):
			return &v.Expression
		case at("spec.validations[%d].messageExpression", i):
			return &v.MessageExpression
		case at("spec.validations[%d].fieldPath", i):
			return &v.FieldPath
		}
	}
	return nil
}
