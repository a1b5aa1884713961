package webhooks

import (
	"errors"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/validators"
)

// input is what is the same for every object of the request.
func (e *examination) input() effective.Input {
	extra := make(map[string][]string, len(e.request.UserInfo.Extra))
	for key, values := range e.request.UserInfo.Extra {
		extra[key] = values
	}
	in := effective.Input{Facts: e.facts, Site: e.site, Severities: e.severities, Requester: e.request.UserInfo.Username, RequesterExtra: extra}
	e.policed(&in)
	return in
}

// decoded are the object of a request and, of an update, the one before; ok is false if there is nothing to
// check, since the object cannot be read, which is a finding, or is on its way out.
func decoded[T any, P interface {
	*T
	metav1.Object
}](e *examination) (object, old P, ok bool) {
	object = new(T)
	if err := decode(e.request.Object.Raw, object); err != nil {
		e.unreadable(err, decode(e.request.OldObject.Raw, new(T)))
		return nil, nil, false
	}
	if object.GetDeletionTimestamp() != nil {
		return nil, nil, false
	}
	object.SetNamespace(e.request.Namespace)
	if !e.updates() {
		return object, nil, true
	}
	old = new(T)
	if err := decode(e.request.OldObject.Raw, old); err != nil { // it has nothing that could be known
		old = new(T)
	}
	old.SetNamespace(e.request.Namespace)
	return object, old, true
}

// unreadable is a finding about an object that is out of all proportion or of another form. Of an update, before
// is what is wrong with the object as it was: an old fault only warns.
func (e *examination) unreadable(err, before error) {
	finding := validators.Finding{Rule: validators.RuleReadable, Severity: validators.Deny, Error: fieldError(err), Remedy: validators.RemedyReadable}
	if e.updates() && before != nil {
		if was := fieldError(before); was.Type == finding.Error.Type && was.Field == finding.Error.Field {
			finding.Severity, finding.Known = validators.Warn, true
		}
	}
	e.findings = append(e.findings, finding)
}

// fieldError is an error of decode; one that names no field is about the spec.
func fieldError(err error) *field.Error {
	var named *field.Error
	if errors.As(err, &named) {
		return named
	}
	return &field.Error{Type: field.ErrorTypeInvalid, Field: "spec", BadValue: field.OmitValueType{}, Detail: err.Error()}
}

func (e *examination) virtualMachine() error {
	vm, old, ok := decoded[v1.VirtualMachine](e)
	if !ok {
		return nil
	}
	return e.judgeVM(vm, old, func(in *effective.Input) {
		in.Arrived = true
		if in.VM == old {
			in.Raw = e.request.OldObject.Raw
			return
		}
		in.OldVM, in.Raw = old, e.request.Object.Raw
	})
}

// judgeVM judges a VM, or what a template would make, and what it was before; complete adds to what is known of
// either.
func (e *examination) judgeVM(vm, old *v1.VirtualMachine, complete func(*effective.Input)) error {
	in, warnings, err := e.vmInput(vm)
	if err != nil {
		return err
	}
	complete(&in)
	var before func() (effective.Input, error)
	if old != nil {
		before = func() (effective.Input, error) {
			in, _, err := e.vmInput(old)
			complete(&in)
			return in, err
		}
	}
	verdict, err := e.Pipeline.Judge(in, before)
	if err != nil {
		return err
	}
	e.add(verdict.Findings)
	e.warnings = append(e.warnings, warnings...)
	return nil
}

// vmInput gathers what a VM refers to. The warnings say what of it is missing and so cannot be checked.
func (e *examination) vmInput(vm *v1.VirtualMachine) (effective.Input, []string, error) {
	in := e.input()
	in.VM = vm
	references, warnings, err := lookup.For(e.ctx, e.Objects, vm, nil)
	if err != nil {
		return in, nil, err
	}
	in.References = references
	in.Running, err = lookup.Running(e.ctx, e.Objects, vm)
	return in, warnings, err
}

// virtualMachineInstance judges a new one as it arrived, and of an update what changed.
func (e *examination) virtualMachineInstance() error {
	vmi, old, ok := decoded[v1.VirtualMachineInstance](e)
	if !ok {
		return nil
	}
	in := e.input()
	in.VMI, in.OldVMI, in.Arrived, in.Raw = vmi, old, true, e.request.Object.Raw
	var before func() (effective.Input, error)
	if old != nil {
		before = func() (effective.Input, error) {
			in := e.input()
			in.VMI, in.OldVMI, in.Arrived, in.Raw = old, old, true, e.request.OldObject.Raw
			return in, nil
		}
	}
	verdict, err := e.Pipeline.Judge(in, before)
	if err != nil {
		return err
	}
	e.add(verdict.Findings)
	if old == nil {
		e.owner = e.ownerOf(vmi)
	}
	return nil
}

// ownerOf is the object of KubeVirt's for which KubeVirt makes a VMI. Whoever else makes one chooses its owner, and
// would choose on what an event of ours appears.
func (e *examination) ownerOf(vmi *v1.VirtualMachineInstance) *Owner {
	owner := metav1.GetControllerOf(vmi)
	if owner == nil || !e.facts.ByKubeVirt(e.request.UserInfo.Username) || !strings.HasPrefix(owner.APIVersion, v1.GroupVersion.Group+"/") {
		return nil
	}
	return &Owner{OwnerReference: *owner, Namespace: e.request.Namespace}
}

