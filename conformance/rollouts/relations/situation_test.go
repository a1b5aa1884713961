package relations

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/rollout/v1alpha1"
	recorded "github.com/virtward/virtward/conformance/rollouts"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/pending"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/rollouts"
)

// situation is a case with an instance, and the objects of its cluster.
type situation struct {
	id       string
	c        *recorded.Case
	input    *rollouts.Input
	objects  []*unstructured.Unstructured
	memory   *references.Memory
	instance *v1.VirtualMachineInstance
}

func newSituation(t *testing.T, c *recorded.Case, vmi *v1.VirtualMachineInstance) *situation {
	t.Helper()
	changed := *c
	s := &situation{id: c.ID, c: &changed, objects: append(c.Existing(), c.KubeVirtObject())}
	changed.VM = c.VM.DeepCopy()
	changed.VM.SetGroupVersionKind(v1.VirtualMachineGroupVersionKind)
	if vmi != nil {
		changed.VMI = vmi.DeepCopy()
		changed.VMI.SetGroupVersionKind(v1.VirtualMachineInstanceGroupVersionKind)
		changed.VMI.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(changed.VM, v1.VirtualMachineGroupVersionKind)}
		start := &appsv1.ControllerRevision{
			TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: apikinds.ControllerRevisions.Kind},
			ObjectMeta: metav1.ObjectMeta{Name: vmi.Status.VirtualMachineRevisionName, Namespace: "default"},
			Data:       runtime.RawExtension{Raw: encoded(t, map[string]any{"spec": c.LastStarted})},
		}
		s.objects = append(s.objects, untyped(t, changed.VMI), untyped(t, start))
	} else {
		changed.LastStarted = &changed.VM.Spec // the plan of a VM without an instance compares with the VM itself
	}
	s.instance = changed.VMI
	var err error
	if s.input, err = changed.Input(); err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	if s.memory, err = references.NewMemory("default", s.objects...); err != nil {
		t.Fatalf("%s: %v", c.ID, err)
	}
	return s
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func untyped(t *testing.T, object any) *unstructured.Unstructured {
	t.Helper()
	found := &unstructured.Unstructured{}
	if err := found.UnmarshalJSON(encoded(t, object)); err != nil {
		t.Fatal(err)
	}
	return found
}

// paths are the objects of the cluster with the VM, by the paths that the test server knows.
func (s *situation) paths(t *testing.T, vm any) *map[string][]byte {
	t.Helper()
	paths := map[string][]byte{}
	for _, object := range append(slices.Clip(s.objects), untyped(t, vm)) {
		group := object.GroupVersionKind().Group
		path := group + "/namespaces/default/" + strings.ToLower(object.GetKind()) + "s/" + object.GetName()
		switch {
		case object.GetKind() == "KubeVirt":
			path, object = "kubevirt.io/kubevirts", &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "kubevirt.io/v1", "kind": "KubeVirtList", "items": []any{object.Object},
			}}
		case strings.Contains(object.GetKind(), "Cluster"):
			path = group + "/" + strings.ToLower(object.GetKind()) + "s/" + object.GetName()
		}
		paths[path] = encoded(t, object)
	}
	return &paths
}

// old is the VM before the edit.
func (s *situation) old() *v1.VirtualMachine {
	old := s.c.VM.DeepCopy()
	switch {
	case s.c.OldVM != nil:
		s.c.OldVM.Spec.DeepCopyInto(&old.Spec)
	case s.c.LastStarted != nil:
		s.c.LastStarted.DeepCopyInto(&old.Spec)
	default:
		return nil
	}
	old.Generation--
	return old
}

func (s *situation) kinds(t *testing.T, vm *v1.VirtualMachine) rollouts.Kinds {
	t.Helper()
	found, _, err := references.References(t.Context(), s.memory, vm)
	if err != nil {
		t.Fatal(err)
	}
	return references.KindsOf(found)
}

// evaluated is the plan of the webhook for the edit; nil if it has none.
func (s *situation) evaluated(t *testing.T, old *v1.VirtualMachine) *rollouts.Result {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	live := &evaluator.Live{GetFacts: func() *platform.Facts { return s.input.Facts }}
	snapshot, err := evaluator.New(effective.NewPipeline(registry), s.memory, live).Snapshot(time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	info, known := evaluator.Info(v1.VirtualMachineGroupVersionKind.GroupKind())
	if !known {
		t.Fatal("virtual machines are not evaluated")
	}
	result, err := snapshot.Evaluate(t.Context(), evaluator.Request{
		Object: encoded(t, s.c.VM), OldObject: encoded(t, old), Operation: admissionv1.Update, Stage: evaluator.Admitted, Namespace: "default",
		Kind: metav1.GroupVersionKind(info.GroupVersionKind), Resource: metav1.GroupVersionResource(info.Resource), Name: s.c.VM.Name,
	})
	if err != nil {
		t.Fatalf("%s: %v", s.id, err)
	}
	return result.Rollout
}

// annotated is the VM with what the controller writes, and what that is; nil if it writes none.
func (s *situation) annotated(t *testing.T) (*unstructured.Unstructured, *v1alpha1.Pending) {
	t.Helper()
	resource := apikinds.VirtualMachines.GroupVersionResource()
	scheme := runtime.NewScheme()
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, map[schema.GroupVersionResource]string{resource: "VirtualMachineList"}, untyped(t, s.c.VM))
	r := pending.New(pending.Options{
		Objects: s.cluster(), Client: client, Facts: func() *platform.Facts { return s.input.Facts }, Ready: func() error { return nil },
		Tell: func(*v1.VirtualMachine, events.Event) {}, Resync: time.Hour, Clock: clock.RealClock{},
	})
	key := types.NamespacedName{Namespace: "default", Name: s.c.VM.Name}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatalf("%s: %v", s.id, err)
	}
	vm, err := client.Resource(resource).Namespace("default").Get(t.Context(), s.c.VM.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := v1alpha1.PendingOf(vm.GetAnnotations())
	if err != nil {
		t.Fatalf("%s: %v", s.id, err)
	}
	return vm, found
}

// objects are those that the controller reads.
type objects struct {
	*references.Memory

	s *situation
}

func (s *situation) cluster() *objects { return &objects{Memory: s.memory, s: s} }

func (o *objects) Instance(_ context.Context, _, name string) (*v1.VirtualMachineInstance, error) {
	if o.s.instance == nil || o.s.instance.Name != name {
		return nil, apierrors.NewNotFound(apikinds.VirtualMachineInstances.GroupVersionResource().GroupResource(), name)
	}
	return o.s.instance.DeepCopy(), nil
}

func (o *objects) StartedSpec(_ context.Context, _, revision string) (*v1.VirtualMachineSpec, error) {
	if o.s.instance.Status.VirtualMachineRevisionName != revision {
		return nil, apierrors.NewNotFound(apikinds.ControllerRevisions.GroupVersionResource().GroupResource(), revision)
	}
	return o.s.c.LastStarted.DeepCopy(), nil
}

func (o *objects) Machine(context.Context, string, string) (*v1.VirtualMachine, error) {
	return o.s.c.VM.DeepCopy(), nil
}

func (o *objects) ReserveReads(ctx context.Context, _ string) (context.Context, func()) {
	return ctx, func() {}
}
