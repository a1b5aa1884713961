package convert

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/texts"
)

// maxProblems bounds the parts without an equivalent that a note names.
const maxProblems = 8

// maxExpression is how many bytes an expression of a policy can have.
const maxExpression = 8192

// translation is a rule in CEL.
type translation struct {
	rule *clusterRule
	// patterns reports whether the rule was written as patterns or loops, which Kyverno does not evaluate at deletions.
	patterns bool
	// denies reports whether the rule was written as conditions, which are evaluated at deletions too.
	denies bool
	// written is what the rule was; nil for a rule in CEL that is not about pods.
	written *Written
	notes   []string
}

// inCEL reports whether the rule was written in CEL.
func (t *translation) inCEL() bool { return !t.patterns && !t.denies }

// Written is a rule of Kyverno in patterns or conditions, or the module of a template.
type Written struct {
	// Rule is its name; empty for a module.
	Rule string
	// Skipped is the expression of bool that is true where Kyverno skips the rule, and Errors where it has an error.
	Skipped, Errors string
	// ByNamespace reports whether it reads the namespace.
	ByNamespace bool
	// Template is that of a constraint; nil for a rule of Kyverno.
	Template *unstructured.Unstructured

	patterns []any
	// reads are the fields that conditions and modules read.
	reads      []read
	users      []string
	operations []policyv1alpha1.PolicyOperation
	kind       string
	typ        reflect.Type
	// namespace and labels are those of an object that the rule matches.
	namespace string
	labels    map[string]string
	// pods reports whether the rule reads the pods of virtual machines.
	pods bool
}

// Pods reports whether the original reads the pods of virtual machines. Its cases are about the virtual machines.
func (w *Written) Pods() bool { return w.pods }

// about returns what a rule was, with an object that its match selects.
func (r *clusterRule) about(kind *apikinds.Machine) *Written {
	w := &Written{Rule: r.Name, Skipped: "false", Errors: "false", kind: kind.Kind, typ: kind.Type, pods: r.Pods}
	of := operations
	if r.Pods { // each pod is created
		w.typ, of = podType, operations[:1]
	}
	cells := r.cells(operations)
	for _, operation := range of {
		if cells[cell{policyv1alpha1.PolicyKind(kind.Kind), operation}] {
			w.operations = append(w.operations, operation)
		}
	}
	filters, _ := r.Match.filters()
	for i := range filters {
		resources := filters[i].Resources
		if resources == nil {
			continue
		}
		if len(resources.Namespaces) > 0 {
			w.namespace = literalOf(resources.Namespaces[0])
			w.reading([]string{"metadata", "namespace"}, reflect.TypeFor[string](), []any{w.namespace, "elsewhere"})
			w.ByNamespace = true
		}
		if resources.Selector != nil {
			w.labels = map[string]string{}
			for _, key := range slices.Sorted(maps.Keys(resources.Selector.MatchLabels)) {
				label, value := literalOf(key), literalOf(resources.Selector.MatchLabels[key])
				w.labels[label] = value
				w.reading([]string{"metadata", "labels", label}, reflect.TypeFor[string](), []any{value, "another"})
			}
		}
		break
	}
	return w
}

// translate returns a rule in CEL, or the reason why there is none, with the parts that have no equivalent. ignores reports whether
// requests are admitted for which Kyverno has an error.
func (r *clusterRule) translate(ignores bool) (made *translation, reason, problems string) {
	reason = r.reason()
	if reason == "" {
		made = &translation{rule: r}
		if r.Pods {
			machine := apikinds.Machines()[0]
			made.written, made.notes = r.OfPods.written(r.about(&machine)), r.OfPods.notes()
			if made.written != nil && len(r.CELPreconditions) > 0 {
				made.written.Skipped = unmet(r.CELPreconditions)
			}
		}
		return made, "", ""
	}
	read := newPatterns()
	read.pods = r.Pods
	var validations []admissionregistrationv1.Validation
	var variables []admissionregistrationv1.Variable
	switch reason {
	case Pattern:
		validations = read.applied(r, read.rule(r), ignores)
	case Deny, ForEach:
		var reads bool
		if validations, reads = read.denials(r, ignores); reads {
			variables = []admissionregistrationv1.Variable{{Name: strings.TrimPrefix(subject, "variables."), Expression: "object == null ? oldObject : object"}}
		}
	default:
		return nil, reason, ""
	}
	if len(read.order) > 0 {
		var all []string
		for _, at := range read.order[:min(len(read.order), maxProblems)] {
			all = append(all, strings.TrimPrefix(at+": ", ": ")+read.problems[at])
		}
		return nil, reason, "; " + texts.OneLine(strings.Join(all, "; "))
	}
	rule, validate := *r, *r.Validate
	validate.CEL = &celValidation{Expressions: validations, Variables: variables}
	made = &translation{rule: &rule}
	if reason == Pattern {
		validate.Pattern, validate.AnyPattern = nil, nil
		made.patterns = true
	} else {
		made.patterns, made.denies = reason == ForEach, reason == Deny
		validate.Deny, validate.ForEach = nil, nil
	}
	made.written = read.written
	rule.Preconditions, rule.Context = nil, nil
	rule.Validate = &validate
	for _, at := range slices.Sorted(maps.Keys(read.notes)) {
		made.notes = append(made.notes, at+": "+read.notes[at])
	}
	return made, "", ""
}

