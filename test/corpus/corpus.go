// Package corpus makes varied virtual machines, as API servers send them, for benchmarks and comparisons. A single object is not
// representative: its UID and its number of disks matter. The objects are the same at every call.
package corpus

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/test/build"
)

// The number of objects of each kind.
const (
	vmis      = 24
	vms       = 24
	seed      = 20260101
	mostDisks = 50
)

// Sample is an object as an API server sends it, and its review.
type Sample struct {
	Name   string
	Kind   string
	Object []byte
	Review []byte
}

// Decode is the floor of every request: the typed object out of the bytes.
func (s *Sample) Decode() error {
	if s.Kind == apikinds.VirtualMachine {
		return sigsjson.UnmarshalCaseSensitivePreserveInts(s.Object, &v1.VirtualMachine{})
	}
	return sigsjson.UnmarshalCaseSensitivePreserveInts(s.Object, &v1.VirtualMachineInstance{})
}

// Completed returns an object as the mutating webhook completes it; see Samples. One of the two is given.
type Completed func(*v1.VirtualMachine, *v1.VirtualMachineInstance) (*v1.VirtualMachine, *v1.VirtualMachineInstance, error)

// Samples returns VMIs and VMs with random UIDs and names, 1 to 50 disks of all sources, labels, annotations, managed fields as
// an API server writes them, instancetypes or none, for amd64 and arm64. Without completed, they are as their author wrote them. The
// package does not import the pipeline, so that tests of what is below it can use these objects.
func Samples(completed Completed) ([]Sample, error) {
	if completed == nil {
		completed = func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (*v1.VirtualMachine, *v1.VirtualMachineInstance, error) {
			return vm, vmi, nil
		}
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // the same objects every time
	all := make([]Sample, 0, vmis+vms)
	for i := range vmis {
		_, vmi, err := completed(nil, g.vmi(i))
		if err != nil {
			return nil, fmt.Errorf("completing a VMI: %w", err)
		}
		sample, err := g.sample(apikinds.VirtualMachineInstance, "virtualmachineinstances", vmi)
		if err != nil {
			return nil, err
		}
		all = append(all, sample)
	}
	for i := range vms {
		vm, _, err := completed(g.vm(i), nil)
		if err != nil {
			return nil, fmt.Errorf("completing a VM: %w", err)
		}
		sample, err := g.sample(apikinds.VirtualMachine, "virtualmachines", vm)
		if err != nil {
			return nil, err
		}
		all = append(all, sample)
	}
	return all, nil
}

// generator creates objects of random sizes.
type generator struct{ *rand.Rand }

// sizes are the instancetypes of the corpus' VMs, and sizesYAML their specs.
var sizes = []string{"u1.medium", "cx1.large"}

const sizesYAML = `apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: u1.medium}
spec: {cpu: {guest: 1}, memory: {guest: 4Gi}}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterInstancetype
metadata: {name: cx1.large}
spec: {cpu: {guest: 2}, memory: {guest: 4Gi}, ioThreadsPolicy: auto}
---
apiVersion: instancetype.kubevirt.io/v1beta1
kind: VirtualMachineClusterPreference
metadata: {name: fedora}
spec:
  devices: {preferredDiskBus: virtio, preferredInterfaceModel: virtio, preferredRng: {}}
  features: {preferredSmm: {}}
  firmware: {preferredUseEfi: true}
`

// Objects returns the objects that the VMs refer to.
func Objects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(sizesYAML, "---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// uid is a random one: about 38 % have digits around an e, or begin with a digit.
func (g *generator) uid() types.UID {
	var bytes [16]byte
	for i := range bytes {
		bytes[i] = byte(g.UintN(256)) //nolint:gosec // it fits
	}
	bytes[6], bytes[8] = bytes[6]&0x0f|0x40, bytes[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", bytes[0:4], bytes[4:6], bytes[6:8], bytes[8:10], bytes[10:]))
}

func (g *generator) word() string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	word := make([]byte, 5)
	for i := range word {
		word[i] = letters[g.IntN(len(letters))]
	}
	return string(word)
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// disks is mostly a handful, and now and then many.
func (g *generator) disks() int {
	u := g.Float64()
	return 1 + int(u*u*u*mostDisks)
}

func (g *generator) spec(i int, sized bool) *build.VMIBuilder {
	vmi := build.VMI("vm-" + g.word())
	architecture := pick(g, "", architectures.AMD64, architectures.ARM64)
	vmi.Architecture(architecture)
	if !sized {
		vmi.Memory(pick(g, "512Mi", "2Gi", "4Gi", "64Gi", "1500M")).Topology(0, pick[uint32](g, 0, 1, 2, 8), 0)
	}
	buses := []v1.DiskBus{"", v1.DiskBusVirtio, v1.DiskBusSCSI}
	if architecture != architectures.ARM64 {
		buses = append(buses, v1.DiskBusSATA)
	}
	count := g.disks()
	if i == 0 {
		count = mostDisks
	}
	for d := range count {
		vmi.Disk(fmt.Sprintf("disk-%d-%s", d, g.word()), pick(g, buses...))
		vmi.With(func(spec *v1.VirtualMachineInstanceSpec) { g.source(&spec.Volumes[len(spec.Volumes)-1]) })
	}
	vmi.Interface("default", "")
	for n := range g.IntN(4) {
		vmi.Interface(fmt.Sprintf("net-%d", n), "net-"+g.word())
	}
	if g.IntN(2) == 0 {
		vmi.With(func(spec *v1.VirtualMachineInstanceSpec) {
			spec.NodeSelector = map[string]string{"topology.kubernetes.io/zone": g.word()}
			spec.Tolerations = []corev1.Toleration{{Key: "vms", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
		})
	}
	return vmi
}

// source returns a random source of a volume.
func (g *generator) source(volume *v1.Volume) {
	switch g.IntN(4) {
	case 0:
		volume.VolumeSource = v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{
			PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: "pvc-" + g.word()},
		}}
	case 1:
		volume.VolumeSource = v1.VolumeSource{DataVolume: &v1.DataVolumeSource{Name: "dv-" + g.word()}}
	case 2:
		capacity := resource.MustParse(fmt.Sprintf("%dGi", 1+g.IntN(40)))
		volume.VolumeSource = v1.VolumeSource{EmptyDisk: &v1.EmptyDiskSource{Capacity: capacity}}
	}
}

func (g *generator) metadata(meta *metav1.ObjectMeta) {
	meta.UID, meta.Generation = g.uid(), 1
	meta.CreationTimestamp = metav1.NewTime(time.Date(2026, 1, 1+g.IntN(28), g.IntN(24), g.IntN(60), 0, 0, time.UTC))
	meta.Labels = map[string]string{"app": g.word(), "app.kubernetes.io/managed-by": "Helm"}
	for range g.IntN(8) {
		meta.Labels["example.com/"+g.word()] = g.word()
	}
	meta.Annotations = map[string]string{"kubevirt.io/latest-observed-api-version": "v1"}
	for range g.IntN(6) {
		meta.Annotations["example.com/"+g.word()] = strings.Repeat(g.word()+" ", 1+g.IntN(20))
	}
}

func (g *generator) vmi(i int) *v1.VirtualMachineInstance {
	vmi := g.spec(i, false).Obj()
	g.metadata(&vmi.ObjectMeta)
	return vmi
}

func (g *generator) vm(i int) *v1.VirtualMachine {
	sized := i%2 == 0
	builder := build.VMOf(g.spec(i, sized)).RunStrategy(pick(g, v1.RunStrategyHalted, v1.RunStrategyAlways, v1.RunStrategyRerunOnFailure))
	if sized {
		builder.Instancetype(pick(g, sizes...))
	}
	if i%4 == 0 {
		builder.Preference("fedora")
	}
	vm := builder.Obj()
	g.metadata(&vm.ObjectMeta)
	vm.Spec.Template.ObjectMeta.Labels = map[string]string{"kubevirt.io/domain": vm.Name}
	return vm
}

// sample notes who wrote the object, as an API server does, and wraps it into a review.
func (g *generator) sample(kind, plural string, object metav1.Object) (Sample, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return Sample{}, err
	}
	delete(fields, "status")
	if i := g.IntN(3); i == 0 { // kubectl apply keeps a copy of all of it
		applied, err := json.Marshal(map[string]any{"apiVersion": fields["apiVersion"], "kind": kind, "spec": fields["spec"]})
		if err != nil {
			return Sample{}, err
		}
		annotations := object.GetAnnotations()
		annotations[corev1.LastAppliedConfigAnnotation] = string(applied)
		object.SetAnnotations(annotations)
		_ = unstructured.SetNestedField(fields, string(applied), "metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	}
	managed := map[string]any{}
	for _, part := range []string{"metadata", "spec"} {
		managed["f:"+part] = managedFields(fields[part])
	}
	noted, err := json.Marshal(managed)
	if err != nil {
		return Sample{}, err
	}
	created := object.GetCreationTimestamp()
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: pick(g, "kubectl-client-side-apply", "kubectl-create", "virt-controller"), Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: "kubevirt.io/v1", Time: &created, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(string(noted)),
	}})
	raw, err := json.Marshal(object)
	if err != nil {
		return Sample{}, err
	}
	review, err := g.review(kind, plural, object, raw)
	return Sample{Name: object.GetName(), Kind: kind, Object: raw, Review: review}, err
}

// managedFields are the fields of a value as an API server notes them: lists are noted as a whole.
func managedFields(value any) map[string]any {
	object, _ := value.(map[string]any)
	noted := map[string]any{}
	for name, below := range object {
		switch {
		case name == "uid", name == "creationTimestamp", name == "generation", name == "name", name == "namespace":
		default:
			fields := managedFields(below)
			if _, nested := below.(map[string]any); nested && len(fields) > 0 {
				fields["."] = map[string]any{}
			}
			noted["f:"+name] = fields
		}
	}
	return noted
}

func (g *generator) review(kind, plural string, object metav1.Object, raw []byte) ([]byte, error) {
	gvk := metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: kind}
	gvr := metav1.GroupVersionResource{Group: "kubevirt.io", Version: "v1", Resource: plural}
	dryRun := false
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: g.uid(), Kind: gvk, Resource: gvr, RequestKind: &gvk, RequestResource: &gvr, DryRun: &dryRun,
			Name: object.GetName(), Namespace: object.GetNamespace(), Operation: admissionv1.Create,
			UserInfo: authenticationv1.UserInfo{Username: "alice", UID: string(g.uid()), Groups: []string{"dev", "system:authenticated"}},
			Object:   runtime.RawExtension{Raw: raw},
			Options:  runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl-client-side-apply","fieldValidation":"Strict"}`)},
		},
	})
}
