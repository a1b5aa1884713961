package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/documents"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// world is everything around a virtual machine that decides how it will run and what is said of it. It is safe for
// concurrent use.
type world struct {
	registry *hypervisors.Registry
	pipeline *effective.Pipeline
	facts    *platform.Facts
	objects  lookup.Objects
	settings *settings
	site     *site
	policies *judges
	// namespace of objects that name none.
	namespace string
	// former are the facts of the cluster whose defaults stand in the virtual machines that it stored; nil if those
	// are the same as here. See forget.
	former *platform.Facts
	// now decides which exceptions of policies are over.
	now time.Time
	// notes say what the admin has set that has no effect here.
	notes []string
}

// newWorld reads what surrounds virtual machines: from files first, as if they had been applied already, and then
// from the cluster if there is one.
func newWorld(ctx context.Context, files *sorted, cluster *cluster, facts *platform.Facts, namespace string) (*world, error) {
	w := &world{facts: facts, namespace: namespace, now: time.Now()}
	memory, err := lookup.NewMemory(namespace, files.references...)
	if err != nil {
		return nil, err
	}
	w.objects = memory
	if cluster != nil {
		w.objects = both{files: memory, cluster: cluster.objects}
	}
	if w.registry, err = hypervisors.NewRegistry(hypervisors.BuiltIn()...); err != nil {
		return nil, err
	}
	w.pipeline = effective.NewPipeline(w.registry)
	known := newNamespaces(files.namespaces, cluster)
	var notes []string
	if w.settings, notes, err = readSettings(ctx, files, cluster, known, w.registry.Rules()); err != nil {
		return nil, err
	}
	w.notes = append(w.notes, notes...)
	if w.site, notes, err = readSite(ctx, files, cluster, known); err != nil {
		return nil, err
	}
	w.notes = append(w.notes, notes...)
	if w.policies, notes, err = readPolicies(ctx, files, cluster, known, namespace); err != nil {
		return nil, err
	}
	w.notes = append(w.notes, notes...)
	return w, nil
}

// rules are those of the checks, and the policies.
func (w *world) rules() validators.Table { return w.policies.described(w.registry.Rules()) }

// judge evaluates an object as one that is created now, or that exists already. The warnings say what of it is
// unknown or missing, and what could not be considered.
func (w *world) judge(ctx context.Context, s documents.Document) (*effective.Verdict, []string, error) {
	input, warnings, err := decode(s.Object, w.namespace)
	if err != nil {
		return nil, nil, err
	}
	if input.Container == nil {
		if input.Raw, err = json.Marshal(s.Object.Object); err != nil {
			return nil, nil, fmt.Errorf("encoding the object: %w", err)
		}
	}
	input.Facts, input.Now = w.facts, w.now
	w.forget(input.VM)
	if s.Source == sourceCluster && input.VMI != nil {
		input.Requester = kubeVirtController(w.facts) // whose labels it has
	}
	references, missing, err := lookup.For(ctx, w.objects, input.VM, input.VMI)
	if err != nil {
		return nil, nil, err
	}
	input.References = references
	if input.VM != nil {
		if input.Running, err = lookup.Running(ctx, w.objects, input.VM); err != nil {
			return nil, nil, err
		}
	}
	namespace := namespaceOf(input)
	var unread, unfilled, unknown []string
	input.Severities, unread = w.settings.severities(ctx, namespace)
	input.Site, unfilled = w.site.in(ctx, namespace)
	input.Policies, input.Request = w.policies.Set, requestFor(s.Object, namespace)
	input.Namespace, unknown = w.policies.namespaceFor(ctx, namespace)
	verdict, err := w.pipeline.Evaluate(*input)
	return verdict, slices.Concat(warnings, missing, unread, unfilled, unknown), err
}

// forget takes out of a stored VM the architecture and the machine type that KubeVirt wrote into it when it was
// created, as far as they are what the cluster had for defaults: another default would have left others there.
func (w *world) forget(vm *v1.VirtualMachine) {
	if w.former == nil || vm == nil || vm.ResourceVersion == "" || vm.Spec.Template == nil {
		return
	}
	spec := &vm.Spec.Template.Spec
	if spec.Architecture != w.former.DefaultArchitecture {
		return
	}
	if machine := spec.Domain.Machine; machine != nil && machine.Type == w.former.MachineType(spec.Architecture) {
		spec.Domain.Machine = nil
	}
	spec.Architecture = ""
}

// requestFor is what policies may know of a request where nobody asks for anything.
func requestFor(object *unstructured.Unstructured, namespace string) cel.Request {
	kind := object.GroupVersionKind()
	resource := metav1.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: "virtualmachines"}
	switch kind.Kind {
	case kindVMI:
		resource.Resource = "virtualmachineinstances"
	case kindPool:
		resource.Resource = "virtualmachinepools"
	}
	return cel.Request{Kind: metav1.GroupVersionKind(kind), Resource: resource, Name: object.GetName(), Namespace: namespace}
}

// kubeVirtController is the account that makes VMIs of VMs.
func kubeVirtController(facts *platform.Facts) string {
	return "system:serviceaccount:" + cmp.Or(facts.Namespace, "kubevirt") + ":kubevirt-controller"
}

func namespaceOf(in *effective.Input) string {
	if in.VM != nil {
		return in.VM.Namespace
	}
	return in.VMI.Namespace
}

// decode reads a subject into its Go type; the warnings name unknown fields.
func decode(object *unstructured.Unstructured, namespace string) (*effective.Input, []string, error) {
	in := &effective.Input{}
	if isPool(object.GroupVersionKind()) {
		return decodePool(object, namespace)
	}
	if object.GetKind() == kindVM {
		in.VM = &v1.VirtualMachine{}
		warnings, err := documents.Decode(object.Object, in.VM)
		if in.VM.Namespace == "" {
			in.VM.Namespace = namespace
		}
		return in, warnings, err
	}
	in.VMI = &v1.VirtualMachineInstance{}
	warnings, err := documents.Decode(object.Object, in.VMI)
	if in.VMI.Namespace == "" {
		in.VMI.Namespace = namespace
	}
	return in, warnings, err
}

// decodePool reads a pool, of which the virtual machine is judged that it makes.
func decodePool(object *unstructured.Unstructured, namespace string) (*effective.Input, []string, error) {
	pool := &poolv1beta1.VirtualMachinePool{}
	warnings, err := documents.Decode(object.Object, pool)
	if err != nil {
		return nil, nil, err
	}
	pool.Namespace = cmp.Or(pool.Namespace, namespace)
	in := &effective.Input{}
	if in.VM, in.Container = effective.OfPool(pool); in.VM == nil {
		return nil, nil, errors.New("spec.virtualMachineTemplate: a pool needs a template")
	}
	return in, warnings, nil
}
