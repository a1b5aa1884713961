package simulators

import (
	"encoding/json"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/apikinds"
)

// hook is one of virt-api's webhooks.
type hook struct {
	name       string
	resource   string
	operations []admissionregistrationv1.OperationType
	path       string
	answer     func(*VirtAPI, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
}

// pure answers without the cluster.
func pure(answer func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) func(*VirtAPI, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(_ *VirtAPI, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return answer(request)
	}
}

// schemaFirst rejects an object that lacks what its schema requires, as virt-api does before it decodes the object: the Go types
// would fill it with zero values.
func schemaFirst(kind apikinds.Resource, answer func(*VirtAPI, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) func(*VirtAPI, *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	return func(v *VirtAPI, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		object := map[string]any{}
		if err := json.Unmarshal(request.Object.Raw, &object); err != nil {
			return reject(err.Error())
		}
		schema, err := v.schemas.For(kind.GroupVersionKind)
		if err != nil {
			return reject(err.Error())
		}
		if missing := schema.Missing(object); len(missing) > 0 {
			return reject(strings.Join(missing, " in body is required, ") + " in body is required")
		}
		return answer(v, request)
	}
}

var (
	onCreate         = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	onUpdate         = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	onCreateOrUpdate = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}
)

var mutators = []hook{
	{"virtualmachines-mutator.kubevirt.io", "virtualmachines", onCreateOrUpdate, "/virtualmachines-mutate", schemaFirst(apikinds.VirtualMachines, pure(mutateVM))},
	{"virtualmachineinstances-mutator.kubevirt.io", "virtualmachineinstances", onCreateOrUpdate, "/virtualmachineinstances-mutate", schemaFirst(apikinds.VirtualMachineInstances, (*VirtAPI).mutateVMI)},
}

var validators = []hook{
	{"virtualmachineinstances-create-validator.kubevirt.io", "virtualmachineinstances", onCreate, "/virtualmachineinstances-validate-create", pure(admit)},
	{"virtualmachineinstances-update-validator.kubevirt.io", "virtualmachineinstances", onUpdate, "/virtualmachineinstances-validate-update", pure(validateVMIUpdate)},
	{"virtualmachine-validator.kubevirt.io", "virtualmachines", onCreateOrUpdate, "/virtualmachines-validate", pure(admit)},
	{"migration-create-validator.kubevirt.io", "virtualmachineinstancemigrations", onCreate, "/migration-validate-create", (*VirtAPI).validateMigration},
}

// configurations are registered the way KubeVirt's operator does: called in the order of their names, never
// again after another mutator, failing closed after ten seconds.
func (v *VirtAPI) configurations(bundle []byte) []client.Object {
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metadata(MutatorName)}
	for _, h := range mutators {
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:                    h.name,
			ClientConfig:            v.clientConfig(h, bundle),
			Rules:                   h.rules(),
			FailurePolicy:           new(admissionregistrationv1.Fail),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(10)),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metadata(ValidatorName)}
	for _, h := range validators {
		validating.Webhooks = append(validating.Webhooks, admissionregistrationv1.ValidatingWebhook{
			Name:                    h.name,
			ClientConfig:            v.clientConfig(h, bundle),
			Rules:                   h.rules(),
			FailurePolicy:           new(admissionregistrationv1.Fail),
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          new(int32(10)),
			AdmissionReviewVersions: []string{"v1"},
		})
	}
	return []client.Object{mutating, validating}
}

func metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Labels: map[string]string{
		kubevirtv1.AppLabel:       name,
		kubevirtv1.ManagedByLabel: kubevirtv1.ManagedByLabelOperatorValue,
	}}
}

func (h hook) rules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: h.operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{"kubevirt.io"},
			APIVersions: kubevirtv1.ApiSupportedWebhookVersions,
			Resources:   []string{h.resource},
		},
	}}
}

func (v *VirtAPI) clientConfig(h hook, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{
		CABundle: bundle,
		Service: &admissionregistrationv1.ServiceReference{
			Namespace: Namespace,
			Name:      virtAPIService,
			Path:      new(h.path),
			Port:      new(int32(v.port)), //nolint:gosec // a port
		},
	}
}
