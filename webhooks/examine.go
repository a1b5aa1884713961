package webhooks

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/limits"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/platform"
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
// check: the object cannot be read, which is a finding, or it is being deleted and runs as it did.
func decoded[T any, P interface {
	*T
	metav1.Object
}](e *examination) (object, old P, ok bool) {
	object = new(T)
	if err := decode(e.request.Object.Raw, object); err != nil {
		unreadable[T](e, err)
		return nil, nil, false
	}
	object.SetNamespace(e.request.Namespace)
	if !e.updates() {
		return object, nil, true
	}
	old = new(T)
	if err := decode(e.request.OldObject.Raw, old); err != nil {
		// What changes is not known, and what was wrong before neither: everything that is wrong is new.
		old, e.unknownBefore = new(T), true
	}
	if old.GetDeletionTimestamp() != nil && e.unchanged(reflect.TypeFor[T](), metadata, status) {
		return nil, nil, false
	}
	old.SetNamespace(e.request.Namespace)
	return object, old, true
}

// unreadable is a finding about an object that is out of all proportion or of another form. It only warns of an update
// that leaves what is evaluated as it was. KubeVirt's own accounts may also change labels, annotations and what they
// plug into what runs, or nothing of the kind could be migrated or deleted any more.
func unreadable[T any](e *examination, err error) {
	finding := validators.Finding{Rule: validators.RuleReadable, Severity: validators.Deny, Error: fieldError(err), Remedy: validators.RemedyReadable}
	if e.updates() && e.unchanged(reflect.TypeFor[T](), e.leftTo()...) {
		finding.Severity, finding.Known = validators.Warn, true
	}
	e.findings = append(e.findings, finding)
}

// Fields that are not compared: those of the metadata that nobody evaluates, and the status, which KubeVirt writes.
const (
	metadata = "metadata"
	status   = "status"
)

// notEvaluated are the fields that may change in an object which cannot be read. Of its metadata, labels and
// annotations are evaluated.
var notEvaluated = []string{
	status, "metadata.managedFields", "metadata.finalizers", "metadata.ownerReferences", "metadata.resourceVersion", "metadata.generation",
	"metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.uid", "metadata.creationTimestamp", "metadata.selfLink",
}

// plugged are the fields of a running instance's spec that KubeVirt changes: for hotplug, for migration, and for what
// follows from either. They are the same ones in the template of a VM.
var plugged = []string{
	"domain.cpu", "domain.memory", "domain.resources", "domain.devices.disks", "domain.devices.filesystems", "domain.devices.interfaces",
	"domain.devices.hostDevices", "volumes", "utilityVolumes", "networks", "nodeSelector", "affinity", "tolerations", "evictionStrategy",
}

// leftTo are the fields that the requester may change in an object which cannot be read.
func (e *examination) leftTo() []string {
	if !e.facts.ByKubeVirt(e.request.UserInfo.Username) {
		return notEvaluated
	}
	free := slices.Concat(notEvaluated, []string{"metadata.labels", "metadata.annotations"})
	spec := "spec."
	switch e.request.Kind.Kind {
	case kindVM:
		spec = "spec.template.spec."
		free = append(free, "spec.running", "spec.runStrategy")
	case kindVMI:
	default:
		return free
	}
	for _, name := range plugged {
		free = append(free, spec+name)
	}
	return free
}

// unchanged tells whether an update leaves an object of a type as it was but for some fields, whether or not it can be
// decoded. What has no form changes.
func (e *examination) unchanged(t reflect.Type, but ...string) bool {
	after, err := limits.Form(e.request.Object.Raw, t, but...)
	if err != nil {
		return false
	}
	before, err := limits.Form(e.request.OldObject.Raw, t, but...)
	return err == nil && bytes.Equal(before, after)
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
		in.Arrived = !e.written
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
	if old != nil && !e.unknownBefore {
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
	if old != nil && !e.unknownBefore {
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
	if err := e.excusePresets(vmi, verdict.Findings); err != nil {
		return err
	}
	e.add(verdict.Findings)
	return nil
}

// excusePresets only warns that an instance is not complete where there are too many presets to complete any.
func (e *examination) excusePresets(vmi *v1.VirtualMachineInstance, findings []validators.Finding) error {
	incomplete := func(f validators.Finding) bool {
		return f.Rule == validators.RuleComplete && f.Severity == validators.Deny
	}
	if !slices.ContainsFunc(findings, incomplete) {
		return nil
	}
	_, err := lookup.Presets(e.ctx, e.Objects, vmi.ObjectMeta)
	if !errors.Is(err, lookup.ErrPresets) {
		return err
	}
	for i := range findings {
		if incomplete(findings[i]) {
			findings[i].Severity = validators.Warn
		}
	}
	return nil
}

// preset checks that a preset can be read, and is of a reasonable size.
func (e *examination) preset() error {
	_, _, ok := decoded[v1.VirtualMachineInstancePreset](e)
	if ok {
		e.boundReference()
	}
	return nil
}

// boundReference denies an object that virtual machines refer to if it is larger than what is read of one.
func (e *examination) boundReference() {
	raw, outOfProportion := limits.Evaluated(e.request.Object.Raw, reflect.TypeFor[any]())
	if outOfProportion != nil || len(raw) <= platform.MaxReference {
		return
	}
	err := &field.Error{
		Type: field.ErrorTypeTooLong, Field: "spec", BadValue: field.OmitValueType{},
		Detail: fmt.Sprintf("the object has %d bytes, where %d are the most", len(raw), platform.MaxReference),
	}
	unreadable[any](e, err)
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
	if old != nil && !e.unknownBefore && old.Spec.Template != nil {
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
	err = e.judgeVM(vm, before, func(in *effective.Input) {
		if in.Container = containerBefore; in.VM == vm {
			in.Container = container
		}
	})
	if err != nil || before != nil && equality.Semantic.DeepEqual(vm, before) {
		return err
	}
	return e.machinesOfPool(vm, container.Template)
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
	e.boundReference()
	return alone(e, validators.OnInstancetype, object, old, func(s *validators.Subject, o *instancetypev1beta1.VirtualMachineClusterInstancetype) {
		s.Instancetype = &o.Spec
	})
}

func (e *examination) preference() error {
	object, old, ok := decoded[instancetypev1beta1.VirtualMachineClusterPreference](e)
	if !ok {
		return nil
	}
	e.boundReference()
	return alone(e, validators.OnPreference, object, old, func(s *validators.Subject, o *instancetypev1beta1.VirtualMachineClusterPreference) {
		s.Preference = &o.Spec
	})
}

// alone judges an object that is no virtual machine, and what it was before; show puts it where rules look for it.
func alone[T any](e *examination, scopes validators.Scope, object, old *T, show func(*validators.Subject, *T)) error {
	subject := func(o *T) *validators.Subject {
		if o == nil || o == old && e.unknownBefore {
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
		unreadable[policyv1alpha1.RuleSettings](e, err)
		return nil
	}
	for _, err := range validators.CheckSettings(e.Rules, settings) {
		e.findings = append(e.findings, validators.Finding{Rule: validators.RuleSettingsKnown, Severity: validators.Deny, Error: err})
	}
	return nil
}
