package evaluator

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// Evaluate evaluates an object with all rules and policies. It skips an object of a kind that is not in the table.
func (s *Snapshot) Evaluate(ctx context.Context, r Request) (*Result, error) {
	if r.apart == nil {
		r.apart = &apart{r.apartTimeout()}
	}
	result := &Result{}
	k := find(r.groupKind())
	if k == nil {
		result.Skipped = "objects of its kind are not evaluated"
		return result, nil
	}
	result.Namespace = r.Namespace
	if r.deletes() {
		return result, s.deletion(ctx, k, &r, result)
	}
	d, ok := s.read(k, &r, result)
	if !ok {
		return result, nil
	}
	if d.old != nil && rawOwners(r.Object) != rawOwners(r.OldObject) {
		if err := s.ownership(ctx, k, &r, d, result); err != nil || Unchanged(k.typ, &r, notEvaluated...) {
			return result, err
		}
	}
	result.Namespace = r.Namespace
	s.checkSize(k, &r, result)
	around, err := s.namespaceContext(ctx, r.Namespace)
	if err != nil {
		return nil, err
	}
	result.Warnings = append(result.Warnings, around.warnings...)
	e := &evaluation{Snapshot: s, kind: k, request: &r, around: around, result: result}
	if err := e.itself(d); err != nil {
		return nil, err
	}
	if err := e.machines(ctx, d); err != nil {
		return nil, err
	}
	if err := e.plugin(d); err != nil {
		return nil, err
	}
	validators.Sort(result.Findings)
	return result, nil
}

// Complete computes the fields that the mutating webhook fills. It runs no rules and no policies, and does not read the
// running instance. It skips an object that is not a virtual machine, or that has no template. The error is
// references.ErrPresets if an instance cannot be completed because there are too many presets.
func (s *Snapshot) Complete(ctx context.Context, r Request) (*Result, error) {
	result := &Result{}
	k := find(r.groupKind())
	if k == nil || k.GroupKind != VirtualMachine && k.GroupKind != VirtualMachineInstance {
		result.Skipped = "objects of its kind are not completed"
		return result, nil
	}
	object, warnings, err := s.readOne(k, &r, r.Object)
	if err != nil {
		result.Unreadable = err
		return result, nil //nolint:nilerr // the result has the error
	}
	result.Warnings = warnings
	m := k.machine(object, nil)
	if m.vm != nil && m.vm.Spec.Template == nil {
		result.Skipped = "it has no template"
		return result, nil
	}
	e := &evaluation{Snapshot: s, kind: k, request: &r, result: result}
	in, err := e.written(ctx, m)
	if err != nil {
		return nil, err
	}
	around, err := s.namespaceContext(ctx, r.Namespace)
	if err != nil {
		return nil, err
	}
	in.Site, result.Warnings = around.site, append(result.Warnings, around.warnings...)
	result.Verdict, err = s.evaluator.Pipeline.Complete(in)
	return result, err
}

// evaluation is the evaluation of one request.
type evaluation struct {
	*Snapshot

	kind    *kind
	request *Request
	around  *namespaceContext
	result  *Result
	// ofOld is set while the object before an update is evaluated.
	ofOld bool
}

// itself runs the rules of the object itself, not those of a virtual machine in it.
func (e *evaluation) itself(d decoded) error {
	if e.kind.scopes == 0 {
		return nil
	}
	subject := func(object, old metav1.Object) *validators.Subject {
		s := &validators.Subject{Facts: e.facts, Severities: e.around.severitiesAt(e.request.Stage), Path: field.NewPath("spec")}
		e.kind.present(s, object, old)
		return s
	}
	var before *validators.Subject
	if d.old != nil && !d.wasUnreadable {
		before = subject(d.old, nil)
	}
	findings, err := e.evaluator.Pipeline.CheckObject(subject(d.object, d.old), e.kind.scopes, d.object, before, d.old)
	e.result.Findings = append(e.result.Findings, findings...)
	return err
}

