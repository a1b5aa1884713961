package simulators

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/simulators/liveupdates"
)

// operation of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func replace(path string, value any) operation {
	return operation{Op: "replace", Path: path, Value: value}
}

// mutateVM does to a VM what KubeVirt persists in it: kinds, architecture, machine type and the random
// identity. It replaces /spec and /metadata as a whole.
func mutateVM(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	vm := &kubevirtv1.VirtualMachine{}
	if err := json.Unmarshal(request.Object.Raw, vm); err != nil {
		return reject(err.Error())
	}
	if vm.DeletionTimestamp != nil || vm.Spec.Template == nil {
		return admit(request)
	}
	complete(&vm.Spec.Template.Spec)
	return patch(replace("/spec", vm.Spec), replace("/metadata", vm.ObjectMeta))
}

// mutateVMI does on a create what virt-api does: the identity, the finalizer and the first phase, by
// replacing /spec, /metadata and /status as a whole. On an update only KubeVirt may change the status.
func (v *VirtAPI) mutateVMI(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	vmi, old := &kubevirtv1.VirtualMachineInstance{}, &kubevirtv1.VirtualMachineInstance{}
	if err := json.Unmarshal(request.Object.Raw, vmi); err != nil {
		return reject(err.Error())
	}
	if request.Operation == admissionv1.Update {
		if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
			return reject(err.Error())
		}
		if ofKubeVirt(request.UserInfo.Username) || equality.Semantic.DeepEqual(vmi.Status, old.Status) {
			return admit(request)
		}
		return patch(replace("/status", old.Status))
	}
	complete(&vmi.Spec)
	configuration, err := configurationOf(context.Background(), v.account)
	if err != nil {
		return reject(err.Error())
	}
	liveupdates.Limits(&vmi.Spec, configuration)
	if vmi.Annotations == nil {
		vmi.Annotations = map[string]string{}
	}
	vmi.Annotations[kubevirtv1.PciTopologyVersionAnnotation] = kubevirtv1.PciTopologyVersionV3
	if !slices.Contains(vmi.Finalizers, kubevirtv1.VirtualMachineInstanceFinalizer) {
		vmi.Finalizers = append(vmi.Finalizers, kubevirtv1.VirtualMachineInstanceFinalizer)
	}
	vmi.Status.Phase = kubevirtv1.Pending
	return patch(replace("/spec", vmi.Spec), replace("/metadata", vmi.ObjectMeta), replace("/status", vmi.Status))
}

// validateMigration rejects a migration of a VMI that cannot be migrated, or that migrates already.
func (v *VirtAPI) validateMigration(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	migration, vmi := &kubevirtv1.VirtualMachineInstanceMigration{}, &kubevirtv1.VirtualMachineInstance{}
	if err := json.Unmarshal(request.Object.Raw, migration); err != nil {
		return reject(err.Error())
	}
	key := client.ObjectKey{Namespace: request.Namespace, Name: migration.Spec.VMIName}
	if err := v.account.Get(context.Background(), key, vmi); err != nil {
		return reject(err.Error())
	}
	for i := range vmi.Status.Conditions {
		if c := &vmi.Status.Conditions[i]; c.Type == kubevirtv1.VirtualMachineInstanceIsMigratable && c.Status == corev1.ConditionFalse {
			return reject(fmt.Sprintf("Cannot migrate VMI, Reason: %s, Message: %s", c.Reason, c.Message))
		}
	}
	existing := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	if err := v.account.List(context.Background(), existing, client.InNamespace(request.Namespace), client.MatchingLabels{kubevirtv1.MigrationSelectorLabel: vmi.Name}); err != nil {
		return reject(err.Error())
	}
	for i := range existing.Items {
		if !existing.Items[i].IsFinal() {
			return reject(fmt.Sprintf("in-flight migration detected. Active migration job (%s) is currently already in progress for VMI %s.", existing.Items[i].UID, vmi.Name))
		}
	}
	return admit(request)
}

// complete sets the least that KubeVirt sets in either kind.
func complete(spec *kubevirtv1.VirtualMachineInstanceSpec) {
	if spec.Architecture == "" {
		spec.Architecture = "amd64"
	}
	if spec.Domain.Machine == nil {
		spec.Domain.Machine = &kubevirtv1.Machine{}
	}
	if spec.Domain.Machine.Type == "" {
		spec.Domain.Machine.Type = machines[spec.Architecture]
	}
	if spec.Domain.Firmware == nil {
		spec.Domain.Firmware = &kubevirtv1.Firmware{}
	}
	if spec.Domain.Firmware.UUID == "" {
		spec.Domain.Firmware.UUID = types.UID(uuid.NewString())
	}
}

var machines = map[string]string{"amd64": "q35", "arm64": "virt", "s390x": "s390-ccw-virtio"}

// validateVMIUpdate lets only KubeVirt change the spec of a VMI.
func validateVMIUpdate(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	vmi, old := &kubevirtv1.VirtualMachineInstance{}, &kubevirtv1.VirtualMachineInstance{}
	if err := json.Unmarshal(request.Object.Raw, vmi); err != nil {
		return reject(err.Error())
	}
	if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
		return reject(err.Error())
	}
	if !equality.Semantic.DeepEqual(vmi.Spec, old.Spec) && !ofKubeVirt(request.UserInfo.Username) {
		return reject("update of VMI object is restricted")
	}
	return admit(request)
}

func ofKubeVirt(user string) bool {
	name, found := strings.CutPrefix(user, accountPrefix)
	return found && slices.Contains(accounts, name)
}

func admit(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

func reject(message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status:  metav1.StatusFailure,
		Reason:  metav1.StatusReasonInvalid,
		Code:    http.StatusUnprocessableEntity,
		Message: message,
	}}
}

func patch(operations ...operation) *admissionv1.AdmissionResponse {
	content, err := json.Marshal(operations)
	if err != nil {
		return reject(err.Error())
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Patch: content, PatchType: new(admissionv1.PatchTypeJSONPatch)}
}
