package simulators

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypeapi "kubevirt.io/api/instancetype"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// starts stores the specs that instances are started with in ControllerRevisions, and remembers those of running ones.
type starts struct {
	live  client.Reader
	mu    sync.Mutex
	known map[types.NamespacedName]start // by the VMI
}

type start struct {
	revision string
	spec     *kubevirtv1.VirtualMachineSpec
}

func newStarts(live client.Reader) *starts {
	return &starts{live: live, known: map[types.NamespacedName]start{}}
}

// store writes the revision of a start, and returns its name.
func (s *starts) store(ctx context.Context, writer client.Client, vm *kubevirtv1.VirtualMachine) (string, error) {
	spec := vm.Spec.DeepCopy()
	pin(spec, &vm.Status)
	data, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return "", err
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: vm.Namespace, Name: fmt.Sprintf("revision-start-vm-%s-%d", vm.UID, vm.Generation),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: vm.Generation,
	}
	if err := client.IgnoreAlreadyExists(writer.Create(ctx, revision)); err != nil {
		return "", fmt.Errorf("storing the start of VM %s/%s: %w", vm.Namespace, vm.Name, err)
	}
	return revision.Name, nil
}

// pin names the revisions of the instancetype and the preference that the VM starts with.
func pin(spec *kubevirtv1.VirtualMachineSpec, status *kubevirtv1.VirtualMachineStatus) {
	if i := spec.Instancetype; i != nil && i.RevisionName == "" {
		i.RevisionName = revisionOf(status.InstancetypeRef, i.Name)
	}
	if p := spec.Preference; p != nil && p.RevisionName == "" {
		p.RevisionName = revisionOf(status.PreferenceRef, p.Name)
	}
}

func revisionOf(ref *kubevirtv1.InstancetypeStatusRef, name string) string {
	if ref == nil || ref.Name != name || ref.ControllerRevisionRef == nil {
		return ""
	}
	return ref.ControllerRevisionRef.Name
}

// read is the spec that a VMI was started with; nil if its revision does not exist.
func (s *starts) read(ctx context.Context, vmi *kubevirtv1.VirtualMachineInstance) (*kubevirtv1.VirtualMachineSpec, error) {
	name, key := vmi.Status.VirtualMachineRevisionName, client.ObjectKeyFromObject(vmi)
	s.mu.Lock()
	known, ok := s.known[key]
	s.mu.Unlock()
	if name == "" {
		return nil, nil
	}
	if ok && known.revision == name {
		return known.spec, nil
	}
	revision := &appsv1.ControllerRevision{}
	if err := s.live.Get(ctx, client.ObjectKey{Namespace: vmi.Namespace, Name: name}, revision); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	var data struct {
		Spec *kubevirtv1.VirtualMachineSpec `json:"spec"`
	}
	if err := json.Unmarshal(revision.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("reading ControllerRevision %s/%s: %w", vmi.Namespace, name, err)
	}
	s.mu.Lock()
	s.known[key] = start{name, data.Spec}
	s.mu.Unlock()
	return data.Spec, nil
}

// recordKinds stores the instancetype and the preference of a VM in ControllerRevisions, and names them in its status.
func (r *vmReconciler) recordKinds(ctx context.Context, vm *kubevirtv1.VirtualMachine) error {
	if i := vm.Spec.Instancetype; i != nil {
		if err := r.record(ctx, vm, i.Name, i.Kind, i.RevisionName, instancetypeapi.SingularResourceName, &vm.Status.InstancetypeRef); err != nil {
			return err
		}
	} else {
		vm.Status.InstancetypeRef = nil
	}
	if p := vm.Spec.Preference; p != nil {
		return r.record(ctx, vm, p.Name, p.Kind, p.RevisionName, instancetypeapi.SingularPreferenceResourceName, &vm.Status.PreferenceRef)
	}
	vm.Status.PreferenceRef = nil
	return nil
}

// kinds of instancetypes and preferences by the names that VMs may use.
var kindNames = map[string]string{
	instancetypeapi.SingularResourceName: "VirtualMachineInstancetype", instancetypeapi.SingularPreferenceResourceName: "VirtualMachinePreference",
	"virtualmachineclusterinstancetype": "VirtualMachineClusterInstancetype", "virtualmachineclusterpreference": "VirtualMachineClusterPreference",
}

func (r *vmReconciler) record(ctx context.Context, vm *kubevirtv1.VirtualMachine, name, kind, pinned, singular string, ref **kubevirtv1.InstancetypeStatusRef) error {
	if current := *ref; name == "" || current != nil && current.Name == name && current.ControllerRevisionRef != nil && (pinned == "" || pinned == current.ControllerRevisionRef.Name) {
		return nil
	}
	gvk := instancetypev1beta1.SchemeGroupVersion.WithKind(kindOf(kind, singular))
	revision := pinned
	if revision == "" {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(gvk)
		key := client.ObjectKey{Name: name}
		if gvk.Kind == kindNames[singular] {
			key.Namespace = vm.Namespace
		}
		if err := r.live.Get(ctx, key, object); err != nil {
			return fmt.Errorf("finding %s %s of VM %s/%s: %w", gvk.Kind, name, vm.Namespace, vm.Name, err)
		}
		object.SetManagedFields(nil)
		raw, err := object.MarshalJSON()
		if err != nil {
			return err
		}
		stored := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: vm.Namespace, Name: fmt.Sprintf("%s-%s-%s-%s-%d", vm.Name, name, gvk.Version, object.GetUID(), object.GetGeneration()),
				Labels: map[string]string{
					instancetypeapi.ControllerRevisionObjectGenerationLabel: fmt.Sprint(object.GetGeneration()), instancetypeapi.ControllerRevisionObjectKindLabel: gvk.Kind,
					instancetypeapi.ControllerRevisionObjectNameLabel: name, instancetypeapi.ControllerRevisionObjectUIDLabel: string(object.GetUID()),
					instancetypeapi.ControllerRevisionObjectVersionLabel: gvk.Version,
				},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)},
			},
			Data: runtime.RawExtension{Raw: raw},
		}
		if err := client.IgnoreAlreadyExists(r.client.Create(ctx, stored)); err != nil {
			return err
		}
		revision = stored.Name
	}
	*ref = &kubevirtv1.InstancetypeStatusRef{Name: name, Kind: gvk.Kind, ControllerRevisionRef: &kubevirtv1.ControllerRevisionRef{Name: revision}}
	return nil
}

// kindOf is a kind by any of its names; without a name, it is the one of the cluster.
func kindOf(name, singular string) string {
	for word, kind := range kindNames {
		if name == kind || name == word || name == word+"s" {
			return kind
		}
	}
	if singular == instancetypeapi.SingularResourceName {
		return "VirtualMachineClusterInstancetype"
	}
	return "VirtualMachineClusterPreference"
}