// machines evaluates the virtual machine that the object is or creates.
func (e *evaluation) machines(ctx context.Context, d decoded) error {
	if e.kind.machine == nil {
		return nil
	}
	m := e.kind.machine(d.object, e.request.Values)
	e.ofTemplate(m, d)
	if m.none() {
		return nil
	}
	rollout := e.rolloutOf(ctx, m, d)
	in, err := e.input(ctx, m, e.request.Object)
	if err != nil {
		return err
	}
	if d.old != nil {
		e.comparedWith(&in, m, d.old)
	}
	if err := e.findImages(ctx, &in); err != nil {
		return err
	}
	e.result.Rollout, in.Rollout = rollout.plan(ctx, &in)
	verdict, err := e.evaluator.Pipeline.DecideUpdate(in, e.before(ctx, d))
	if err != nil {
		return err
	}
	e.result.Verdict = verdict
	findings := verdict.Findings
	if m.vmi != nil && m.container == nil {
		if err := e.excusePresets(ctx, m.vmi, findings); err != nil {
			return err
		}
	}
	if e.kind.GroupKind == Template {
		if findings, err = e.certain(m, d.object, findings, func(other machine) ([]validators.Finding, error) { return e.probe(ctx, other) }); err != nil {
			return err
		}
		findings = warned(findings)
	}
	e.result.Findings = append(e.result.Findings, findings...)
	if err := e.requesterPolicies(ctx, m, d); err != nil {
		return err
	}
	if e.result.Rollout != nil && e.result.Allowed() {
		e.result.Warnings = append(e.result.Warnings, e.result.Rollout.Warnings(!e.facts.LiveUpdate)...)
	}
	return nil
}

// input reads everything that determines how a machine runs, of the new or of the old object.
func (e *evaluation) input(ctx context.Context, m machine, raw []byte) (effective.Input, error) {
	in, err := e.written(ctx, m)
	if err != nil {
		return in, err
	}
	r := e.request
	in.Site, in.Severities, in.NodeArchitectures = e.around.site, e.around.severitiesAt(r.Stage), e.active.NodeArchitectures
	in.NamespaceLabels = e.around.labels
	in.Requester, in.RequesterExtra, in.Author = r.requester(), extraOf(r), r.Author
	in.PostMutation = m.container == nil && (r.Stage != Written || r.Operation == admissionv1.Update)
	if m.container == nil {
		in.Raw = raw
	}
	if err := e.findCapacity(ctx, &in); err != nil {
		return in, err
	}
	if r.Operation == "" && r.Stage == Stored && m.container == nil && m.vmi != nil && m.vmi.Status.Phase == v1.Running {
		in.TargetNodes, in.Evaluating, in.Hurry = e.active.Nodes, r.Observer.Policies, r.Observer.Hurry
	}
	if in.VM != nil {
		if in.Running, err = references.Running(ctx, e.evaluator.References, in.VM); err != nil {
			return in, err
		}
	}
	if len(e.active.Policies.Policies()) > 0 {
		e.addPolicies(&in)
		if in.OwnerLabels, err = e.ownerLabels(ctx, m); err != nil {
			return in, err
		}
		e.gather(ctx, m, &in)
	}
	if r.Stage == Written && r.Operation != "" && m.container == nil && (m.vmi == nil || !r.updates()) { // an update of an instance is not completed
		return in, e.admit(&in)
	}
	return in, nil
}

// addPolicies adds the policies, and what they read of the request.
func (e *evaluation) addPolicies(in *effective.Input) {
	r := e.request
	in.PolicyNodes = e.active.Nodes
	in.Policies, in.Namespace, in.Now, in.Evaluating = e.active.Policies, e.around.namespace, e.now, r.Observer.Policies
	in.Gone, in.Hurry, in.Authorizer, in.AuthorizerApart = r.Observer.Gone, r.Observer.Hurry, r.Authorizer, r.AuthorizerApart
	in.Request, in.Large = r.forPolicies(), max(len(r.Object), len(r.OldObject)) > policies.OrdinaryBytes
}

