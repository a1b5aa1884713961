package e2e

import (
	"context"
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
)

var _ = Describe("A VM that runs", func() {
	It("is changed with a warning of what waits for a restart", func(ctx SpecContext) {
		user, heard := listening("alice")
		vm := build.VMOf(build.Typical("long-runner").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
			spec.Domain.Firmware = &kubevirtv1.Firmware{UUID: "11111111-2222-4333-8444-555555555555"}
		})).RunStrategy(kubevirtv1.RunStrategyManual).Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		started(ctx, vm)

		By("changing its labels, and then a field of its template")
		Expect(change(ctx, user, vm, func() { vm.Labels = map[string]string{"team": "a"} })).To(Succeed())
		Expect(heard.texts).To(BeEmpty())
		Expect(change(ctx, user, vm, func() { vm.Spec.Template.Spec.Hostname = "elsewhere" })).To(Succeed())
		Expect(heard.texts).To(ContainElement("spec.template.spec.hostname: takes effect when the VM restarts. KubeVirt applies this field only when the VM starts."))

		By("changing another field")
		heard.texts = nil
		Expect(change(ctx, user, vm, func() { vm.Spec.Template.Spec.Subdomain = "sub" })).To(Succeed())
		Expect(heard.texts).To(HaveEach("spec.template.spec.subdomain: takes effect when the VM restarts. KubeVirt applies this field only when the VM starts."))
	}, NodeTimeout(time.Minute))
})

// started makes a VM one that runs, as KubeVirt's controllers do: with an instance, and a revision of its start.
func started(ctx context.Context, vm *kubevirtv1.VirtualMachine) {
	GinkgoHelper()
	spec, err := json.Marshal(map[string]any{"spec": vm.Spec})
	Expect(err).NotTo(HaveOccurred())
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: vm.Namespace, Name: "revision-start-vm-" + string(vm.UID) + "-1"},
		Data:       runtime.RawExtension{Raw: spec},
	}
	Expect(admin.Create(ctx, revision)).To(Succeed())
	cleanUp(revision)

	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{
		Namespace: vm.Namespace, Name: vm.Name, Labels: vm.Spec.Template.ObjectMeta.Labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)},
	}, Spec: *vm.Spec.Template.Spec.DeepCopy()}
	Expect(controllerAccount(ctx).Create(ctx, vmi)).To(Succeed())
	cleanUp(vmi)
	status, err := json.Marshal(map[string]any{"status": kubevirtv1.VirtualMachineInstanceStatus{
		Phase: kubevirtv1.Running, VirtualMachineRevisionName: revision.Name,
		Conditions: []kubevirtv1.VirtualMachineInstanceCondition{{Type: kubevirtv1.VirtualMachineInstanceIsMigratable, Status: corev1.ConditionTrue}},
	}})
	Expect(err).NotTo(HaveOccurred())
	Expect(controllerAccount(ctx).Patch(ctx, vmi, client.RawPatch(types.MergePatchType, status))).To(Succeed()) // it has no status subresource
	running := client.RawPatch(types.MergePatchType, []byte(`{"status":{"created":true,"ready":true}}`))
	Expect(admin.Status().Patch(ctx, vm, running)).To(Succeed())
}
