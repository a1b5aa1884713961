package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/test/build"
)

// siteDefaults are VirtualMachineDefaults that are not applied yet, with their spec in YAML.
func siteDefaults(name, spec string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachineDefaults"))
	object.SetName(name)
	var fields map[string]any
	Expect(yaml.Unmarshal([]byte(spec), &fields)).To(Succeed())
	object.Object["spec"] = fields
	return object
}

var _ = Describe("VirtualMachineDefaults", Serial, func() {
	// give applies defaults for the namespace default during the spec, and waits until they are active.
	give := func(ctx context.Context, name, template string, active func(*kubevirtv1.VirtualMachineInstance) bool) *unstructured.Unstructured {
		GinkgoHelper()
		object := siteDefaults(name, `{match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: default}}}, template: `+template+`}`)
		cleanUp(object)
		Expect(admin.Create(ctx, object)).To(Succeed())
		soonAsked(ctx, active)
		return object
	}

	It("are written into a new VM, and those that a VM cannot have into its instance", func(ctx SpecContext) {
		Expect(cluster.EnsureNamespace(ctx, "elsewhere")).To(Succeed())
		give(ctx, "house", `{nodeSelector: {pool: vms}, tolerations: [{key: vms, operator: Exists}], schedulerName: house, terminationGracePeriodSeconds: 45, domain: {cpu: {sockets: 2}, devices: {rng: {}}}}`,
			func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi.Spec.SchedulerName == "house" })

		By("creating a VM, and starting it")
		vm := build.VMOf(build.VMI("housed").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
			spec.TerminationGracePeriodSeconds = new(int64)
		})).RunStrategy(kubevirtv1.RunStrategyHalted).Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		spec := vm.Spec.Template.Spec
		Expect(spec.NodeSelector).To(Equal(map[string]string{"pool": "vms"}))
		Expect(spec.Tolerations).To(HaveLen(1))
		Expect(spec.SchedulerName).To(Equal("house"))
		Expect(*spec.TerminationGracePeriodSeconds).To(BeZero(), "what the author wrote")
		Expect(spec.Domain.CPU.Sockets).To(BeEquivalentTo(2))
		Expect(spec.Domain.CPU.Cores).To(BeZero(), "nothing of the built-in layers is persisted in a VM")

		By("creating a VM with an instancetype that determines its CPUs")
		install(ctx, sized("e2e.housed"))
		other := build.VMOf(build.VMI("sized").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) { spec.Domain.Memory = nil })).Instancetype("e2e.housed").Obj()
		cleanUp(other)
		Eventually(func(g Gomega, ctx context.Context) { // the watches of virtward catch up
			trial := other.DeepCopy()
			g.Expect(alice.Create(ctx, trial, client.DryRunAll)).To(Succeed())
			g.Expect(trial.Spec.Template.Spec.NodeSelector).To(HaveKeyWithValue("pool", "vms"))
		}).WithContext(ctx).Should(Succeed())
		Expect(alice.Create(ctx, other)).To(Succeed())
		Expect(other.Spec.Template.Spec.Domain.CPU).To(BeNil())
		Expect(other.Spec.Template.Spec.SchedulerName).To(BeEmpty(), "an instancetype may say one tomorrow")

		By("creating one in another namespace, without defaults")
		elsewhere := build.VMOf(build.VMI("elsewhere").Namespace("elsewhere")).Obj()
		Expect(admin.Create(ctx, elsewhere, client.DryRunAll)).To(Succeed())
		Expect(elsewhere.Spec.Template.Spec.SchedulerName).To(BeEmpty())

		By("changing the VM, which gets no more defaults")
		Expect(change(ctx, alice, vm, func() {
			vm.Spec.Template.Spec.SchedulerName = ""
			vm.Spec.Template.Spec.NodeSelector = nil
			vm.Spec.RunStrategy = new(kubevirtv1.RunStrategyAlways)
		})).To(Succeed())
		Expect(vm.Spec.Template.Spec.SchedulerName).To(BeEmpty())

		vmi := &kubevirtv1.VirtualMachineInstance{}
		Eventually(func(ctx context.Context) error {
			return alice.Get(ctx, client.ObjectKeyFromObject(vm), vmi)
		}).WithContext(ctx).Should(Succeed())
		Expect(vmi.Spec.SchedulerName).To(Equal("house"))
		Expect(vmi.Spec.NodeSelector).To(BeEmpty(), "its VM has none")
		Expect(vmi.Spec.Tolerations).To(HaveLen(1), "those of its VM")
	}, NodeTimeout(3*time.Minute))

	It("are active a moment after they change, and VMs do not change when they are deleted", func(ctx SpecContext) {
		object := give(ctx, "passing", `{schedulerName: first, tolerations: [{key: vms, operator: Exists}]}`, func(vmi *kubevirtv1.VirtualMachineInstance) bool {
			return vmi.Spec.SchedulerName == "first" && len(vmi.Spec.Tolerations) == 1
		})
		vm := build.VM("kept").Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())

		Expect(unstructured.SetNestedField(object.Object, "second", "spec", "template", "schedulerName")).To(Succeed())
		Expect(admin.Update(ctx, object)).To(Succeed())
		soonAsked(ctx, func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi.Spec.SchedulerName == "second" })
		Expect(admin.Delete(ctx, object)).To(Succeed())
		soonAsked(ctx, func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi.Spec.SchedulerName == "" })

		Expect(alice.Get(ctx, client.ObjectKeyFromObject(vm), vm)).To(Succeed())
		Expect(vm.Spec.Template.Spec.SchedulerName).To(Equal("first"))
	})

	It("are rejected where virtual machines could not live with them", func(ctx SpecContext) {
		rejected := func(spec string) []string {
			GinkgoHelper()
			return causes(admin.Create(ctx, siteDefaults("wrong", spec)))
		}
		Expect(rejected(`{template: {domain: {devices: {rgn: {}}, cpu: {cores: "4"}}}}`)).To(ConsistOf(
			"spec.template.domain.devices.rgn site-defaults", "spec.template.domain.cpu.cores site-defaults"))
		Expect(rejected(`{template: {domain: {firmware: {bootloader: {bios: {}}}}}}`)).To(ConsistOf("spec.template.domain.firmware.bootloader.bios site-defaults"))
		Expect(rejected(`{match: {hypervisors: [xen]}, template: {schedulerName: a}}`)).To(ConsistOf("spec.match.hypervisors[0] site-defaults"))
		Expect(admin.Create(ctx, siteDefaults("wrong", `{template: {domain: {firmware: {bootloader: {bios: {}}}}}}`))).To(MatchError(
			ContainSubstring("the rule arm64-bios rejects a virtual machine that gets this on kvm/arm64")))
		fits := siteDefaults("fits", `{match: {architectures: [amd64]}, template: {domain: {firmware: {bootloader: {bios: {}}}}}}`)
		Expect(admin.Create(ctx, fits, client.DryRunAll)).To(Succeed())
		Expect(admin.Create(ctx, siteDefaults("empty", `{template: {}}`))).To(MatchError(ContainSubstring("spec.template")))
	})

	It("are for those who may create them", func(ctx SpecContext) {
		object := siteDefaults("hers", `{template: {schedulerName: hers}}`)
		Expect(clientOf("erin").Create(ctx, object, client.DryRunAll)).To(MatchError(ContainSubstring(`cannot create resource "virtualmachinedefaults"`)))
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: "site-author"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"policy.virtward.io"}, Resources: []string{"virtualmachinedefaults"}, Verbs: []string{"create"}}},
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "site-author"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "erin"}},
		}
		cleanUp(role)
		cleanUp(binding)
		Expect(admin.Create(ctx, role)).To(Succeed())
		Expect(admin.Create(ctx, binding)).To(Succeed())
		Eventually(func(ctx context.Context) error {
			return clientOf("erin").Create(ctx, object.DeepCopy(), client.DryRunAll)
		}).WithContext(ctx).Should(Succeed())
	})

	It("are in the output of explain with a cluster", func(ctx SpecContext) {
		give(ctx, "shown", `{schedulerName: shown}`, func(vmi *kubevirtv1.VirtualMachineInstance) bool { return vmi.Spec.SchedulerName == "shown" })
		file := filepath.Join(GinkgoT().TempDir(), "vm.yaml")
		Expect(os.WriteFile(file, []byte(`
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {name: explained, namespace: default}
spec:
  runStrategy: Halted
  template: {spec: {domain: {devices: {}, memory: {guest: 1Gi}}}}
`), 0o600)).To(Succeed())
		explain := []string{"virtward", "explain", "-f", file, "--from-cluster", "-o", "table"}
		given := kubectlAsAdmin(ctx, "", explain...)
		Expect(given.code).To(BeZero(), given.errors)
		Expect(given.output).To(MatchRegexp(`schedulerName +shown +site/shown`))

		By("explaining as an owner of VMs, who reads the configuration by the role of readers")
		given = kubectl(ctx, "alice", "", explain...)
		Expect(given.code).To(BeZero(), given.errors)
		Expect(given.output).To(MatchRegexp(`schedulerName +shown +site/shown`))
		Expect(given.output).To(ContainSubstring("warning: you may not list kubevirts.kubevirt.io: KubeVirt's defaults are assumed"))
		Expect(given.output).NotTo(ContainSubstring("note: you may not"))

		By("taking the role away: one note names all that is missing")
		binding := &rbacv1.ClusterRoleBinding{}
		without(ctx, binding, offline.ReaderRole)
		Eventually(func(g Gomega, ctx context.Context) {
			given := kubectl(ctx, "alice", "", explain...)
			g.Expect(given.code).To(BeZero(), given.errors)
			g.Expect(strings.Count(given.output+given.errors, "note: ")).To(Equal(1), given.output)
			g.Expect(given.output).To(ContainSubstring("note: RuleSettings, VirtualMachineDefaults, VirtualMachinePolicy of the cluster are not considered: you may not list them"))
			g.Expect(given.output).NotTo(ContainSubstring("site/shown"))
		}).WithContext(ctx).Should(Succeed())
	})
})

// soonAsked waits until a new VMI of the namespace default gets, or does not get, some defaults.
func soonAsked(ctx context.Context, as func(*kubevirtv1.VirtualMachineInstance) bool) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		vmi := build.VMI("asking").Obj()
		g.Expect(alice.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
		g.Expect(as(vmi)).To(BeTrue())
	}).WithContext(ctx).Should(Succeed())
}
