package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
)

var _ = Describe("References in policies", Serial, Ordered, func() {
	// using returns a VM with claims.
	using := func(names ...string) *kubevirtv1.VirtualMachine {
		return machine(func(b *build.VMIBuilder) {
			b.With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
				for i, name := range names {
					disk := fmt.Sprintf("d%d", i)
					spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: disk, DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio}}})
					spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: disk, VolumeSource: kubevirtv1.VolumeSource{PersistentVolumeClaim: &kubevirtv1.PersistentVolumeClaimVolumeSource{
						PersistentVolumeClaimVolumeSource: corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
					}}})
				}
			})
		})
	}

	// answers waits for the findings of a dry run.
	answers := func(ctx context.Context, vm *kubevirtv1.VirtualMachine, what gomegatypes.GomegaMatcher) {
		GinkgoHelper()
		Eventually(func(ctx context.Context) []string { return answer(ctx, vm, "alice") }).WithContext(ctx).Should(what)
	}

	BeforeAll(func(ctx SpecContext) { preparePoliced(ctx) })

	It("read claims live, also changed ones, and a bounded number of them", func(ctx SpecContext) {
		enforce(ctx, "labelled-claims", `
enforcement: Deny
match: {kinds: [VirtualMachine]}
validations:
  - {expression: "references.persistentVolumeClaims.all(c, c.found && c.labels[?'e2e/ok'].orValue('') == 'true')", message: a claim is not labelled, fieldPath: vm.spec.volumes}`)
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: policed, Name: "labelled"},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		}
		Expect(admin.Create(ctx, claim)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(change(ctx, admin, claim, func() { claim.Finalizers = nil })).To(Succeed())
			Expect(client.IgnoreNotFound(admin.Delete(ctx, claim))).To(Succeed())
		})
		denied := ConsistOf(HavePrefix("FieldValueInvalid spec.template.spec.volumes"))
		answers(ctx, using("labelled"), denied)
		answers(ctx, using("missing"), denied)
		answers(ctx, using(), BeEmpty())
		Expect(change(ctx, admin, claim, func() { claim.Labels = map[string]string{"e2e/ok": "true"} })).To(Succeed())
		answers(ctx, using("labelled"), BeEmpty())

		many := make([]string, 200)
		for i := range many {
			many[i] = fmt.Sprintf("missing-%d", i)
		}
		answers(ctx, using(many...), ConsistOf(And(HavePrefix("InternalError spec"), ContainSubstring("the virtual machine points at more than 64 objects"))))
	})

	It("read the metadata of ConfigMaps", func(ctx SpecContext) {
		enforce(ctx, "labelled-config-maps", `
enforcement: Deny
match: {kinds: [VirtualMachine]}
validations:
  - {expression: "references.configMaps.all(c, c.found && c.labels[?'e2e/ok'].orValue('') == 'true')", message: a ConfigMap is not labelled, fieldPath: vm.spec.volumes}`)
		labelled := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: policed, Name: "labelled", Labels: map[string]string{"e2e/ok": "true"}},
			Data:       map[string]string{"large": strings.Repeat("x", 512<<10)},
		}
		Expect(admin.Create(ctx, labelled)).To(Succeed())
		cleanUp(labelled)
		configured := func(name string) *kubevirtv1.VirtualMachine {
			return machine(func(b *build.VMIBuilder) {
				b.With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
					spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: "init", DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio}}})
					spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: "init", VolumeSource: kubevirtv1.VolumeSource{ConfigMap: &kubevirtv1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: name},
					}}})
				})
			})
		}
		answers(ctx, configured("missing"), ConsistOf(ContainSubstring("a ConfigMap is not labelled")))
		Expect(answer(ctx, configured("labelled"), "alice")).To(BeEmpty(), "its data is too large to be read")
	})

	It("read networks, and names that no object can have hide no others", func(ctx SpecContext) {
		enforce(ctx, "known-networks", `
enforcement: Deny
match: {kinds: [VirtualMachine]}
validations:
  - {expression: "references.networkAttachmentDefinitions.all(n, n.found && 100 in n.vlans)", message: not VLAN 100, fieldPath: vm.spec.networks}`)
		blue := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": `{"type":"bridge","vlan":100}`}}}
		blue.SetGroupVersionKind(apikinds.NetworkAttachments.GroupVersionKind)
		blue.SetNamespace(policed)
		blue.SetName("blue")
		Expect(admin.Create(ctx, blue)).To(Succeed())
		cleanUp(blue)
		on := func(network string) *kubevirtv1.VirtualMachine {
			return machine(func(b *build.VMIBuilder) {
				b.With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
					spec.Networks = []kubevirtv1.Network{{Name: "a", NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: network}}}}
					spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{{Name: "a", InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Bridge: &kubevirtv1.InterfaceBridge{}}}}
				})
			})
		}
		answers(ctx, on("green"), ConsistOf(ContainSubstring("not VLAN 100")))
		for _, name := range []string{"/blue", "../blue", policed + "/blue/status", "Blue"} {
			Expect(answer(ctx, on(name), "alice")).To(ContainElement(ContainSubstring("not VLAN 100")), name)
			Expect(answer(ctx, on("blue"), "alice")).To(BeEmpty(), "after %s", name)
		}
	})

	It("of one list are known beside a policy that reads too many of another one", func(ctx SpecContext) {
		enforce(ctx, "known-claims", `
enforcement: Deny
match: {kinds: [VirtualMachine]}
validations:
  - {expression: "references.persistentVolumeClaims.all(c, c.found)", message: a claim is missing, fieldPath: vm.spec.volumes}`)
		many := using("missing")
		for i := range 100 {
			name := fmt.Sprintf("n%d", i)
			spec := &many.Spec.Template.Spec
			spec.Networks = append(spec.Networks, kubevirtv1.Network{Name: name, NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{NetworkName: name}}})
			spec.Domain.Devices.Interfaces = append(spec.Domain.Devices.Interfaces, kubevirtv1.Interface{Name: name, InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{Bridge: &kubevirtv1.InterfaceBridge{}}})
		}
		missing := ContainSubstring("a claim is missing [virtward/policy/known-claims]")
		answers(ctx, many, ConsistOf(missing))
		const networks = `
enforcement: %s
match: {kinds: [VirtualMachine]}
validations:
  - {expression: "references.networkAttachmentDefinitions.all(n, n.found)", message: a network is missing, fieldPath: vm.spec.networks}`
		enforce(ctx, "warned-networks", fmt.Sprintf(networks, "Warn"))
		tooMany := ContainSubstring("the virtual machine points at more than 64 objects for this list")
		answers(ctx, many, ConsistOf(missing, And(tooMany, ContainSubstring("[virtward/policy/warned-networks]"))))
		enforce(ctx, "known-networks", fmt.Sprintf(networks, "Deny"))
		answers(ctx, many, ConsistOf(missing, And(tooMany, ContainSubstring("warned-networks")), And(tooMany, HavePrefix("InternalError spec"), ContainSubstring("known-networks"))))
	})

	It("that Virtward has no right to read cannot be evaluated", func(ctx SpecContext) {
		const spec = `
failurePolicy: %s
enforcement: Deny
match: {kinds: [VirtualMachine]}
validations:
  - {expression: "references.persistentVolumeClaims.all(c, c.found)", message: a claim is missing, fieldPath: vm.spec.volumes}`
		enforce(ctx, "strict-claims", fmt.Sprintf(spec, "Fail"))
		enforce(ctx, "lenient-claims", fmt.Sprintf(spec, "Ignore"))
		answers(ctx, using("missing"), HaveLen(2))
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: controlplane.VirtwardService}}
		Expect(admin.Get(ctx, client.ObjectKeyFromObject(role), role)).To(Succeed())
		rules := slices.Clone(role.Rules)
		DeferCleanup(func(ctx SpecContext) {
			Expect(change(ctx, admin, role, func() { role.Rules = rules })).To(Succeed())
			answers(ctx, using("missing"), HaveEach(ContainSubstring("a claim is missing")))
		})
		Expect(change(ctx, admin, role, func() {
			role.Rules = slices.DeleteFunc(slices.Clone(rules), func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "persistentvolumeclaims") })
		})).To(Succeed())
		const why = "references.persistentVolumeClaims: unknown: spec.volumes[0].persistentVolumeClaim.claimName: the object cannot be read now"
		answers(ctx, using("missing"), ConsistOf(
			And(HavePrefix("InternalError spec"), ContainSubstring(why), ContainSubstring("[virtward/policy/strict-claims]")),
			And(ContainSubstring(why), ContainSubstring("[virtward/policy/lenient-claims]")),
		))
	})

	It("of a kind that is not enabled make a policy invalid, and its status says what to set", func(ctx SpecContext) {
		const why = "the policy reads references.dataSources, which are not enabled: add datasources to the chart's value policies.references"
		spec := `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "references.dataSources.size() == 0", message: none}]}`
		Expect(admin.Create(ctx, policyWith("sources", spec))).To(MatchError(ContainSubstring(why)))

		// The kind was enabled when it was created.
		policy := policyWith("sources", `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "true", message: none}]}`)
		Expect(admin.Create(ctx, policy)).To(Succeed())
		cleanUp(policy)
		without(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{}, checks)
		Eventually(func(ctx context.Context) error {
			return change(ctx, admin, policy, func() { policy.Object["spec"] = policyWith("sources", spec).Object["spec"] })
		}).WithContext(ctx).Should(Succeed())
		Eventually(func(g Gomega, ctx context.Context) {
			status, err := statusOf(ctx, "sources")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(meta.IsStatusConditionTrue(status.Conditions, policyv1alpha1.PolicyCompiled)).To(BeTrue())
			ready := meta.FindStatusCondition(status.Conditions, policyv1alpha1.PolicyReady)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
			g.Expect(ready.Reason).To(Equal(policyv1alpha1.PolicyReasonReferencesNotEnabled))
			g.Expect(ready.Message).To(Equal(why + ": every matching request is denied (failurePolicy: Fail)"))
		}).WithContext(ctx).Should(Succeed())
	})
})
