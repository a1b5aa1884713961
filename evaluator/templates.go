package evaluator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/apikinds"
	templatev1beta1 "github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// TemplateVM is the path of the VM in a VirtualMachineTemplate.
const TemplateVM = "spec.virtualMachine"

// MaxRenderedValues bounds the objects and lists that values of parameters add to the VM of a template, so that the VM
// takes little more memory than its template.
const MaxRenderedValues = 500

// ofTemplate renders the VM of a template with values, or with its defaults. The same random values are drawn each time, so
// that the result depends on the template only.
func ofTemplate(o metav1.Object, values map[string]string) machine {
	template := o.(*templatev1beta1.VirtualMachineTemplate)
	previewed, findings := templates.Preview(&template.Spec, values, rand.New(rand.NewPCG(1, 2))) //nolint:gosec // the values are discarded
	m := machine{findings: findings}
	if previewed == nil {
		return m
	}
	// Rendering has limits of its own. Those of decoding bound what is evaluated.
	raw, err := json.Marshal(previewed.VirtualMachine)
	if most := decode.Brackets(template.Spec.VirtualMachine.Raw) + MaxRenderedValues; err == nil && decode.Brackets(raw) > most {
		err = &field.Error{Type: field.ErrorTypeTooMany, Field: "spec", BadValue: field.OmitValueType{}, Detail: fmt.Sprintf("the values of parameters add more than %d objects and lists", MaxRenderedValues)}
	}
	if err == nil {
		m.vm = &v1.VirtualMachine{}
		err = DecodeStored(raw, m.vm)
	}
	if err != nil {
		m.vm = nil
		m.findings = append(m.findings, inTemplate(validators.Finding{Rule: validators.RuleReadable, Severity: validators.Deny, Error: fieldError(err), Remedy: validators.RemedyReadable}))
		return m
	}
	m.vm.Namespace = template.Namespace
	m.unknown = previewed.Unknown
	return m
}

// formOf is an object as policies read it; nil if it has no JSON form.
func formOf(object any) map[string]any {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil
	}
	var form map[string]any
	if sigsjson.UnmarshalCaseSensitivePreserveInts(raw, &form) != nil {
		return nil
	}
	return form
}

// inTemplate moves a finding on the VM to the template.
func inTemplate(f validators.Finding) validators.Finding {
	moved := *f.Error
	moved.Field = TemplateVM + "." + moved.Field
	if f.Error = &moved; f.Effective != "" {
		f.Effective = TemplateVM + "." + f.Effective
	}
	return f
}

// ofTemplate adds the findings of rendering a template. Pre-existing ones are warnings. A stored template has no warnings:
// that a parameter is required is no violation.
func (e *evaluation) ofTemplate(m machine, d decoded) {
	if len(m.findings) == 0 {
		return
	}
	if d.old != nil && !d.wasUnreadable && templates.Denied(m.findings) {
		effective.RatchetFindings(m.findings, formOf(d.object), e.kind.machine(d.old, nil).findings, formOf(d.old))
	}
	for i := range m.findings {
		if e.request.Stage != Stored || m.findings[i].Severity == validators.Deny {
			e.result.Findings = append(e.result.Findings, m.findings[i])
		}
	}
}

// certain removes the findings on a template that depend on required parameters without a value: those about a field that
// is not known, and those that other values do not have, as evaluate returns them. A finding of the template names each such
// parameter.
func (e *evaluation) certain(m machine, object metav1.Object, findings []validators.Finding, evaluate func(machine) ([]validators.Finding, error)) ([]validators.Finding, error) {
	if len(m.unknown) == 0 || len(findings) == 0 {
		return findings, nil
	}
	findings = slices.DeleteFunc(findings, func(f validators.Finding) bool { return dependsOn(&f, m.unknown) })
	values, ok := e.sampled(object)
	if !ok || len(findings) == 0 {
		return findings, nil
	}
	other := e.kind.machine(object, values)
	if other.none() {
		return findings, nil
	}
	others, err := evaluate(other)
	if err != nil {
		return nil, err
	}
	return common(findings, others), nil
}

// probe evaluates a template's VM with other values.
func (e *evaluation) probe(ctx context.Context, m machine) ([]validators.Finding, error) {
	probe := *e
	probe.ofOld = true // its references are not the template's
	in, err := probe.input(ctx, m, nil)
	if err != nil {
		return nil, err
	}
	verdict, err := e.evaluator.Pipeline.Decide(in)
	if err != nil {
		return nil, err
	}
	return verdict.Findings, nil
}

