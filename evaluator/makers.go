package evaluator

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/copies"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	rolloutv1alpha1 "github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/policies"
)

// Authorship says how the author of a virtual machine is known, so that policies can read the requester.
type Authorship string

const (
	// Sender is the user who writes the maker. The policies that read the request are evaluated on the template with each
	// write that changes it. They are not evaluated again when KubeVirt makes the virtual machine.
	Sender Authorship = "sender"
	// Recorded is a user that an annotation of the maker names, which a guard protects. The policies that read the request are
	// evaluated again when the virtual machine is made.
	Recorded Authorship = "recorded"
	// Carried is a user that an annotation of the virtual machine names, which a guard protects.
	Carried Authorship = "carried"
	// OfVM is the user who writes the virtual machine itself.
	OfVM Authorship = "of the virtual machine"
)

// Maker is a kind of objects from which virtual machines or instances are made or changed by another account than that of the
// author.
type Maker struct {
	schema.GroupKind

	// Makes is VirtualMachine or VirtualMachineInstance.
	Makes schema.GroupKind
	// Template is the field with the template, or the one that names it.
	Template string
	// Author says how the author is known, and Annotation where, if an annotation names the author.
	Author     Authorship
	Annotation string
}

// makers is the table of all makers. A test compares it with the kinds of KubeVirt and of Virtward.
var makers = slices.Concat(setMakers(), []Maker{
	{GroupKind: VirtualMachine, Makes: VirtualMachineInstance, Template: "spec.template", Author: OfVM},
	{GroupKind: apikinds.Restores.GroupKind(), Makes: VirtualMachine, Template: "spec.virtualMachineSnapshotName", Author: Recorded, Annotation: copies.AnnotationAuthor},
	{GroupKind: apikinds.Clones.GroupKind(), Makes: VirtualMachine, Template: "spec.source", Author: Recorded, Annotation: copies.AnnotationAuthor},
	{GroupKind: Template, Makes: VirtualMachine, Template: TemplateVM, Author: Carried, Annotation: subresources.RequesterAnnotation},
	{GroupKind: apikinds.Rollouts.GroupKind(), Makes: VirtualMachine, Template: "spec.patch", Author: Recorded, Annotation: rolloutv1alpha1.AnnotationRequester},
	// A migration fills the instance of a VM with runStrategy WaitAsReceiver. The instance has the spec of that VM.
	{GroupKind: apikinds.Migrations.GroupKind(), Makes: VirtualMachineInstance, Template: "spec.receive", Author: OfVM},
})

// setMakers returns the sets: the user who writes the template is the author.
func setMakers() []Maker {
	sets := apikinds.MachineKinds((*apikinds.Machine).Set)
	all := make([]Maker, len(sets))
	for i := range sets {
		makes := VirtualMachine
		if sets[i].Makes == VirtualMachineInstance.Kind {
			makes = VirtualMachineInstance
		}
		all[i] = Maker{GroupKind: sets[i].GroupKind(), Makes: makes, Template: sets[i].Template, Author: Sender}
	}
	return all
}

// Makers returns the table of makers.
func Makers() []Maker { return slices.Clone(makers) }

// makerOf returns the entry of a kind; nil if the kind makes no virtual machines.
func makerOf(kind schema.GroupKind) *Maker {
	for i := range makers {
		if makers[i].GroupKind == kind {
			return &makers[i]
		}
	}
	return nil
}

// requesterPolicies evaluates the policies that read the request and match what a maker makes, but not the maker. KubeVirt
// makes the virtual machines later, and the author of the maker is not known then.
func (e *evaluation) requesterPolicies(ctx context.Context, m machine, d decoded) error {
	r, maker := e.request, makerOf(e.kind.GroupKind)
	if maker == nil || maker.Author != Sender || r.Operation == "" || e.facts.ByKubeVirt(r.User.Username) ||
		!e.active.Policies.ReadsRequest(policyv1alpha1.PolicyKind(maker.Makes.Kind), policyv1alpha1.PolicyCreate) {
		return nil
	}
	made := m.object()
	if d.old != nil && !d.wasUnreadable {
		if was := e.kind.machine(d.old, nil); equality.Semantic.DeepEqual(was.object(), made) {
			return nil
		}
	}
	result, err := e.asMade(ctx, maker, made)
	if err != nil {
		return err
	}
	for i := range result.Findings {
		f := result.Findings[i]
		p := e.active.Policies.Find(strings.TrimPrefix(f.Rule, policies.RulePrefix))
		if p == nil || !p.ReadsRequest() || slices.Contains(p.Spec().Match.Kinds, policyv1alpha1.PolicyKind(maker.Kind)) {
			continue
		}
		moved := *f.Error
		moved.Field = m.container.Template.String() + "." + moved.Field
		f.Error = &moved
		e.result.Findings = append(e.result.Findings, f)
	}
	return nil
}

// asMade evaluates what a maker makes as if the author of the maker created it.
func (e *evaluation) asMade(ctx context.Context, maker *Maker, made metav1.Object) (*Result, error) {
	create := *e.request
	if vmi, ok := made.(*v1.VirtualMachineInstance); ok {
		made, create.maker = e.owned(vmi), e.request
	}
	raw, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	k := find(maker.Makes)
	create.Object, create.OldObject, create.Operation, create.SubResource, create.Stage = raw, nil, admissionv1.Create, "", Written
	create.Kind = metav1.GroupVersionKind{Group: k.Group, Version: k.versions[0], Kind: k.Kind}
	create.Resource = metav1.GroupVersionResource{Group: k.Group, Version: k.versions[0], Resource: k.resource}
	create.Name = made.GetName()
	return e.Evaluate(ctx, create)
}

// owned returns an instance as KubeVirt creates it for the object.
func (e *evaluation) owned(template *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	meta := metav1.PartialObjectMetadata{}
	_ = DecodeStored(e.request.Object, &meta) // it was readable before
	vmi := template.DeepCopy()
	vmi.Name, vmi.GenerateName = "", cmp.Or(e.request.Name, meta.Name, meta.GenerateName)
	controls := true
	vmi.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: e.kind.WithVersion(e.kind.versions[0]).GroupVersion().String(), Kind: e.kind.Kind,
		Name: cmp.Or(e.request.Name, meta.Name), UID: meta.UID, Controller: &controls, BlockOwnerDeletion: &controls,
	}}
	return vmi
}

// object returns the virtual machine or the instance.
func (m *machine) object() metav1.Object {
	if m.vm != nil {
		return m.vm
	}
	return m.vmi
}
