package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/diagnostics"
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
	// Lost reports whether the policy lacks a part of the original, does not compile, or has a finding of lint.
	Lost bool `json:"lost"`
	// Reason is the id of one of Reasons, or the name of a check of lint; empty for other differences.
	Reason string `json:"reason,omitempty"`
}

// Result is what one object became.
type Result struct {
	// Index is the position of the object in the input.
	Index int `json:"-"`
	// Source is the kind and the name of the original.
	Source string `json:"source"`
	// Policy is nil if the original is not converted, or if it sets defaults.
	Policy *policyv1alpha1.VirtualMachinePolicy `json:"policy,omitempty"`
	// Defaults are those of an original that sets values that are missing.
	Defaults *policyv1alpha1.VirtualMachineDefaults `json:"defaults,omitempty"`
	// Written is the rule of the original, if it is in patterns.
	Written *Written `json:"-"`
	// Notes are sorted by the order of the fields in the original.
	Notes []Note `json:"notes,omitempty"`
}

// Complete reports whether the policy has all parts of the original, and compiles.
func (r *Result) Complete() bool {
	return !slices.ContainsFunc(r.Notes, func(n Note) bool { return n.Lost })
}

// Convert returns the policies that the objects become, in the order of the objects. Bindings, exceptions and parameters
// become parts of the policies that they are for. A policy with several bindings becomes several policies. always are the
// fields below vm.spec that each virtual machine has, as for advice.Of.
func Convert(env *cel.Environment, objects []*unstructured.Unstructured, always []string) []Result {
	c := &converter{env: env, always: always, files: sorted(objects), names: map[string]bool{}}
	for i, object := range objects {
		switch kind := kindOf(object); {
		case kind == native:
			c.native(i, object)
		case kind == kyverno || kind == kyvernoNamespaced:
			c.kyverno(i, object)
		case kind == clusterPolicy || kind == namespacedPolicy:
			c.clusterPolicy(i, object)
		case kind == constraintTemplate:
			c.template(i, object)
		case kind == gatekeeperAssign && applied(object):
			c.assign(i, object)
		case kind.Group == constraintGroup:
			c.constraint(i, object)
		default:
			c.other(i, object)
		}
	}
	return c.results
}

// converter converts the objects of some files.
type converter struct {
	env     *cel.Environment
	always  []string
	files   *files
	names   map[string]bool
	results []Result
}

// made is what the original became; nil for nothing.
func (r *Result) made() (object runtime.Object, name string) {
	switch {
	case r.Policy != nil:
		return r.Policy, r.Policy.Name
	case r.Defaults != nil:
		return r.Defaults, r.Defaults.Name
	}
	return nil, ""
}

// Converted reports whether the original became an object.
func (r *Result) Converted() bool {
	object, _ := r.made()
	return object != nil
}

// leave adds a result without a policy. Without a message, it is that of the reason.
func (c *converter) leave(i int, object *unstructured.Unstructured, reason, message string) {
	note := Note{Message: cmp.Or(message, because(reason)), Lost: reason != NotAPolicy, Reason: reason}
	c.results = append(c.results, Result{Index: i, Source: described(object), Notes: []Note{note}})
}

// unreadable adds a result for an object that cannot be decoded.
func (c *converter) unreadable(i int, object *unstructured.Unstructured, err error) {
	c.leave(i, object, Unreadable, because(Unreadable)+": "+err.Error())
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
	if len(parts) == 0 { // everything else is beside the point
		c.results = append(c.results, Result{Index: o.index, Source: o.source(), Notes: []Note{{
			Message: because(NoVirtualMachine), Lost: true, Reason: NoVirtualMachine,
		}}})
		return
	}
	o.notes = append(o.notes, notes...)
	for i := range parts {
		r := Result{Index: o.index, Source: o.source(), Written: o.written, Notes: slices.Clone(o.notes)}
		d := &draft{original: o, files: c.files, result: &r}
		d.build(parts[i])
		name := o.policyName()
		if len(parts) > 1 {
			name += fmt.Sprintf("-%d", i+1)
		}
		r.Policy.Name = c.unique(name, &r)
		c.check(&r)
		c.lint(&r)
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
	untyped := map[string]string{}
	for c.untype(r, untyped) { // an error in a variable hides those in what reads it
	}
	c.untypeVariables(r, untyped)
	for _, p := range c.problems(r.Policy) {
		delete(untyped, p.Field)
		r.Notes = append(r.Notes, Note{Field: p.Field, Message: notCompiling + p.Message + pointer(p.Message), Lost: true})
	}
	for _, field := range slices.Sorted(maps.Keys(untyped)) {
		r.Notes = append(r.Notes, Note{Field: field, Message: "the object has no type here, as in the original; with its type: " + untyped[field]})
	}
}

// untype writes expressions that do not compile without types, and reports whether it changed one.
func (c *converter) untype(r *Result, untyped map[string]string) (changed bool) {
	for _, p := range c.problems(r.Policy) {
		text := expressionAt(&r.Policy.Spec, p.Field)
		if text == nil || *text == "" || untyped[p.Field] != "" {
			continue
		}
		if strings.HasSuffix(p.Field, ".fieldPath") { // the path was a guess
			*text, changed = "", true
		} else if without, err := export.Untyped(*text); err == nil && without != *text {
			untyped[p.Field], *text, changed = p.Message, without, true
		}
	}
	return changed
}

// untypeVariables writes variables without types, if an expression compiles only then.
func (c *converter) untypeVariables(r *Result, untyped map[string]string) {
	before := c.problems(r.Policy)
	if len(before) == 0 || len(r.Policy.Spec.Variables) == 0 {
		return
	}
	variables := slices.Clone(r.Policy.Spec.Variables)
	var changed []string
	for i := range r.Policy.Spec.Variables {
		v := &r.Policy.Spec.Variables[i]
		if text, err := export.Untyped(v.Expression); err == nil && text != v.Expression {
			v.Expression, changed = text, append(changed, fmt.Sprintf("spec.variables[%d].expression", i))
		}
	}
	if len(c.problems(r.Policy)) >= len(before) {
		r.Policy.Spec.Variables = variables
		return
	}
	for _, field := range changed {
		if untyped[field] == "" {
			untyped[field] = before[0].Message
		}
	}
}

const notCompiling = "it does not compile: "

// problems returns the errors of a policy.
func (c *converter) problems(policy *policyv1alpha1.VirtualMachinePolicy) []diagnostics.Problem {
	_, found := policies.Compile(c.env, policy, nil)
	return slices.DeleteFunc(found, func(p diagnostics.Problem) bool { return p.Warning })
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