// ownerLabels reads the labels of the virtual machine that controls an instance, if its namespace has exceptions. They are
// nil if there is no such virtual machine: users choose the owners of instances that they create.
func (e *evaluation) ownerLabels(ctx context.Context, m machine) (map[string]string, error) {
	if m.vmi == nil || m.container != nil || !e.active.Policies.Exceptions().Has(e.request.Namespace) {
		return nil, nil
	}
	owner := policies.OwningMachine(m.vmi)
	if owner == nil {
		return nil, nil
	}
	found, err := references.Find(ctx, e.evaluator.References, references.VirtualMachine, e.request.Namespace, owner.Name)
	if err != nil || found == nil || found.GetUID() != owner.UID {
		return nil, err
	}
	known := map[string]string{}
	maps.Copy(known, found.GetLabels())
	return known, nil
}

// gather reads the objects that a machine points at, as far as policies that deny read them. What only other policies read
// is read when they are evaluated.
func (e *evaluation) gather(ctx context.Context, m machine, in *effective.Input) {
	kind, operation := policyv1alpha1.PolicyKind(e.kind.Kind), policyv1alpha1.PolicyOperation(e.request.Operation)
	denying, others := e.active.Policies.References(kind, operation)
	if len(denying)+len(others) == 0 {
		return
	}
	spec, templates := &v1.VirtualMachineInstanceSpec{}, []v1.DataVolumeTemplateSpec(nil)
	if m.vmi != nil {
		spec = &m.vmi.Spec
	} else if m.vm.Spec.Template != nil {
		spec, templates = &m.vm.Spec.Template.Spec, m.vm.Spec.DataVolumeTemplates
	}
	gathering := references.NewGathering(e.evaluator.References, e.request.Namespace, spec, templates)
	in.Gathered = gathering.Gather(ctx, denying, references.GatherTimeout)
	e.noteUnknown(gathering, 0)
	if len(others) == 0 {
		return
	}
	in.GatherMore = func() *cel.References {
		known := len(gathering.NotGiven)
		defer e.noteUnknown(gathering, known)
		return e.request.apart.gather(ctx, gathering, others)
	}
}

// noteUnknown adds references to objects that are not in the files to the result, from the index of the first.
func (e *evaluation) noteUnknown(gathering *references.Gathering, first int) {
	if e.ofOld {
		return
	}
	for _, at := range gathering.NotGiven[first:] {
		e.result.References = append(e.result.References, effective.Reference{Field: at, State: effective.Unknown})
	}
}

// apart is the time that is left of apartTimeout in one request, and in the evaluations that are part of it.
type apart struct{ left time.Duration }

// apartTimeout returns the time for what only policies that do not deny read. No request waits for an audit.
func (r *Request) apartTimeout() time.Duration {
	if r.Operation == "" {
		return references.GatherTimeout
	}
	return references.ApartTimeout
}

// gather reads what only policies that do not deny read.
func (a *apart) gather(ctx context.Context, gathering *references.Gathering, lists []string) *cel.References {
	began := time.Now()
	defer func() { a.left -= time.Since(began) }()
	return gathering.Gather(ctx, lists, max(0, a.left))
}

// written reads what the completion of a machine needs: facts and references.
func (e *evaluation) written(ctx context.Context, m machine) (effective.Input, error) {
	in := effective.Input{Facts: e.facts, VM: m.vm, VMI: m.vmi, Container: m.container}
	e.restore(in.VM)
	if in.VMI != nil && (in.Container != nil || e.request.Stage != Written || e.request.updates()) {
		return in, nil // presets apply to new instances
	}
	found, warnings, err := references.For(ctx, e.evaluator.References, in.VM, in.VMI)
	if err != nil {
		return in, err
	}
	in.References = found
	if !e.ofOld {
		e.result.References, e.result.Warnings = found.Resolved, append(e.result.Warnings, warnings...)
	}
	return in, nil
}

// admit completes an object, so that it is as a validating webhook receives it. KubeVirt's mutating webhook also
// completes updates of a VM.
func (e *evaluation) admit(in *effective.Input) error {
	if in.VM != nil && in.VM.Spec.Template == nil {
		return nil
	}
	verdict, err := e.evaluator.Pipeline.Complete(*in)
	if err != nil {
		return err
	}
	in.VM, in.VMI, in.PostMutation = verdict.VM, verdict.VMI, true
	return nil
}

