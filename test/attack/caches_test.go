package attack

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
)

// containerLimit is the memory limit of the webhook's container in the chart.
const containerLimit = 528 << 20

// presetOf is a preset with a selector of some hundred kilobytes.
func presetOf(name string, size int) *kubevirtv1.VirtualMachineInstancePreset {
	labels := map[string]string{}
	for i := range size / 110 {
		labels[fmt.Sprintf("mallory.example/label-%032d", i)] = strings.Repeat("v", 60)
	}
	return &kubevirtv1.VirtualMachineInstancePreset{
		ObjectMeta: metav1.ObjectMeta{Namespace: attacked, Name: name},
		Spec:       kubevirtv1.VirtualMachineInstancePresetSpec{Selector: metav1.LabelSelector{MatchLabels: labels}},
	}
}

func inflatedInstancetype(name string, size int) *instancetypev1beta1.VirtualMachineInstancetype {
	annotations := map[string]string{}
	for i := range size / 1100 {
		annotations[fmt.Sprintf("mallory.example/%d", i)] = strings.Repeat("v", 1000)
	}
	return &instancetypev1beta1.VirtualMachineInstancetype{
		ObjectMeta: metav1.ObjectMeta{Namespace: attacked, Name: name},
		Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
			CPU: instancetypev1beta1.CPUInstancetype{Guest: 1}, Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("1Gi")}, Annotations: annotations,
		},
	}
}

var _ = Describe("Filling the caches of the webhook", Serial, timed, func() {
	It("with presets and instancetypes is denied", func(ctx SpecContext) {
		Expect(causes(mallory.Create(ctx, presetOf("large", 900<<10)))).To(ConsistOf("spec object-readable"))
		Expect(causes(mallory.Create(ctx, inflatedInstancetype("large", 384<<10)))).To(ConsistOf("spec object-readable"))
		Expect(mallory.Create(ctx, presetOf("small", 2<<10), client.DryRunAll)).To(Succeed())
		Expect(mallory.Create(ctx, inflatedInstancetype("small", 2<<10), client.DryRunAll)).To(Succeed())
	})

	It("with existing objects does not stop it or slow other users down", func(ctx SpecContext) {
		DeferCleanup(func(ctx SpecContext) {
			for _, kind := range []client.Object{&kubevirtv1.VirtualMachineInstancePreset{}, &instancetypev1beta1.VirtualMachineInstancetype{}} {
				Expect(admin.DeleteAllOf(ctx, kind, client.InNamespace(attacked))).To(Succeed())
			}
		})
		unchecked(ctx, func() {
			preset, instancetype := presetOf("filled", 900<<10), inflatedInstancetype("filled", 384<<10)
			for i := range 25 {
				one := *preset
				one.Name = fmt.Sprintf("filled-%d", i)
				Expect(mallory.Create(ctx, &one)).To(Succeed())
			}
			for i := range 60 {
				one := *instancetype
				one.Name = fmt.Sprintf("filled-%d", i)
				Expect(mallory.Create(ctx, &one)).To(Succeed())
			}
		})
		By("restarting the webhook")
		Expect(virtward.Restart(ctx)).To(Succeed())
		awaitWebhooks(ctx)

		var requests []sent
		for i := range 60 {
			vm := mine("uses-it")
			vm.Spec.Template.Spec.Domain.Memory = nil
			vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Kind: "VirtualMachineInstancetype", Name: fmt.Sprintf("filled-%d", i)}
			vmi := build.VMI("among-presets").Namespace(attacked).Obj()
			if i == 0 {
				Expect(causes(mallory.Create(ctx, vm.DeepCopy(), client.DryRunAll))).To(ContainElement("spec.instancetype vm-reference"))
				Expect(mallory.Create(ctx, vmi.DeepCopy(), client.DryRunAll)).To(Succeed(), "it is validated as it arrives")
			}
			requests = append(requests, request(virtualMachines, vm), request(instances, vmi))
		}
		beside(ctx, func() func() string { return flood(20, 4, requests...) })
	}, NodeTimeout(nodeTimeout))

	It("with texts of the API server's maximum size does not stop it or slow other users down", func(ctx SpecContext) {
		vm := mine("large-text")
		vm.Spec.Template.Spec.Volumes = []kubevirtv1.Volume{{Name: "data", VolumeSource: kubevirtv1.VolumeSource{CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{UserData: strings.Repeat("text ", 280<<10)}}}}
		beside(ctx, func() func() string { return flood(1, 8, request(virtualMachines, vm)) })
	}, NodeTimeout(nodeTimeout))

	It("with many large requests at once does not stop it or slow other users down", func(ctx SpecContext) {
		vm := mine("many-values")
		vm.Spec.DataVolumeTemplates = make([]kubevirtv1.DataVolumeTemplateSpec, 3_000)
		Expect(causes(mallory.Create(ctx, vm.DeepCopy(), client.DryRunAll))).To(ContainElement("spec object-readable"), "it has too many objects to be evaluated")
		// Each template is three objects, and this is nearly the most that are evaluated.
		vm.Spec.DataVolumeTemplates = vm.Spec.DataVolumeTemplates[:1_600]
		Expect(causes(mallory.Create(ctx, vm.DeepCopy(), client.DryRunAll))).NotTo(ContainElement("spec object-readable"))
		// They are denied, or answered with 503.
		beside(ctx, func() func() string { return flood(5, 40, request(virtualMachines, vm)) })
	}, NodeTimeout(nodeTimeout))
})
