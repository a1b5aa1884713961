package effective

import (
	"fmt"
	"slices"
	"time" //nolint:depguard // the time comes in as a value; there is no clock here

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/migrations"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/validators"
)

// Input is everything that decides how a virtual machine will run.
type Input struct {
	// VM or VMI is the object as written; exactly one is set.
	VM  *v1.VirtualMachine
	VMI *v1.VirtualMachineInstance
	// Facts of the cluster.
	Facts *platform.Facts
	// References are the objects that the VM points at, as far as they were found.
	References
	// Site are the admin's defaults for the object's namespace, in the order in which they fill.
	Site []mutators.SiteDefaults

	// OldVM or OldVMI is the object before an update; nil at a creation. An update of a VMI is not completed,
	// and only the changes are checked: only KubeVirt updates a VMI.
	OldVM  *v1.VirtualMachine
	OldVMI *v1.VirtualMachineInstance
	// PostMutation reports that every mutating webhook has been called for the object. So a VMI is checked as it is, and whatever
	// would still be filled is a finding; and nothing of the site is persisted in a VM any more.
	PostMutation bool
	// Raw is the object as it was sent, as JSON, as far as it is known.
	Raw []byte
	// Running is the VMI that runs from the VM, as far as it is known.
	Running *v1.VirtualMachineInstance
	// Gathered are the objects that the machine points at, for policies that read them; GatherMore returns them with those
	// that only policies which do not deny read. It is called if such a policy is evaluated, after all policies that deny;
	// nil for none.
	Gathered   *cel.References
	GatherMore func() *cel.References
	// Rollout is what an update of a running VM changes, for policies.
	Rollout cel.Rollout
	// Requester is the user name of the requester, with its extra attributes; empty if there is none.
	Requester      string
	RequesterExtra map[string][]string
	// Author is the user for whom KubeVirt sends the request, for policies; nil if that is not to be known.
	Author *cel.Author
	// Severities are those of rules which differ from the rules' own.
	Severities validators.Severities

	// VirtualImages are those that the machine uses, as far as they are known.
	VirtualImages []validators.VirtualImage
	// NodeArchitectures are those of the nodes that run virtual machines; nil if they are unknown.
	NodeArchitectures []string
	// Nodes are the empty nodes of the cluster; nil if they are unknown.
	Nodes *placement.Snapshot
	// PolicyNodes are the empty nodes of the cluster for policies, which also evaluate requests that no rule compares with Nodes; nil if
	// they are unknown.
	PolicyNodes *placement.Snapshot
	// TargetNodes are the empty nodes of the cluster for Verdict.Targets; nil to leave it out.
	TargetNodes *placement.Snapshot
	// Quotas are the ResourceQuotas of the namespace; nil if they are unknown.
	Quotas []*corev1.ResourceQuota

	// Policies are the admin's, which evaluate the object; nil for none.
	Policies *policies.Set
	// Request is the request. Without an operation, there is none: policies then evaluate the object as one that exists,
	// and those that read the request are skipped. The object before an update is evaluated with the same Request.
	Request cel.Request
	// Namespace is that of the object, for policies; nil if nothing is known of it but its name.
	Namespace *corev1.Namespace
	// Authorizer reports to policies what the requester may do. Without one, policies that need it cannot be evaluated.
	// AuthorizerApart is that of policies that do not deny; nil for Authorizer.
	Authorizer, AuthorizerApart authorizer.UnconditionalAuthorizer
	// NamespaceLabels are those of the namespace, for the pod that policies and rules read; nil if they are not known.
	NamespaceLabels map[string]string
	// Now is the time at which exceptions of policies expire or not.
	Now time.Time
	// Evaluating is called before the policies are evaluated, with the bytes of the pod and the domain that they read, and its
	// result after that, so that the caller can measure
	// the time; nil if the caller does not.
	Evaluating func(previews int64) (done func())
	// OnlyDenying leaves out the policies that do not deny.
	OnlyDenying bool
	// Gone tells that the request was canceled, so that what policies find does not matter, and Hurry that
	// there is no time left for those that do not deny; nil for never.
	Gone, Hurry func() bool
	// Large reports whether the object is larger than an ordinary one: see policies.OrdinaryBytes.
	Large bool
	// OwnerLabels are the labels of the VirtualMachine that controls a VMI; nil if they are not known, or if there is
	// none.
	OwnerLabels map[string]string
	// Container is the object that the VM or the VMI is a template of; nil if it stands for itself.
	Container *Container
}

