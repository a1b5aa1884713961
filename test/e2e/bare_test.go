package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/crds"
	"github.com/virtward/virtward/test/simulators"
)

var _ = Describe("A cluster without KubeVirt", func() {
	It("may have Virtward installed, and gets KubeVirt later", func(ctx SpecContext) {
		bare, err := controlplane.Start(ctx, controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(bare.Stop()).To(Succeed()) })
		_, err = bare.InstallVirtward(ctx, nil, controlplane.Workload{})
		Expect(err).NotTo(HaveOccurred(), "it is ready although there is nothing to know")

		definitions, err := crds.All()
		Expect(err).NotTo(HaveOccurred())
		Expect(bare.InstallCRDs(ctx, definitions...)).To(Succeed())
		Expect(bare.EnsureNamespace(ctx, simulators.Name.Namespace)).To(Succeed())
		kv := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": map[string]any{"cpuModel": "EPYC"}}}}
		kv.SetGroupVersionKind(kubeVirtKind)
		kv.SetNamespace(simulators.Name.Namespace)
		kv.SetName(simulators.Name.Name)
		Expect(bare.Client().Create(ctx, kv)).To(Succeed())
		Eventually(func(g Gomega, ctx context.Context) {
			vmi := build.VMI("late").Obj()
			g.Expect(bare.Client().Create(ctx, vmi, client.DryRunAll)).To(Succeed())
			g.Expect(vmi.Spec.Domain.CPU).NotTo(BeNil())
			g.Expect(vmi.Spec.Domain.CPU.Model).To(Equal("EPYC"))
		}).WithContext(ctx).WithTimeout(90 * time.Second).Should(Succeed())
	}, NodeTimeout(3*time.Minute))
})
