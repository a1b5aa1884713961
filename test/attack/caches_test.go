package attack

import (
	"fmt"
	"strings"
	"sync"

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
const containerLimit = 384 << 20

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

var _ = Describe("Filling the caches of the webhook", Serial, func() {
	It("with presets and instancetypes is denied", func(ctx SpecContext) {
		Expect(causes(mallory.Create(ctx, presetOf("large", 900<<10)))).To(ConsistOf("spec object-readable"))
		Expect(causes(mallory.Create(ctx, inflatedInstancetype("large", 384<<10)))).To(ConsistOf("spec object-readable"))
		Expect(mallory.Create(ctx, presetOf("small", 2<<10), client.DryRunAll)).To(Succeed())
		Expect(mallory.Create(ctx, inflatedInstancetype("small", 2<<10), client.DryRunAll)).To(Succeed())
	})

	It("with what was there before leaves it alive, and everybody else alone", func(ctx SpecContext) {
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
		By("restarting it among them")
		Expect(virtward.Restart(ctx)).To(Succeed())
		awaitWebhooks(ctx)

		innocent := startLoad(3)
		var attackers sync.WaitGroup
		for w := range 4 {
			attackers.Go(func() {
				defer GinkgoRecover()
				for i := range 20 {
					vm := build.VMOf(build.VMI("uses-it")).Obj()
					vm.Namespace = attacked
					vm.Spec.Template.Spec.Domain.Memory = nil
					vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Kind: "VirtualMachineInstancetype", Name: fmt.Sprintf("filled-%d", (i+w)%60)}
					Expect(causes(mallory.Create(ctx, vm, client.DryRunAll))).To(ContainElement("spec.instancetype vm-reference"))
					vmi := build.VMI(fmt.Sprintf("among-presets-%d-%d", w, i)).Namespace(attacked).Obj()
					Expect(mallory.Create(ctx, vmi, client.DryRunAll)).To(Succeed(), "it is validated as it arrives")
				}
			})
		}
		attackers.Wait()
		innocent.until(ctx, 500)
		innocent.stop()
		Expect(peak(virtward.PID())).To(BeNumerically("<", containerLimit))
	}, NodeTimeout(nodeTimeout))

	It("with many large requests at once leaves it alive, and everybody else alone", func(ctx SpecContext) {
		innocent := startLoad(3)
		var attackers sync.WaitGroup
		for w := range 40 {
			attackers.Go(func() {
				defer GinkgoRecover()
				for i := range 5 {
					vm := build.VMOf(build.VMI(fmt.Sprintf("many-values-%d-%d", w, i))).Obj()
					vm.Namespace = attacked
					vm.Spec.DataVolumeTemplates = make([]kubevirtv1.DataVolumeTemplateSpec, 3_000)
					_ = mallory.Create(ctx, vm, client.DryRunAll) // denied, or told to try again
				}
			})
		}
		attackers.Wait()
		innocent.until(ctx, 500)
		innocent.stop()
		Expect(peak(virtward.PID())).To(BeNumerically("<", containerLimit))
	}, NodeTimeout(nodeTimeout))
})