// References are the objects that a virtual machine points at. Lookup finds them; what is missing is nil.
type References struct {
	// InstancetypeMatcher and PreferenceMatcher are the VM's spec.instancetype and spec.preference as KubeVirt
	// persists them: with what was inferred from a volume, and nil where nothing could be and that was to be
	// ignored. A kind that the user left out stays out.
	InstancetypeMatcher *v1.InstancetypeMatcher
	PreferenceMatcher   *v1.PreferenceMatcher
	// Inferred tells that one of the two differs from what the user wrote; if not, they are not looked at.
	Inferred bool
	// ClearMemory tells that KubeVirt removes domain.memory from the VM's template. It does so when an
	// instancetype was inferred under the policy Ignore: the memory was there for the other case.
	ClearMemory bool
	// Instancetype and Preference are what the matchers point at.
	Instancetype *instancetypes.Instancetype
	Preference   *instancetypes.Preference
	// Architecture is that of the DataSource from which the VM's disk is cloned.
	Architecture *DataSourceArchitecture
	// Presets are the VirtualMachineInstancePresets that select the VMI.
	Presets []v1.VirtualMachineInstancePreset
	// Resolved tells what became of the instancetype and the preference that the VM refers to.
	Resolved []Reference
	// Conflicts are those for which KubeVirt rejects the VM: matchers that contradict themselves, and volumes
	// from which nothing can be inferred.
	Conflicts field.ErrorList
}

// Reference is a reference of a virtual machine to an object.
type Reference struct {
	// Field that refers: spec.instancetype or spec.preference.
	Field string
	// Kind and Name of the object; empty if they were inferred, since the user may not be allowed to read them.
	Kind, Name string
	// MissingRevision is a ControllerRevision that would be read in its stead, and does not exist.
	MissingRevision string
	State           ReferenceState
}

// ReferenceState is what became of a reference.
type ReferenceState string

// The states of a reference.
const (
	// Found means that the object was read, Missing that it does not exist, and Unknown that it exists and cannot be
	// read, or that its kind does not exist.
	Found   ReferenceState = "Found"
	Missing ReferenceState = "Missing"
	Unknown ReferenceState = "Unknown"
)

// ApplyTo makes of a VM the one that KubeVirt persists, as far as matchers go.
func (r *References) ApplyTo(vm *v1.VirtualMachine) {
	if r.Inferred {
		vm.Spec.Instancetype, vm.Spec.Preference = r.InstancetypeMatcher.DeepCopy(), r.PreferenceMatcher.DeepCopy()
	}
	if r.ClearMemory && vm.Spec.Template != nil {
		vm.Spec.Template.Spec.Domain.Memory = nil
	}
}

// DataSourceArchitecture is the architecture that a golden image is labelled with.
type DataSourceArchitecture struct {
	// Template is the index of the dataVolumeTemplate that names the DataSource.
	Template int
	// DataSource is the object that carries the label, as NAMESPACE/NAME.
	DataSource string
	// Architecture is a name of package architectures.
	Architecture string
}

// Layer is the name under which the architecture is recorded.
func (d *DataSourceArchitecture) Layer() string { return "datasource/" + d.DataSource }