func (e *examination) replicaSet() error {
	rs, old, ok := decoded[v1.VirtualMachineInstanceReplicaSet](e)
	if !ok {
		return nil
	}
	err := alone(e, validators.OnSet, rs, old, func(s *validators.Subject, o *v1.VirtualMachineInstanceReplicaSet) { s.Set = replicas(o) })
	if err != nil || rs.Spec.Template == nil {
		return err
	}
	inputOf := func(rs *v1.VirtualMachineInstanceReplicaSet) effective.Input {
		in := e.input()
		in.VMI = instanceOf(rs)
		in.Container = &effective.Container{Kind: e.request.Kind.Kind, Object: rs, Template: field.NewPath("spec", "template")}
		return in
	}
	var before func() (effective.Input, error)
	if old != nil && old.Spec.Template != nil {
		before = func() (effective.Input, error) { return inputOf(old), nil }
	}
	verdict, err := e.Pipeline.Judge(inputOf(rs), before)
	if err != nil {
		return err
	}
	e.add(verdict.Findings)
	return nil
}

// instanceOf is what a replica set would make.
func instanceOf(rs *v1.VirtualMachineInstanceReplicaSet) *v1.VirtualMachineInstance {
	vmi := &v1.VirtualMachineInstance{ObjectMeta: *rs.Spec.Template.ObjectMeta.DeepCopy(), Spec: *rs.Spec.Template.Spec.DeepCopy()}
	vmi.Namespace = rs.Namespace
	return vmi
}

func replicas(rs *v1.VirtualMachineInstanceReplicaSet) *validators.Set {
	s := &validators.Set{Template: field.NewPath("spec", "template"), Missing: rs.Spec.Template == nil, Selector: rs.Spec.Selector}
	if !s.Missing {
		s.Labels = rs.Spec.Template.ObjectMeta.Labels
	}
	return s
}

func (e *examination) pool() error {
	pool, old, ok := decoded[poolv1beta1.VirtualMachinePool](e)
	if !ok {
		return nil
	}
	err := alone(e, validators.OnSet, pool, old, func(s *validators.Subject, o *poolv1beta1.VirtualMachinePool) {
		s.Set = pooled(o)
		if o == pool && old != nil {
			s.Set.Fixed = old.Spec.Selector
		}
	})
	if err != nil || pool.Spec.VirtualMachineTemplate == nil {
		return err
	}
	vm, container := effective.OfPool(pool)
	before, containerBefore := effective.OfPool(old)
	if old != nil {
		container.Old = old
	}
	return e.judgeVM(vm, before, func(in *effective.Input) {
		if in.Container = containerBefore; in.VM == vm {
			in.Container = container
		}
	})
}

func pooled(pool *poolv1beta1.VirtualMachinePool) *validators.Set {
	s := &validators.Set{
		Template: field.NewPath("spec", "virtualMachineTemplate"), Missing: pool.Spec.VirtualMachineTemplate == nil,
		Selector: pool.Spec.Selector, MaxUnavailable: pool.Spec.MaxUnavailable,
	}
	if !s.Missing {
		s.Labels = pool.Spec.VirtualMachineTemplate.ObjectMeta.Labels
	}
	return s
}

func (e *examination) instancetype() error {
	object, old, ok := decoded[instancetypev1beta1.VirtualMachineClusterInstancetype](e)
	if !ok {
		return nil
	}
	return alone(e, validators.OnInstancetype, object, old, func(s *validators.Subject, o *instancetypev1beta1.VirtualMachineClusterInstancetype) {
		s.Instancetype = &o.Spec
	})
}

func (e *examination) preference() error {
	object, old, ok := decoded[instancetypev1beta1.VirtualMachineClusterPreference](e)
	if !ok {
		return nil
	}
	return alone(e, validators.OnPreference, object, old, func(s *validators.Subject, o *instancetypev1beta1.VirtualMachineClusterPreference) {
		s.Preference = &o.Spec
	})
}

// alone judges an object that is no virtual machine, and what it was before; show puts it where rules look for it.
func alone[T any](e *examination, scopes validators.Scope, object, old *T, show func(*validators.Subject, *T)) error {
	subject := func(o *T) *validators.Subject {
		if o == nil {
			return nil
		}
		s := &validators.Subject{Facts: e.facts, Severities: e.severities, Path: field.NewPath("spec")}
		show(s, o)
		return s
	}
	findings, err := e.Pipeline.JudgeAlone(subject(object), scopes, object, subject(old), old)
	e.findings = append(e.findings, findings...)
	return err
}

// add adds findings to those on other parts of the object.
func (e *examination) add(findings []validators.Finding) {
	e.findings = append(e.findings, findings...)
	validators.Sort(e.findings)
}

// ruleSettings refuses settings that could have no effect.
func (e *examination) ruleSettings() error {
	settings := &policyv1alpha1.RuleSettings{}
	if err := decode(e.request.Object.Raw, settings); err != nil {
		e.unreadable(err, nil)
		return nil
	}
	for _, err := range validators.CheckSettings(e.Rules, settings) {
		e.findings = append(e.findings, validators.Finding{Rule: validators.RuleSettingsKnown, Severity: validators.Deny, Error: err})
	}
	return nil
}
