package webhooks

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"kubevirt.io/api/clone"
	snapshotapi "kubevirt.io/api/snapshot"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/evaluator"
)

// examinationOf returns how objects of a kind are validated, or nil if they are not.
func examinationOf(kind schema.GroupKind) func(*examination) error {
	if evaluator.Evaluates(kind) {
		return (*examination).evaluate
	}
	return own[kind]
}

// own has the kinds that this package validates: those from which KubeVirt creates VMs, requests for VM
// templates, and the API kinds of Virtward.
var own = map[schema.GroupKind]func(*examination) error{
	{Group: snapshotapi.GroupName, Kind: apikinds.VirtualMachineRestore}:              (*examination).restore,
	{Group: clone.GroupName, Kind: clone.Kind}:                                        (*examination).clone,
	{Group: v1beta1.GroupVersion.Group, Kind: apikinds.VirtualMachineTemplateRequest}: (*examination).templateRequest,
	rolloutKind:   (*examination).rollout,
	catalogKind:   (*examination).catalog,
	exceptionKind: (*examination).policyException,
	{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.RuleSettings}:           (*examination).ruleSettings,
	{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.VirtualMachineDefaults}: (*examination).siteDefaults,
	{Group: policyv1alpha1.GroupVersion.Group, Kind: apikinds.VirtualMachinePolicy}:   (*examination).virtualMachinePolicy,
}

func groupKind(request *admissionv1.AdmissionRequest) schema.GroupKind {
	return schema.GroupKind{Group: request.Kind.Group, Kind: request.Kind.Kind}
}