// Verdict is what the pipeline makes of a virtual machine.
type Verdict struct {
	// Hypervisor and Architecture it was completed for.
	Hypervisor   string
	Architecture string
	// VM is the VM with what KubeVirt persists in one, when the input was a VM.
	VM *v1.VirtualMachine
	// VMI is the complete VMI, when the input was one.
	VMI *v1.VirtualMachineInstance
	// Spec is the effective spec: what will run.
	Spec *v1.VirtualMachineInstanceSpec
	// Annotations are those that the instancetype and the preference add to the VMI of a VM.
	Annotations map[string]string
	// Persist are the changes that belong into the object itself when it is created: for a VM its
	// architecture and machine type and what the site says, for a VMI all of them.
	Persist []provenance.Change
	// Changes lead from the object as written to the effective spec, in the order in which they were made.
	// Paths are those of the object as written.
	Changes []provenance.Change
	// Conflicts are what kept the object from being expanded and completed, at fields of the object as written.
	Conflicts []validators.Conflict
	// Findings are what the checks and the policies say, sorted by field, at fields of the object as written.
	// Conflicts are among them. Only Evaluate checks.
	Findings []validators.Finding
	// Container is the object that the machine is a template of; nil if it stands for itself.
	Container *Container
	// Targets is how many other nodes could receive an instance that runs, if Input.TargetNodes has the nodes.
	Targets migrations.Level

	// beforeStart is the spec of a VM as KubeVirt validates it: without the defaults that only the VMI gets.
	beforeStart *v1.VirtualMachineInstanceSpec
	placed      placed
}

// Allowed reports whether no finding rejects the object.
func (v *Verdict) Allowed() bool {
	return !rejects(v.Findings)
}

// Layers are the names of the layers that made some changes, in the order of the first change of each.
func Layers(changes []provenance.Change) []string {
	var layers []string
	for i := range changes {
		if !slices.Contains(layers, changes[i].Layer) {
			layers = append(layers, changes[i].Layer)
		}
	}
	return layers
}

// Pipeline holds what does not change from one virtual machine to the next. It is safe for concurrent use.
type Pipeline struct {
	hypervisors *hypervisors.Registry
}

// NewPipeline builds the pipeline for the hypervisors of a registry.
func NewPipeline(registry *hypervisors.Registry) *Pipeline { return &Pipeline{hypervisors: registry} }

// Decide computes how a virtual machine will run, whether it could, and what the admin's policies say of it. The error is about the call, never about the virtual machine: no object, no facts, or a
// hypervisor that is not registered.
func (p *Pipeline) Decide(in Input) (*Verdict, error) {
	verdict, err := p.complete(&in, true)
	if err != nil {
		return nil, err
	}
	verdict.Container = in.Container
	if err := p.check(&in, verdict); err != nil {
		return nil, err
	}
	ofContainer := p.evaluatePolicies(verdict, &in)
	if in.TargetNodes != nil && in.VMI != nil {
		verdict.Targets = p.targetsOfRunning(&in, verdict)
	}
	if !in.PostMutation || in.VM != nil { // the changes to a VMI are those that it arrived without
		verdict.trace(&in)
	}
	verdict.findUnset(&in)
	verdict.place(in.Container, ofContainer)
	validators.Sort(verdict.Findings)
	return verdict, nil
}

// Complete computes how a virtual machine will run, and checks nothing. Its error is Decide's.
func (p *Pipeline) Complete(in Input) (*Verdict, error) { return p.complete(&in, false) }

// complete keeps what the checks need, if they follow.
func (p *Pipeline) complete(in *Input, checked bool) (*Verdict, error) {
	switch {
	case in.Facts == nil:
		return nil, fmt.Errorf("evaluating a virtual machine: there are no facts")
	case (in.VM == nil) == (in.VMI == nil):
		return nil, fmt.Errorf("evaluating a virtual machine: exactly one of VM and VMI must be given")
	case in.VM != nil:
		return p.virtualMachine(in, checked)
	case in.OldVMI != nil:
		return &Verdict{VMI: in.VMI, Spec: &in.VMI.Spec, Hypervisor: in.Facts.Hypervisor.Name, Architecture: in.VMI.Spec.Architecture}, nil
	}
	return p.virtualMachineInstance(in)
}

// templateSpec is the path of the spec in a VM.
const templateSpec = "spec.template.spec"

