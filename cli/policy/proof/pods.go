package proof

import (
	"context"
	"encoding/json"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/platform"
)

// pods computes the pods of virtual machines.
type pods struct {
	pipeline *effective.Pipeline
	snapshot *evaluator.Snapshot
	facts    *platform.Facts
}

func newPods() (*pods, error) {
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		return nil, err
	}
	p := &pods{pipeline: effective.NewPipeline(registry), facts: platform.Defaults(platform.Settings{})}
	p.snapshot, err = evaluator.New(p.pipeline, nil, &evaluator.Live{GetFacts: func() *platform.Facts { return p.facts }}).Snapshot(at)
	return p, err
}

// preview adds the pod of the object to documents. It is false if the virtual machine has none.
func (p *pods) preview(ctx context.Context, d *cel.Documents) bool {
	vm, ok := d.Object.(*v1.VirtualMachine)
	if !ok || vm.Spec.Template == nil {
		return false
	}
	object, err := json.Marshal(vm)
	if err != nil {
		return false
	}
	kind := apikinds.VirtualMachines
	result, err := p.snapshot.Complete(ctx, evaluator.Request{
		Object: object, Operation: admissionv1.Create, Kind: metav1.GroupVersionKind(kind.GroupVersionKind), Resource: metav1.GroupVersionResource(kind.GroupVersionResource()),
	})
	if err != nil || result.Verdict == nil || result.Verdict.Spec == nil {
		return false
	}
	made, err := p.pipeline.Launcher(result.Verdict, p.facts)
	if err != nil {
		return false
	}
	d.Previews = &cel.Previews{
		Size: cel.PreviewSize{PodDevices: uint64(launcher.Size(result.Verdict.Spec))}, //nolint:gosec // a sum of lengths
		Pod:  func() (*corev1.Pod, error) { return made.Pod, nil },
	}
	return true
}

// created returns the pod of documents as the API server stores it when KubeVirt creates it.
func (p *pods) created(d *cel.Documents) (map[string]any, error) {
	rendered, err := d.Previews.Pod()
	if err != nil {
		return nil, err
	}
	pod := rendered.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	pod.Namespace, pod.Name = d.Request.Namespace, pod.GenerateName+"x1x1x"
	for _, set := range []struct {
		field     *string
		byDefault string
	}{
		{(*string)(&pod.Spec.DNSPolicy), string(corev1.DNSClusterFirst)},
		{&pod.Spec.SchedulerName, corev1.DefaultSchedulerName},
		{&pod.Spec.ServiceAccountName, "default"},
		{&pod.Spec.DeprecatedServiceAccount, "default"},
	} {
		if *set.field == "" {
			*set.field = set.byDefault
		}
	}
	made, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, err
	}
	delete(made, "status")
	return made, nil
}