// rule returns the validations of a rule that is written as patterns.
func (p *patterns) rule(r *clusterRule) []admissionregistrationv1.Validation {
	kinds := map[policyv1alpha1.PolicyKind]bool{}
	for c := range r.cells(operations) {
		if c.operation != policyv1alpha1.PolicyDelete {
			kinds[c.kind] = true
		}
	}
	if len(kinds) == 0 {
		p.fails(nil, "Kyverno does not evaluate patterns at deletions, so the rule has no effect")
		return nil
	}
	var holds *logic
	for _, kind := range apikinds.Machines() {
		if !kinds[policyv1alpha1.PolicyKind(kind.Kind)] {
			continue
		}
		one, skipped := p.whole(r.Validate, p.root("object", &kind))
		if holds != nil && holds.String() != one.String() {
			p.fails(nil, "its kinds have other fields or defaults: write one rule for each kind")
		}
		if holds = &one; p.written == nil {
			p.written = r.about(&kind)
			p.written.Skipped = skipped.String()
			p.written.writtenAs(r.Validate)
		}
	}
	if len(p.problems) > 0 {
		return nil
	}
	if holds.kind == logicTrue {
		p.fails(nil, "every object passes the pattern")
		return nil
	}
	message := strings.TrimSpace(r.Validate.Message)
	if message == "" {
		message = fmt.Sprintf("the object does not match the pattern of the rule %s", texts.Shorten(r.Name, maxQuoted))
	}
	if strings.Contains(message, "{{") {
		p.notes["message"] = "its variables are not replaced: write a messageExpression"
	}
	if n := len(holds.String()); n > maxExpression {
		p.fails(nil, "it becomes an expression of %d bytes, and a policy can have %d: split the rule", n, maxExpression)
		return nil
	}
	parts := holds.separate(logicAll)
	made := make([]admissionregistrationv1.Validation, len(parts))
	for i, part := range parts {
		made[i] = admissionregistrationv1.Validation{Expression: part.String(), Message: message}
	}
	return made
}

// writtenAs notes the patterns of a rule, for tests.
func (w *Written) writtenAs(v *clusterValidation) {
	all, _ := v.AnyPattern.([]any)
	if v.Pattern != nil {
		all = []any{v.Pattern}
	}
	if !w.pods {
		w.patterns = all
		return
	}
	for _, pattern := range all { // what is written is a VirtualMachine
		w.readingPattern(nil, w.typ, pattern)
	}
}

// whole returns when an object does not fail the patterns of a rule, and when it is skipped.
func (p *patterns) whole(v *clusterValidation, root ref) (holds, skipped logic) {
	if v.Pattern != nil && v.AnyPattern != nil {
		p.fails(nil, "it has both pattern and anyPattern")
		return yes, no
	}
	return p.patternsOf(root, v.Pattern, v.AnyPattern)
}

// patternsOf returns when an object does not fail a pattern, or all of several, and when it is skipped.
func (p *patterns) patternsOf(root ref, pattern, anyPattern any) (holds, skipped logic) {
	if pattern != nil {
		one := p.element(root, pattern, absenceByPattern)
		return one.holds, one.skipped
	}
	list, ok := anyPattern.([]any)
	if !ok {
		p.fails([]string{"anyPattern"}, "it must be a list")
		return yes, no
	}
	// One pattern passes, or none fails and all are skipped.
	passes, all := no, yes
	skipped, skips := yes, false
	for _, pattern := range list {
		one := p.element(root, pattern, absenceByPattern)
		passes, all, skipped = disjunction(passes, one.passes()), conjunction(all, one.holds), conjunction(skipped, one.skipped)
		skips = skips || one.skipped.kind != logicFalse
	}
	switch {
	case len(list) == 0:
		return yes, no
	case skips:
		return disjunction(passes, all), skipped
	}
	return passes, no
}
