package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
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
		answers := func(vm *kubevirtv1.VirtualMachine, what gomegatypes.GomegaMatcher) {
			GinkgoHelper()
			Eventually(func(ctx context.Context) []string { return answer(ctx, vm, "alice") }).WithContext(ctx).WithTimeout(30 * time.Second).Should(what)
		}
		answers(using("labelled"), denied)
		answers(using("missing"), denied)
		answers(using(), BeEmpty())
		Expect(change(ctx, admin, claim, func() { claim.Labels = map[string]string{"e2e/ok": "true"} })).To(Succeed())
		answers(using("labelled"), BeEmpty())

		many := make([]string, 200)
		for i := range many {
			many[i] = fmt.Sprintf("missing-%d", i)
		}
		answers(using(many...), ConsistOf(And(HavePrefix("InternalError spec"), ContainSubstring("the virtual machine points at more than 64 objects"))))
	})

	It("of a kind that is not enabled make a policy invalid", func(ctx SpecContext) {
		const why = "the policy reads references.configMaps, which are not enabled: add configmaps to the chart's value policies.references"
		spec := `{enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "references.configMaps.size() == 0", message: none}]}`
		Expect(admin.Create(ctx, policyWith("config-maps", spec))).To(MatchError(ContainSubstring(why)))
	})
})
