package e2e

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers/reports"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/crds"
	"github.com/virtward/virtward/test/planes"
	"github.com/virtward/virtward/test/simulators"
)

var _ = Describe("A cluster without KubeVirt", func() {
	It("may have Virtward installed, and gets KubeVirt later", func(ctx SpecContext) {
		bare := planes.Start(GinkgoTB(), controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}})
		_, err := bare.InstallVirtward(ctx, nil, controlplane.Workload{})
		Expect(err).NotTo(HaveOccurred(), "it is ready without definitions")

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

	It("may lack every definition, Virtward's own too, and gets each later", func(ctx SpecContext) {
		bare := planes.Start(GinkgoTB(), controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}})
		webhook, err := bare.InstallVirtward(ctx, map[string]any{"policies": map[string]any{"references": []string{"datasources"}}}, controlplane.Workload{})
		Expect(err).NotTo(HaveOccurred())
		controller := bare.VirtwardControllerProcess()

		By("taking Virtward's own definitions away, and starting both processes without any")
		installed := &apiextensionsv1.CustomResourceDefinitionList{}
		Expect(bare.Client().List(ctx, installed)).To(Succeed())
		Expect(installed.Items).To(HaveLen(7))
		for i := range installed.Items {
			Expect(bare.Client().Delete(ctx, &installed.Items[i])).To(Succeed())
		}
		Eventually(func(g Gomega, ctx context.Context) {
			g.Expect(bare.Client().List(ctx, installed)).To(Succeed())
			g.Expect(installed.Items).To(BeEmpty())
		}).WithContext(ctx).Should(Succeed())
		Expect(webhook.Restart(ctx)).To(Succeed(), "it is ready without definitions")
		Expect(controller.Restart(ctx)).To(Succeed(), "it is ready without definitions")
		before := []int{webhook.PID(), controller.PID()}

		available, err := crds.All()
		Expect(err).NotTo(HaveOccurred())
		user, heard := listen(bare.Config())
		define := func(resources ...string) {
			GinkgoHelper()
			var wanted []*apiextensionsv1.CustomResourceDefinition
			for _, definition := range available {
				if slices.Contains(resources, definition.Spec.Names.Plural) {
					wanted = append(wanted, definition)
				}
			}
			Expect(wanted).To(HaveLen(len(resources)))
			Expect(bare.InstallCRDs(ctx, wanted...)).To(Succeed())
			for _, definition := range wanted { // discovery may serve a kind a moment after it is established
				Eventually(func() error {
					_, err := user.RESTMapper().RESTMapping(schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind})
					return err
				}).WithContext(ctx).Should(Succeed())
			}
		}
		// apply applies something, dry, and returns the warnings.
		apply := func(ctx context.Context, object client.Object) ([]string, error) {
			heard.texts = nil
			err := user.Create(ctx, object, client.DryRunAll)
			return heard.texts, err
		}
		eventually := func(check func(g Gomega, ctx context.Context)) {
			GinkgoHelper()
			Eventually(check).WithContext(ctx).WithTimeout(90 * time.Second).Should(Succeed())
		}

		By("installing the definitions of virtual machines and instances, without those that they can refer to")
		define("virtualmachines", "virtualmachineinstances")
		eventually(func(g Gomega, ctx context.Context) {
			_, err := apply(ctx, build.VMOf(impossibly("impossible")).Obj())
			g.Expect(err).To(MatchError(ContainSubstring("[virtward/arm64-bios]")))
		})
		vm := build.VM("first").Obj()
		Expect(apply(ctx, vm)).To(ConsistOf(platform.NoKubeVirtWarning))
		Expect(vm.Spec.Template.Spec.Architecture).To(Equal("amd64"))
		pointing := func() *kubevirtv1.VirtualMachine {
			return build.VMOf(build.VMI("pointing").Architecture("arm64").Disk("root", "")).Instancetype("e2e.bare").Preference("e2e.bare").Obj()
		}
		Expect(apply(ctx, pointing())).To(ContainElements(
			HavePrefix("spec.instancetype: there is no VirtualMachineClusterInstancetype e2e.bare"),
			HavePrefix("spec.preference: there is no VirtualMachineClusterPreference e2e.bare"),
		))
		golden := func() *kubevirtv1.VirtualMachine {
			vm := build.VMOf(build.VMI("golden").Disk("root", "")).Obj()
			vm.Spec.Template.Spec.Volumes[0].VolumeSource = kubevirtv1.VolumeSource{DataVolume: &kubevirtv1.DataVolumeSource{Name: "golden"}}
			vm.Spec.DataVolumeTemplates = []kubevirtv1.DataVolumeTemplateSpec{{
				ObjectMeta: metav1.ObjectMeta{Name: "golden"},
				Spec:       cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: "fedora"}, Storage: &cdiv1beta1.StorageSpec{}},
			}}
			return vm
		}
		_, err = apply(ctx, golden())
		Expect(err).NotTo(HaveOccurred())
		vmi := build.VMI("completed").Obj()
		_, err = apply(ctx, vmi)
		Expect(err).NotTo(HaveOccurred())
		Expect(vmi.Spec.Domain.CPU.Model).To(Equal(kubevirtv1.CPUModeHostModel))

		By("storing a VM that a later policy denies, and an object of each kind after its definition")
		large := build.VMOf(build.VMI("large").Memory("16Gi")).RunStrategy(kubevirtv1.RunStrategyHalted).Obj()
		Expect(user.Create(ctx, large)).To(Succeed())
		Expect(bare.InstallVirtwardCRDs(ctx)).To(Succeed())
		Expect(user.Create(ctx, settings("bare", setting{Rule: "arm64-bios", Severity: policyv1alpha1.Warn}))).To(Succeed())
		Expect(user.Create(ctx, siteDefaults("bare", "{template: {schedulerName: house}}"))).To(Succeed())
		policy := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(`{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicy, metadata: {name: bare}, spec: {
			enforcement: Deny, match: {kinds: [VirtualMachine]}, validations: [{expression: "quantity(vm.spec.domain.memory.guest).compareTo(quantity('8Gi')) <= 0", message: at most 8Gi}]}}`), &policy.Object)).To(Succeed())
		Expect(user.Create(ctx, policy)).To(Succeed())
		sources := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal([]byte(`{apiVersion: policy.virtward.io/v1alpha1, kind: VirtualMachinePolicy, metadata: {name: sources}, spec: {enforcement: Deny, match: {kinds: [VirtualMachine]},
			validations: [{expression: "references.dataSources.all(s, s.found && s.source == 'pvc')", message: the golden image must be a claim}]}}`), &sources.Object)).To(Succeed())
		Expect(user.Create(ctx, sources)).To(Succeed())
		eventually(func(g Gomega, ctx context.Context) {
			_, err := apply(ctx, golden())
			g.Expect(err).To(MatchError(ContainSubstring("the golden image must be a claim [virtward/policy/sources]")))
		})

		define("virtualmachineclusterinstancetypes", "virtualmachineclusterpreferences", "virtualmachineinstancetypes", "virtualmachinepreferences")
		preference := preferring("e2e.bare", "")
		preference.Spec = instancetypev1beta1.VirtualMachinePreferenceSpec{Devices: &instancetypev1beta1.DevicePreferences{PreferredDiskBus: kubevirtv1.DiskBusSATA}}
		Expect(user.Create(ctx, sized("e2e.bare"))).To(Succeed())
		Expect(user.Create(ctx, preference)).To(Succeed())

		define("kubevirts")
		Expect(bare.EnsureNamespace(ctx, simulators.Name.Namespace)).To(Succeed())
		kv := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"configuration": map[string]any{"cpuModel": "EPYC"}}}}
		kv.SetGroupVersionKind(kubeVirtKind)
		kv.SetNamespace(simulators.Name.Namespace)
		kv.SetName(simulators.Name.Name)
		Expect(user.Create(ctx, kv)).To(Succeed())

		define("datasources")
		Expect(user.Create(ctx, &cdiv1beta1.DataSource{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fedora", Labels: map[string]string{references.ArchitectureLabel: "arm64"}},
			Spec:       cdiv1beta1.DataSourceSpec{Source: cdiv1beta1.DataSourceSource{PVC: &cdiv1beta1.DataVolumeSourcePVC{Namespace: "default", Name: "fedora"}}},
		})).To(Succeed())
		define("virtualmachinepools", "virtualmachineinstancereplicasets", "virtualmachinesnapshots", "virtualmachinerestores", "virtualmachineclones", "virtualmachineinstancepresets")

		By("finding each at work")
		eventually(func(g Gomega, ctx context.Context) {
			_, err := apply(ctx, build.VMOf(build.VMI("too-large").Memory("16Gi")).Obj())
			g.Expect(err).To(MatchError(ContainSubstring("[virtward/policy/bare]")))
		})
		eventually(func(g Gomega, ctx context.Context) {
			warnings, err := apply(ctx, build.VMOf(build.VMI("weakened").Architecture("arm64").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
				spec.Domain.Firmware = &kubevirtv1.Firmware{Bootloader: &kubevirtv1.Bootloader{BIOS: &kubevirtv1.BIOS{}}}
			})).Obj())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(warnings).To(ContainElement(ContainSubstring("[virtward/arm64-bios]")))
		})
		eventually(func(g Gomega, ctx context.Context) {
			vm := build.VM("housed").Obj()
			_, err := apply(ctx, vm)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(vm.Spec.Template.Spec.SchedulerName).To(Equal("house"))
		})
		eventually(func(g Gomega, ctx context.Context) {
			_, err := apply(ctx, pointing())
			g.Expect(err).To(MatchError(ContainSubstring("[virtward/arm64-disk-bus]")))
			vm := build.VM("determined").Obj()
			vm.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "e2e.bare"}
			_, err = apply(ctx, vm)
			g.Expect(err).To(determines("e2e.bare"))
		})
		eventually(func(g Gomega, ctx context.Context) {
			vmi := build.VMI("epyc").Obj()
			_, err := apply(ctx, vmi)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(vmi.Spec.Domain.CPU.Model).To(Equal("EPYC"))
		})
		eventually(func(g Gomega, ctx context.Context) {
			vm := golden()
			_, err := apply(ctx, vm)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(vm.Spec.Template.Spec.Architecture).To(Equal("arm64"))
		})
		for _, set := range []client.Object{replicaSet("impossible", impossibly("impossible")), pool("v1beta1", "impossible", impossibly("impossible"))} {
			eventually(func(g Gomega, ctx context.Context) {
				_, err := apply(ctx, set)
				g.Expect(err).To(MatchError(ContainSubstring("[virtward/arm64-disk-bus]")))
			})
		}

		By("defining OpenReports: the controller has audited the VM from before the policy")
		installReports(ctx, bare)
		eventually(func(g Gomega, ctx context.Context) {
			report := &unstructured.Unstructured{}
			report.SetAPIVersion("openreports.io/v1alpha1")
			report.SetKind("Report")
			g.Expect(user.Get(ctx, client.ObjectKey{Namespace: "default", Name: reports.Name}, report)).To(Succeed())
			failed, _, _ := unstructured.NestedInt64(report.Object, "summary", "fail")
			g.Expect(failed).To(BeEquivalentTo(1), "%v", report.Object)
		})
		Expect([]int{webhook.PID(), controller.PID()}).To(Equal(before), "neither process was started again")
	}, NodeTimeout(8*time.Minute))
})
