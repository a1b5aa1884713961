package policytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/rollouts"
)

// runningUID is the UID of a VM that runs.
const runningUID = "00000000-0000-4000-8000-000000000001"

// run makes the old VM one that runs as it is written: with an instance that can be migrated, and a revision of its start.
func (s *Situation) run(ctx context.Context, evaluates *evaluator.Evaluator, snapshot *evaluator.Snapshot, request *evaluator.Request) error {
	creation := *request
	creation.Object, creation.OldObject, creation.Operation = request.OldObject, nil, admissionv1.Create
	completed, err := snapshot.Complete(ctx, creation)
	switch {
	case err != nil:
		return err
	case completed.Unreadable != nil:
		return completed.Unreadable
	case completed.Verdict == nil || completed.Verdict.VM == nil || completed.Verdict.Spec == nil:
		return errors.New("the old object cannot run: it cannot be completed")
	}
	vm := completed.Verdict.VM
	vm.UID, vm.Status.Created, vm.Status.Ready = runningUID, true, true
	rollouts.WithUUID(vm)
	if request.OldObject, err = json.Marshal(vm); err != nil {
		return err
	}
	objects := s.Objects
	for _, object := range instanceOf(vm, completed.Verdict.Spec) {
		data, err := json.Marshal(object)
		if err != nil {
			return err
		}
		found := &unstructured.Unstructured{}
		if err := found.UnmarshalJSON(data); err != nil {
			return fmt.Errorf("running the old object: %w", err)
		}
		objects = append(slices.Clip(objects), found)
	}
	around := &Situation{Objects: objects, Namespace: s.Namespace}
	evaluates.References, err = around.references()
	return err
}

// instanceOf are the instance of a VM, and the revision of its start.
func instanceOf(vm *v1.VirtualMachine, spec *v1.VirtualMachineInstanceSpec) []any {
	const revision = "revision-start-vm-" + runningUID + "-1"
	start, _ := json.Marshal(map[string]any{"spec": vm.Spec})
	instance := rollouts.Start(vm, spec)
	instance.Status.VirtualMachineRevisionName = revision
	return []any{instance, &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: apikinds.ControllerRevisions.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: revision, Namespace: vm.Namespace},
		Data:       runtime.RawExtension{Raw: start},
	}}
}
