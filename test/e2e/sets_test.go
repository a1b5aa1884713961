package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
)

// selecting is a selector of one label, and the labels that it finds.
func selecting(value string) (*metav1.LabelSelector, map[string]string) {
	labels := map[string]string{"set": value}
	return &metav1.LabelSelector{MatchLabels: labels}, labels
}

// replicaSet returns a replica set with a VMI as its template.
func replicaSet(name string, of *build.VMIBuilder) *kubevirtv1.VirtualMachineInstanceReplicaSet {
	selector, labels := selecting(name)
	return &kubevirtv1.VirtualMachineInstanceReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: kubevirtv1.VirtualMachineInstanceReplicaSetSpec{
			Replicas: new(int32(0)), Selector: selector,
			Template: &kubevirtv1.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: of.Obj().Spec},
		},
	}
}

// pool returns a pool with a VM as its template, in a version of the API.
func pool(version, name string, of *build.VMIBuilder) *unstructured.Unstructured {
	GinkgoHelper()
	selector, labels := selecting(name)
	vm := build.VMOf(of).Obj()
	vm.Spec.Template.ObjectMeta.Labels = labels
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&poolv1beta1.VirtualMachinePool{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: poolv1beta1.VirtualMachinePoolSpec{
			Replicas: new(int32(0)), Selector: selector,
			VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: vm.Spec},
		},
	})
	Expect(err).NotTo(HaveOccurred())
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion("pool.kubevirt.io/" + version)
	object.SetKind("VirtualMachinePool")
	return object
}

var _ = Describe("Objects with a template of virtual machines", func() {
	sata := func(name string) *build.VMIBuilder {
		return build.VMI(name).Architecture("arm64").Disk("root", kubevirtv1.DiskBusSATA)
	}
	good := func(name string) *build.VMIBuilder { return build.VMI(name).Disk("root", kubevirtv1.DiskBusSATA) }

	It("is rejected at the template of a replica set", func(ctx SpecContext) {
		Expect(causes(alice.Create(ctx, replicaSet("replicas", impossibly("replicas"))))).To(ConsistOf(
			"spec.template."+diskBus+" arm64-disk-bus", "spec.template."+bios+" arm64-bios"))

		By("a template that the selector does not find")
		astray := replicaSet("replicas", good("replicas"))
		astray.Spec.Template.ObjectMeta.Labels = nil
		Expect(causes(alice.Create(ctx, astray))).To(ConsistOf("spec.selector set-selector-matches"))

		By("an update that makes a valid one invalid")
		set := replicaSet("replicas", good("replicas"))
		cleanUp(set)
		Expect(alice.Create(ctx, set)).To(Succeed())
		Expect(causes(change(ctx, alice, set, func() { set.Spec.Template.Spec.Architecture = "arm64" }))).To(ConsistOf("spec.template." + diskBus + " arm64-disk-bus"))
	})

	DescribeTable("is rejected at the template of a pool", func(ctx SpecContext, version string) {
		const template = "spec.virtualMachineTemplate."
		Expect(causes(alice.Create(ctx, pool(version, "pooled", impossibly("pooled"))))).To(ConsistOf(
			template+"spec.template."+diskBus+" arm64-disk-bus", template+"spec.template."+bios+" arm64-bios"))

		By("a selector that does not find the template")
		astray := pool(version, "pooled", good("pooled"))
		Expect(unstructured.SetNestedStringMap(astray.Object, map[string]string{"set": "another"}, "spec", "selector", "matchLabels")).To(Succeed())
		Expect(causes(alice.Create(ctx, astray))).To(ConsistOf("spec.selector set-selector-matches"))

		By("an update that makes a valid one invalid, and one that changes the selector")
		made := pool(version, "pooled-"+version, good("pooled"))
		cleanUp(made)
		Expect(alice.Create(ctx, made)).To(Succeed())
		Expect(causes(change(ctx, alice, made, func() {
			Expect(unstructured.SetNestedField(made.Object, "arm64", "spec", "virtualMachineTemplate", "spec", "template", "spec", "architecture")).To(Succeed())
		}))).To(ConsistOf(template + "spec.template." + diskBus + " arm64-disk-bus"))
		Expect(causes(change(ctx, alice, made, func() {
			for _, labels := range [][]string{{"spec", "selector", "matchLabels"}, {"spec", "virtualMachineTemplate", "metadata", "labels"}} {
				Expect(unstructured.SetNestedStringMap(made.Object, map[string]string{"set": "another"}, labels...)).To(Succeed())
			}
		}))).To(ConsistOf("spec.selector pool-selector-immutable"))
	},
		Entry("in its present version", "v1beta1"),
		Entry("in its older version", "v1alpha1"),
	)

	It("may have an old fault in its template", Serial, func(ctx SpecContext) {
		remove := setRules(ctx, "templates", setting{Rule: "arm64-disk-bus", Severity: "Off"})
		set, made := replicaSet("old-replicas", sata("old")), pool("v1beta1", "old-pool", sata("old"))
		for _, object := range []client.Object{set, made} {
			cleanUp(object)
			Eventually(func(ctx context.Context) error { return alice.Create(ctx, object) }).WithContext(ctx).Should(Succeed())
		}
		remove(ctx)
		Eventually(func(ctx context.Context) error {
			return alice.Create(ctx, replicaSet("new-replicas", sata("new")), client.DryRunAll)
		}).WithContext(ctx).Should(MatchError(ContainSubstring("[virtward/arm64-disk-bus]")))
		user, heard := listening("alice")
		Expect(change(ctx, user, set, func() { set.Spec.Template.Spec.Hostname = "other" })).To(Succeed())
		Expect(change(ctx, user, made, func() {
			Expect(unstructured.SetNestedField(made.Object, "other", "spec", "virtualMachineTemplate", "spec", "template", "spec", "hostname")).To(Succeed())
		})).To(Succeed())
		Expect(heard.texts).To(HaveExactElements(
			And(HavePrefix("spec.template."+diskBus), ContainSubstring("(pre-existing: tolerated on update")),
			And(HavePrefix("spec.virtualMachineTemplate.spec.template."+diskBus), ContainSubstring("(pre-existing: tolerated on update")),
		))
	})
})