// sampled are the given values, and samples for the required parameters that lack one.
func (e *evaluation) sampled(object metav1.Object) (map[string]string, bool) {
	template := object.(*templatev1beta1.VirtualMachineTemplate)
	samples, ok := templates.Samples(&template.Spec, e.request.Values)
	if ok {
		maps.Copy(samples, e.request.Values)
	}
	return samples, ok
}

// common are the findings that two evaluations have, each at the same field.
func common(findings, others []validators.Finding) []validators.Finding {
	type id struct{ rule, field string }
	also := map[id]bool{}
	for i := range others {
		also[id{others[i].Rule, others[i].Error.Field}] = true
	}
	return slices.DeleteFunc(findings, func(f validators.Finding) bool { return !also[id{f.Rule, f.Error.Field}] })
}

// dependsOn reports whether a finding is about a field that is not known, or about one above or below it.
func dependsOn(f *validators.Finding, unknown []string) bool {
	within := func(path, other string) bool {
		rest, ok := strings.CutPrefix(path, other)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for _, path := range []string{f.Error.Field, f.Where()} {
		path = strings.TrimPrefix(path, TemplateVM+".")
		if slices.ContainsFunc(unknown, func(u string) bool { return within(path, u) || within(u, path) }) {
			return true
		}
	}
	return false
}

// warned turns denials by built-in rules into warnings: another value may satisfy the rule. Policies that match templates
// keep their enforcement.
func warned(findings []validators.Finding) []validators.Finding {
	for i := range findings {
		if f := &findings[i]; f.Severity == validators.Deny && !strings.HasPrefix(f.Rule, policies.RulePrefix) {
			f.Severity = validators.Warn
		}
	}
	return findings
}

// EvaluateMade evaluates the VirtualMachine that a VirtualMachineTemplate makes with the values of the request, as a user
// creates it: with the policies for VirtualMachines and the severities of the built-in rules. The findings are at fields
// of the template, and among them are those of rendering and of the policies for templates. What depends on required
// parameters without a value is not evaluated.
func (s *Snapshot) EvaluateMade(ctx context.Context, r Request) (*Result, error) {
	result, err := s.Evaluate(ctx, r)
	if err != nil || result.Verdict == nil {
		return result, err
	}
	result.Findings = slices.DeleteFunc(result.Findings, func(f validators.Finding) bool {
		return !strings.HasPrefix(f.Rule, policies.RulePrefix) && !strings.HasPrefix(f.Rule, "template-")
	})
	template := &templatev1beta1.VirtualMachineTemplate{}
	if err := DecodeStored(r.Object, template); err != nil {
		return nil, err // it was readable before
	}
	e := &evaluation{Snapshot: s, kind: find(Template), request: &r}
	m := e.kind.machine(template, r.Values)
	made, err := s.asVM(ctx, &r, m.vm, result.Namespace)
	if err != nil {
		return nil, err
	}
	found, err := e.certain(m, template, made.Findings, func(other machine) ([]validators.Finding, error) {
		others, err := s.asVM(ctx, &r, other.vm, result.Namespace)
		if err != nil {
			return nil, err
		}
		return others.Findings, nil
	})
	if err != nil {
		return nil, err
	}
	for i := range found {
		result.Findings = append(result.Findings, inTemplate(found[i]))
	}
	if made.Verdict != nil {
		made.Verdict.Container = m.container
	}
	result.Verdict, result.References, result.Warnings = made.Verdict, made.References, append(result.Warnings, made.Warnings...)
	slices.Sort(result.Warnings)
	result.Warnings = slices.Compact(result.Warnings)
	validators.Sort(result.Findings)
	return result, nil
}

// asVM evaluates a VM as one that a user writes.
func (s *Snapshot) asVM(ctx context.Context, r *Request, vm *v1.VirtualMachine, namespace string) (*Result, error) {
	raw, err := json.Marshal(vm)
	if err != nil {
		return nil, err
	}
	return s.Evaluate(ctx, Request{
		Object: raw, Kind: metav1.GroupVersionKind(apikinds.VirtualMachines.GroupVersionKind), Resource: metav1.GroupVersionResource(apikinds.VirtualMachines.GroupVersionResource()),
		Namespace: namespace, Name: vm.Name, User: r.User, Requester: r.Requester, Authorizer: r.Authorizer, AuthorizerApart: r.AuthorizerApart, Observer: r.Observer,
	})
}
