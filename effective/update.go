package effective

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/validators"
)

// DecideUpdate decides on an object. If that would reject an update, it calls before for the object before the update,
// with the current facts, and pre-existing findings only warn: see Ratchet. before is nil at a creation.
func (p *Pipeline) DecideUpdate(in Input, before func() (Input, error)) (*Verdict, error) {
	verdict, err := p.Decide(in)
	if err != nil || before == nil || verdict.Allowed() {
		return verdict, err
	}
	old, err := before()
	if err != nil {
		return nil, err
	}
	old.OnlyDenying = true // the findings of other policies change nothing
	was, err := p.Decide(old)
	if err != nil {
		return nil, err
	}
	verdict.Ratchet(was)
	return verdict, nil
}

// DecideDeletion evaluates the policies on the deletion of a stored object. It checks nothing else: an object that could
// not run can be deleted.
func (p *Pipeline) DecideDeletion(in Input) (*Verdict, error) {
	verdict, err := p.complete(&in, false)
	if err != nil {
		return nil, err
	}
	verdict.Container, verdict.Conflicts = in.Container, nil
	ofContainer := p.evaluatePolicies(verdict, &in)
	if in.VM != nil {
		verdict.trace(&in)
	}
	verdict.place(in.Container, ofContainer)
	validators.Sort(verdict.Findings)
	return verdict, nil
}

// CheckObject checks an object that is no virtual machine by the rules of some scopes, and of an update what it
// was before: see DecideUpdate. The subjects hold the facts; object and old are what fields are looked up in.
func (p *Pipeline) CheckObject(s *validators.Subject, scopes validators.Scope, object any, before *validators.Subject, old any) ([]validators.Finding, error) {
	validator, err := p.hypervisors.Validator(s.Facts.Hypervisor.Name, s.Facts.DefaultArchitecture)
	if err != nil {
		return nil, err
	}
	findings := validator.Rules().Check(s, scopes)
	if before != nil && rejects(findings) {
		ratchet(findings, fieldsOf(object), validator.Rules().Check(before, scopes), fieldsOf(old))
	}
	return findings, nil
}

func rejects(findings []validators.Finding) bool {
	return slices.ContainsFunc(findings, func(f validators.Finding) bool { return f.Severity == validators.Deny })
}

// fieldsOf is an object as nested fields; nil if it has no such form.
func fieldsOf(object any) map[string]any {
	if fields, ok := object.(map[string]any); ok {
		return runtime.DeepCopyJSON(fields)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil
	}
	return fields
}

// within moves findings on a template to the path of the template in its object: spec.template of a replica set.
// The findings change in place.
func within(template *field.Path, findings []validators.Finding) {
	for i := range findings {
		f := &findings[i]
		moved := *f.Error
		moved.Field = template.String() + "." + f.Error.Field
		if f.Error = &moved; f.Effective != "" {
			f.Effective = template.String() + "." + f.Effective
		}
	}
}
