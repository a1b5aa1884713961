package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/simulators"
)

// confirmation is the annotation with which an admin confirms a change of the hypervisor.
const confirmation = "virtward.io/confirm-hypervisor"

var _ = Describe("The KubeVirt resource", Serial, Ordered, func() {
	AfterAll(func(ctx SpecContext) {
		configure(ctx, nil, "kvm")
		eventuallyModel(ctx, "host-model")
	})

	It("decides the hypervisor that VMIs are completed for, in VEP 97's form", func(ctx SpecContext) {
		configure(ctx, map[string]any{
			"hypervisor":             []any{map[string]any{"name": "mshv", "hypervisorDevice": "mshv", "virtType": "hyperv"}},
			"developerConfiguration": map[string]any{"featureGates": []any{platform.GateConfigurableHypervisor}},
		}, "mshv")
		eventuallyModel(ctx, "qemu64-v1")
	})

	It("and in KubeVirt's", func(ctx SpecContext) {
		configure(ctx, map[string]any{
			"hypervisors":            []any{map[string]any{"name": "hyperv-direct"}},
			"cpuModel":               "EPYC",
			"developerConfiguration": map[string]any{"featureGates": []any{platform.GateConfigurableHypervisor}},
		}, "hyperv-direct")
		eventuallyModel(ctx, "EPYC")
	})

	It("may disappear and come back", func(ctx SpecContext) {
		before := kubeVirt(ctx)
		Expect(admin.Delete(ctx, before)).To(Succeed())
		warned, warnings := listening("alice")
		Eventually(func(g Gomega, ctx context.Context) {
			vmi := build.VMI("guess").Obj()
			g.Expect(warned.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
			g.Expect(vmi.Spec.Domain.CPU.Model).To(Equal("host-model"), "KubeVirt's own defaults")
			g.Expect(warnings.texts).To(ContainElement(platform.NoKubeVirtWarning))
		}).WithContext(ctx).Should(Succeed())

		again := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": map[string]any{"cpuModel": "Nehalem"}}}}
		again.SetGroupVersionKind(kubeVirtKind)
		again.SetNamespace(simulators.Name.Namespace)
		again.SetName(simulators.Name.Name)
		Expect(admin.Create(ctx, again)).To(Succeed())
		Expect(simulators.MarkDeployed(ctx, admin, simulators.Name)).To(Succeed())
		eventuallyModel(ctx, "Nehalem")
	})
})

var kubeVirtKind = schema.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: "KubeVirt"}

func kubeVirt(ctx context.Context) *unstructured.Unstructured {
	GinkgoHelper()
	kv := &unstructured.Unstructured{}
	kv.SetGroupVersionKind(kubeVirtKind)
	Expect(admin.Get(ctx, simulators.Name, kv)).To(Succeed())
	return kv
}

// configure replaces the configuration, confirming the hypervisor that it names.
func configure(ctx context.Context, configuration map[string]any, hypervisor string) {
	GinkgoHelper()
	kv := kubeVirt(ctx)
	if configuration == nil {
		configuration = map[string]any{}
	}
	Expect(unstructured.SetNestedMap(kv.Object, configuration, "spec", "configuration")).To(Succeed())
	kv.SetAnnotations(map[string]string{confirmation: hypervisor})
	Expect(admin.Update(ctx, kv)).To(Succeed())
}

func eventuallyModel(ctx context.Context, model string) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		vmi := build.VMI("model").Obj()
		g.Expect(alice.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
		g.Expect(vmi.Spec.Domain.CPU.Model).To(Equal(model))
	}).WithContext(ctx).Should(Succeed())
}