func (p *Pipeline) virtualMachine(in *Input, checked bool) (*Verdict, error) {
	vm := in.VM.DeepCopy()
	in.ApplyTo(vm)
	verdict := &Verdict{VM: vm, Hypervisor: in.Facts.Hypervisor.Name}
	if vm.Spec.Template == nil {
		vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
		verdict.Conflicts = validators.Conflicts(validators.RuleTemplateRequired, field.ErrorList{field.Required(field.NewPath("spec", "template"), "a VM needs a template")})
		verdict.Spec = &vm.Spec.Template.Spec
		return verdict, nil
	}
	spec := &vm.Spec.Template.Spec
	rec := provenance.NewRecorder(templateSpec)
	instancetypes.ApplyToVM(vm, in.Preference, rec)
	if a := in.Architecture; a != nil {
		rec.SetLayer(a.Layer())
		provenance.Fill(rec, "architecture", &spec.Architecture, a.Architecture)
	}
	persistSite(in, vm, rec)
	provider, err := p.provider(in.Facts, spec)
	if err != nil {
		return nil, err
	}
	verdict.conflict(validators.RuleReference, in.Conflicts)
	verdict.conflict(validators.RuleDefaultNotPermitted, provider.SetVirtualMachineDefaults(vm, in.Facts, rec))
	verdict.Persist = persistedInVM(rec.Changes())

	target := instancetypes.TemplateOf(vm)
	target.Spec = spec.DeepCopy()
	annotations, conflicts := instancetypes.Expand(target, in.Instancetype, in.Preference, rec)
	verdict.conflict(validators.RuleInstancetypeConflict, conflicts)
	if checked {
		verdict.beforeStart = target.Spec.DeepCopy()
		provider.SetDefaultTemplateSpec(in.Facts, verdict.beforeStart)
	}
	startWithSite(in, vm, target.Spec, rec)
	verdict.conflict(validators.RuleDefaultNotPermitted, provider.SetDefaultVirtualMachineInstanceSpec(in.Facts, target.Spec, rec))
	verdict.conflict(validators.RulePreferenceRequirements, instancetypes.Requirements(target, in.Instancetype, in.Preference))
	if err := instancetypes.CheckSpread(target, in.Instancetype, in.Preference); err != nil && len(conflicts) == 0 {
		verdict.conflict(validators.RuleCPUSpread, field.ErrorList{err})
	}
	verdict.Spec, verdict.Annotations = target.Spec, annotations
	verdict.Architecture, verdict.Changes = target.Spec.Architecture, rec.Changes()
	return verdict, nil
}

func (v *Verdict) conflict(rule string, errs field.ErrorList) {
	v.Conflicts = append(v.Conflicts, validators.Conflicts(rule, errs)...)
}

// persistedInVM are the changes that Virtward writes into a VM. KubeVirt's own mutator writes what a preference sets in
// DataVolume templates, and a matcher that is inferred from a volume.
func persistedInVM(changes []provenance.Change) []provenance.Change {
	var persist []provenance.Change
	for _, c := range changes {
		switch {
		case mutators.IsSiteLayer(c.Layer), c.Path == templateSpec+".architecture", c.Path == templateSpec+".domain.machine.type":
			persist = append(persist, c)
		}
	}
	return persist
}

func (p *Pipeline) virtualMachineInstance(in *Input) (*Verdict, error) {
	vmi := in.VMI.DeepCopy()
	verdict := &Verdict{VMI: vmi, Hypervisor: in.Facts.Hypervisor.Name, Spec: &vmi.Spec}
	rec := provenance.NewRecorder("spec")
	if conflict := mutators.ApplyPresets(&vmi.Spec, in.Presets, rec); conflict != "" {
		verdict.conflict(validators.RulePresetConflict, field.ErrorList{field.Invalid(field.NewPath("metadata", "labels"), vmi.Labels, conflict)})
	}
	completeWithSite(in, vmi, rec)
	provider, err := p.provider(in.Facts, &vmi.Spec)
	if err != nil {
		return nil, err
	}
	verdict.conflict(validators.RuleDefaultNotPermitted, provider.SetDefaultVirtualMachineInstance(in.Facts, vmi, rec))
	verdict.Architecture, verdict.Changes, verdict.Persist = vmi.Spec.Architecture, rec.Changes(), rec.Changes()
	return verdict, nil
}

// provider is the one for the cluster's hypervisor and the architecture that the spec has or will get.
func (p *Pipeline) provider(facts *platform.Facts, spec *v1.VirtualMachineInstanceSpec) (mutators.DefaultsProvider, error) {
	architecture := spec.Architecture
	if architecture == "" {
		architecture = facts.DefaultArchitecture
	}
	return p.hypervisors.Defaults(facts.Hypervisor.Name, architecture)
}
