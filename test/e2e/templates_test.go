package e2e

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// templateObject is an object of a kind of template.kubevirt.io with a spec in JSON.
func templateObject(version, kind, name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("template.kubevirt.io/" + version)
	object.SetKind(kind)
	object.SetNamespace(metav1.NamespaceDefault)
	object.SetName(name)
	fields := map[string]any{}
	Expect(json.Unmarshal([]byte(spec), &fields)).To(Succeed())
	object.Object["spec"] = fields
	return object
}

const (
	soundTemplate = `{"virtualMachine":{"metadata":{"name":"${NAME}"},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{}}}}}},
		"parameters":[{"name":"NAME","generate":"expression","from":"vm-[a-z0-9]{8}"}]}`
	brokenTemplate = `{"virtualMachine":{"metadata":{"name":"${NOPE}"},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{},"cpus":1}}}}}}`
)

var _ = Describe("A VM template", Serial, func() {
	const undefined, unknown = "spec.virtualMachine.metadata.name template-undefined-parameter", "spec.virtualMachine.spec.template.spec.domain.cpus template-unknown-field"

	for _, version := range []string{"v1alpha1", "v1beta1"} {
		It("is admitted or rejected with all causes, in "+version, func(ctx SpecContext) {
			sound := templateObject(version, "VirtualMachineTemplate", "sound", soundTemplate)
			cleanUp(sound)
			Expect(admin.Create(ctx, sound)).To(Succeed())
			Expect(causes(admin.Create(ctx, templateObject(version, "VirtualMachineTemplate", "broken", brokenTemplate)))).To(ConsistOf(undefined, unknown))
		})
	}

	It("that was broken before can be changed and deleted", func(ctx SpecContext) {
		const hold = "example.com/hold"
		broken := templateObject("v1beta1", "VirtualMachineTemplate", "broken", brokenTemplate)
		broken.SetFinalizers([]string{hold})
		switchOffTemplateChecks(ctx)
		Eventually(func(ctx context.Context) error { return admin.Create(ctx, broken.DeepCopy()) }).WithContext(ctx).Should(Succeed())
		switchOnTemplateChecks(ctx)
		Eventually(func(ctx context.Context) error {
			return admin.Create(ctx, templateObject("v1beta1", "VirtualMachineTemplate", "probe", brokenTemplate), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("template-unknown-field")))
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(broken), broken)).To(Succeed())

		Expect(change(ctx, admin, broken, func() { broken.SetLabels(map[string]string{"a": "b"}) })).To(Succeed())
		Expect(change(ctx, admin, broken, func() {
			Expect(unstructured.SetNestedField(broken.Object, "Log in.", "spec", "message")).To(Succeed())
		})).To(Succeed(), "pre-existing faults are warnings")
		Expect(causes(change(ctx, admin, broken, func() {
			Expect(unstructured.SetNestedField(broken.Object, int64(1), "spec", "virtualMachine", "spec", "template", "spec", "domain", "ram")).To(Succeed())
		}))).To(ConsistOf("spec.virtualMachine.spec.template.spec.domain.ram template-unknown-field"))

		Expect(admin.Get(ctx, client.ObjectKeyFromObject(broken), broken)).To(Succeed())
		Expect(admin.Delete(ctx, broken)).To(Succeed())
		Expect(change(ctx, admin, broken, func() { controllerutil.RemoveFinalizer(broken, hold) })).To(Succeed())
		Eventually(func(ctx context.Context) error {
			return admin.Get(ctx, client.ObjectKeyFromObject(broken), broken)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("not found")))
	})

	It("request has names and labels that exist", func(ctx SpecContext) {
		request := func(spec string) error {
			return admin.Create(ctx, templateObject("v1beta1", "VirtualMachineTemplateRequest", "capture", spec), client.DryRunAll)
		}
		Expect(request(`{"virtualMachineRef":{"namespace":"default","name":"db"},"templateLabels":{"os":"fedora"}}`)).To(Succeed())
		Expect(causes(request(`{"virtualMachineRef":{"namespace":"default","name":"db"},"templateLabels":{"not valid!":"x","os":"-"}}`))).To(ConsistOf(
			"spec.templateLabels[not valid!] template-labels", "spec.templateLabels[os] template-labels"))
		for _, spec := range []string{
			`{"virtualMachineRef":{"namespace":"","name":"db"}}`, `{"virtualMachineRef":{"namespace":"default","name":""}}`,
			`{"virtualMachineRef":{"namespace":"Bad NS","name":"db"}}`, `{"virtualMachineRef":{"namespace":"default","name":"Bad Name"}}`,
			`{"virtualMachineRef":{"namespace":"default","name":"db"},"templateName":"Bad Name"}`,
			`{"virtualMachineRef":{"namespace":"default","name":"db"},"templateLabels":{"template.kubevirt.io/RequestUID":"x"}}`,
		} {
			Expect(request(spec)).To(MatchError(ContainSubstring("is invalid: spec.")), spec)
		}
	})
})

// switchOffTemplateChecks switches off all webhooks of Virtward, and switchOnTemplateChecks switches them on.
func switchOffTemplateChecks(ctx context.Context) {
	GinkgoHelper()
	DeferCleanup(switchOnTemplateChecks)
	Expect(switchTemplateChecks(ctx, []any{map[string]any{"name": "virtward.io/disabled", "expression": "false"}})).To(Succeed())
}

func switchOnTemplateChecks(ctx context.Context) {
	GinkgoHelper()
	Expect(switchTemplateChecks(ctx, []any{map[string]any{"name": "something-changed", "expression": "request.operation != 'UPDATE' || object.?spec != oldObject.?spec"}})).To(Succeed())
}

func switchTemplateChecks(ctx context.Context, conditions []any) error {
	configuration := &unstructured.Unstructured{}
	configuration.SetAPIVersion("admissionregistration.k8s.io/v1")
	configuration.SetKind("ValidatingWebhookConfiguration")
	configuration.SetName(checks)
	return change(ctx, admin, configuration, func() {
		webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
		Expect(err).NotTo(HaveOccurred())
		for i := range webhooks {
			if fields := webhooks[i].(map[string]any); fields["name"] == "templates."+checks { //nolint:forcetypeassert // the API server stores objects
				fields["matchConditions"] = conditions
			}
		}
		Expect(unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")).To(Succeed())
	})
}