var _ = Describe("Instancetypes and preferences", func() {
	overcommitted := func() instancetypev1beta1.VirtualMachineInstancetypeSpec {
		spec := sized("overcommitted").Spec
		spec.Memory.OvercommitPercent = 20
		spec.Memory.Hugepages = &kubevirtv1.Hugepages{PageSize: "2Mi"}
		return spec
	}
	spread := instancetypev1beta1.VirtualMachinePreferenceSpec{CPU: &instancetypev1beta1.CPUPreferences{
		PreferredCPUTopology: new(instancetypev1beta1.Spread),
		SpreadOptions:        &instancetypev1beta1.SpreadOptions{Across: new(instancetypev1beta1.SpreadAcrossCoresThreads), Ratio: new(uint32(4))},
	}}
	here, everywhere := metav1.ObjectMeta{Name: "e2e.wrong", Namespace: "default"}, metav1.ObjectMeta{Name: "e2e.wrong"}

	It("are rejected by rules of their own", func(ctx SpecContext) {
		for _, c := range []struct {
			object client.Object
			cause  string
		}{
			{&instancetypev1beta1.VirtualMachineInstancetype{ObjectMeta: here, Spec: overcommitted()}, "spec.memory.overcommitPercent instancetype-overcommit-hugepages"},
			{&instancetypev1beta1.VirtualMachineClusterInstancetype{ObjectMeta: everywhere, Spec: overcommitted()}, "spec.memory.overcommitPercent instancetype-overcommit-hugepages"},
			{&instancetypev1beta1.VirtualMachinePreference{ObjectMeta: here, Spec: spread}, "spec.cpu.spreadOptions.ratio preference-spread-ratio"},
			{&instancetypev1beta1.VirtualMachineClusterPreference{ObjectMeta: everywhere, Spec: spread}, "spec.cpu.spreadOptions.ratio preference-spread-ratio"},
		} {
			Expect(causes(admin.Create(ctx, c.object))).To(ConsistOf(c.cause), fmt.Sprintf("%T", c.object))
		}
	})

	It("cause warnings about deprecated fields", func(ctx SpecContext) {
		user, heard := listen(cluster.Config())
		preference := preferring("e2e.deprecated", "")
		preference.Spec = instancetypev1beta1.VirtualMachinePreferenceSpec{CPU: &instancetypev1beta1.CPUPreferences{
			PreferredCPUTopology: new(instancetypev1beta1.PreferredCPUTopology("preferCores")),
		}}
		Expect(user.Create(ctx, preference, client.DryRunAll)).To(Succeed())
		Expect(heard.texts).To(ConsistOf(And(
			HavePrefix("spec.cpu.preferredCPUTopology: "), ContainSubstring("is deprecated: use cores"), ContainSubstring("[virtward/preference-topology-deprecated]"))))
	})
})