// comparedWith sets the object before an update.
func (e *evaluation) comparedWith(in *effective.Input, m machine, old metav1.Object) {
	if m.container != nil {
		in.Container.Old = old
		return
	}
	was := e.kind.machine(old, nil)
	in.OldVM, in.OldVMI = was.vm, was.vmi
}

// before returns a function that reads the machine before an update, or nil if there was none or it cannot be read. It is
// called only if the update would be denied.
func (e *evaluation) before(ctx context.Context, d decoded) func() (effective.Input, error) {
	if d.old == nil || d.wasUnreadable {
		return nil
	}
	was := e.kind.machine(d.old, nil)
	if was.none() {
		return nil
	}
	return func() (effective.Input, error) {
		e.ofOld = true
		in, err := e.input(ctx, was, e.request.OldObject)
		if was.container == nil {
			in.OldVMI = in.VMI
		}
		if err != nil {
			return in, err
		}
		return in, e.findImages(ctx, &in)
	}
}

// findImages finds the golden image that a VM clones, to compare the architectures, and the VirtualImages that a machine
// uses. The image of a stored VM is cloned already, and so is that of a VM whose update changes neither the architecture
// nor the images.
func (e *evaluation) findImages(ctx context.Context, in *effective.Input) (err error) {
	if e.request.Stage == Stored {
		return nil
	}
	if e.evaluator.VirtualImages && !validators.SameVirtualImages(in.VM, in.OldVM) && (in.VMI == nil || !e.request.updates()) {
		if in.VirtualImages, err = references.VirtualImages(ctx, e.evaluator.References, in.VM, in.VMI); err != nil {
			return err
		}
	}
	vm, old := in.VM, in.OldVM
	switch {
	case vm == nil || vm.Spec.Template == nil || len(vm.Spec.DataVolumeTemplates) == 0 || in.Architecture != nil:
		return nil
	case old != nil && validators.SameImages(old, vm):
		return nil
	}
	in.Architecture, err = references.ImageArchitecture(ctx, e.evaluator.References, vm)
	return err
}

// excusePresets turns findings about incomplete instances into warnings if there are too many presets to complete any.
func (e *evaluation) excusePresets(ctx context.Context, vmi *v1.VirtualMachineInstance, findings []validators.Finding) error {
	incomplete := func(f validators.Finding) bool {
		return f.Rule == validators.RuleComplete && f.Severity == validators.Deny
	}
	if !slices.ContainsFunc(findings, incomplete) {
		return nil
	}
	_, err := references.Presets(ctx, e.evaluator.References, vmi.ObjectMeta)
	if !errors.Is(err, references.ErrPresets) {
		return err
	}
	for i := range findings {
		if incomplete(findings[i]) {
			findings[i].Severity = validators.Warn
		}
	}
	return nil
}

// restore removes the architecture and the machine type from a stored VM if they are the defaults of the time when
// KubeVirt created it. So the defaults of the snapshot replace them.
func (e *evaluation) restore(vm *v1.VirtualMachine) {
	former := e.request.Former
	if former == nil || vm == nil || vm.ResourceVersion == "" || vm.Spec.Template == nil {
		return
	}
	spec := &vm.Spec.Template.Spec
	if spec.Architecture != former.DefaultArchitecture {
		return
	}
	if machine := spec.Domain.Machine; machine != nil && machine.Type == former.MachineType(spec.Architecture) {
		spec.Domain.Machine = nil
	}
	spec.Architecture = ""
}

func extraOf(r *Request) map[string][]string {
	extra := make(map[string][]string, len(r.User.Extra))
	for key, values := range r.User.Extra {
		extra[key] = values
	}
	return extra
}

// CheckDefaults validates VirtualMachineDefaults: see effective.Pipeline.
func (s *Snapshot) CheckDefaults(object *policyv1alpha1.VirtualMachineDefaults) (field.ErrorList, error) {
	return s.evaluator.Pipeline.CheckDefaults(object, s.facts, s.active.Settings.For(nil))
}
