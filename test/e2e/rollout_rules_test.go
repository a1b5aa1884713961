package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cases "github.com/virtward/virtward/conformance/rollouts"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/rollouts"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/simulators"
	"github.com/virtward/virtward/test/simulators/liveupdates"
)

// owner is the user who changes VMs, with the permissions that docs/rollouts.md names.
const owner = "rowan"

var _ = Describe("A change of a running VM", func() {
	It("has a row for each rule of the page", func() {
		page, err := os.ReadFile("../../docs/rollouts.md")
		Expect(err).NotTo(HaveOccurred())
		_, table, _ := strings.Cut(string(page), "| You change |")
		table, _, _ = strings.Cut(table, "<!-- End of the generated table. -->")
		covered := []string{
			"volume-request",                   // it has a spec of its own
			"failure", "instancetype-conflict", // Virtward denies such a VM, and the recorded cases have them
		}
		for i := range rolloutRows {
			covered = append(covered, rolloutRows[i].rule)
		}
		slices.Sort(covered)
		var documented []string
		for _, found := range regexp.MustCompile("(?m)\\| `([a-z-]+)` \\|$").FindAllStringSubmatch(table, -1) {
			documented = append(documented, found[1])
		}
		slices.Sort(documented)
		Expect(len(documented)).To(BeNumerically(">", 20))
		Expect(slices.Compact(covered)).To(Equal(documented))
	})

	Context("takes effect as the warning, the plan and KubeVirt say", Ordered, ContinueOnFailure, Serial, func() {
		BeforeAll(prepareOwner)
		for i := range rolloutRows {
			row := &rolloutRows[i]
			first := i == 0 || rolloutRows[i-1].rule != row.rule
			It(fmt.Sprintf("%s: %s", row.rule, row.what), func(ctx SpecContext) {
				if !first && i%3 != 0 {
					leaveToSoak()
				}
				row.check(ctx, fmt.Sprintf("row-%02d", i))
			}, NodeTimeout(3*time.Minute))
		}
		It("volume-request: a volume of virtctl addvolume", volumeRequest, NodeTimeout(3*time.Minute))
		It("waits for a restart under the strategy Stage", underStage, NodeTimeout(3*time.Minute))
		It("waits for a restart while the feature gate of hotplugged volumes is closed", withGatesClosed, NodeTimeout(3*time.Minute))
		It("reaches the guest with the migration that KubeVirt starts", migratedByKubeVirt, NodeTimeout(3*time.Minute))
		It("shuts the guest down if KubeVirt evicts it", evictedByKubeVirt, NodeTimeout(3*time.Minute))
	})
})

// volumeRequest plans a request that KubeVirt has not executed yet, and compares with the result.
func volumeRequest(ctx SpecContext) {
	vm := runningVM("row-request")
	annotated(simulators.HoldVolumeRequests, "")(vm)
	cleanUp(vm)
	apply(ctx, vm)
	awaitRunning(ctx, vm)
	live := &kubevirtv1.VirtualMachine{}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), live)).To(Succeed())
	base := live.DeepCopy()
	claim := &kubevirtv1.PersistentVolumeClaimVolumeSource{Hotpluggable: true}
	claim.ClaimName = "row-hot"
	live.Status.VolumeRequests = []kubevirtv1.VirtualMachineVolumeRequest{{AddVolumeOptions: &kubevirtv1.AddVolumeOptions{
		Name: "data", Disk: &kubevirtv1.Disk{DiskDevice: kubevirtv1.DiskDevice{Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusSCSI}}},
		VolumeSource: &kubevirtv1.HotplugVolumeSource{PersistentVolumeClaim: claim},
	}}}
	Expect(admin.Status().Patch(ctx, live, client.MergeFrom(base))).To(Succeed())
	planned := planOf(ctx, "", "vm/"+vm.Name)
	Expect(planned.Changes).To(ContainElement(And(HaveField("Rule", "volume-request"), HaveField("Takes", rollouts.Live), HaveField("Field", inSpec+"volumes[data]"))))

	Expect(change(ctx, admin, live, func() { live.Annotations = nil })).To(Succeed())
	awaitPlanned(ctx, vm, func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		return slices.ContainsFunc(vmi.Status.VolumeStatus, func(s kubevirtv1.VolumeStatus) bool { return s.Name == "data" && s.HotplugVolume != nil })
	})
}

// awaitPlanned waits until an instance is as expected, and nothing is pending.
func awaitPlanned(ctx context.Context, vm *kubevirtv1.VirtualMachine, reached func(*kubevirtv1.VirtualMachineInstance) bool) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		vmi := &kubevirtv1.VirtualMachineInstance{}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), vmi)).To(Succeed())
		live := &kubevirtv1.VirtualMachine{}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), live)).To(Succeed())
		g.Expect(reached(vmi)).To(BeTrue(), "the VM has %+v, the instance %+v", live.Status, vmi.Status)
	}).WithContext(ctx).Should(Succeed())
	Eventually(func(ctx context.Context) []rollouts.Change { return planOf(ctx, "", "vm/"+vm.Name).Changes }).WithContext(ctx).Should(BeEmpty())
}

// configureRollouts sets the rollout strategy and the methods of the workload updater until the end of the spec.
func configureRollouts(ctx context.Context, strategy kubevirtv1.VMRolloutStrategy, methods ...any) {
	GinkgoHelper()
	set := func(ctx context.Context, model string, configuration map[string]any, methods []any) {
		GinkgoHelper()
		kv := kubeVirt(ctx)
		if len(methods) == 0 {
			unstructured.RemoveNestedField(kv.Object, "spec", "workloadUpdateStrategy")
		} else {
			Expect(unstructured.SetNestedSlice(kv.Object, methods, "spec", "workloadUpdateStrategy", "workloadUpdateMethods")).To(Succeed())
		}
		Expect(admin.Update(ctx, kv)).To(Succeed())
		configure(ctx, configuration, platform.KVM)
		eventuallyModel(ctx, model)
	}
	DeferCleanup(func(ctx SpecContext) { set(ctx, "host-model", nil, nil) }, NodeTimeout(3*time.Minute))
	set(ctx, "Haswell", map[string]any{"cpuModel": "Haswell", "vmRolloutStrategy": string(strategy)}, methods)
}

func underStage(ctx SpecContext) {
	configureRollouts(ctx, kubevirtv1.VMRolloutStrategyStage)
	vm := runningVM("row-stage")
	cleanUp(vm)
	apply(ctx, vm)
	awaitRunning(ctx, vm)
	both(withSockets(4), withGuest("4Gi"), networked(bridge))(vm)
	planned := planOf(ctx, manifestOf(vm), "-f", "-")
	Expect(planned.Fields(rollouts.Restart)).To(ConsistOf(sockets, guest))
	Expect(planned.Fields(rollouts.LiveOnMigration)).To(ConsistOf(inSpec+"domain.devices.interfaces[blue]", inSpec+"networks[blue]"))
	Expect(apply(ctx, vm)).To(HaveExactElements(HavePrefix("The rollout strategy of the cluster is Stage. These changes take effect when the VM restarts: " + sockets + ", " + guest + ", ")))
	Eventually(func(ctx context.Context) error { return agrees(ctx, vm, planned) }).WithContext(ctx).Should(Succeed())
}

// withGatesClosed plans hotpluggable volumes in a cluster that ignores them: by its own gate, or by the one of virtctl.
func withGatesClosed(ctx SpecContext) {
	for model, configuration := range map[string]map[string]any{
		"Haswell":   {"disabledFeatureGates": []any{"DeclarativeHotplugVolumes"}},
		"Broadwell": {"featureGates": []any{"HotplugVolumes"}},
	} {
		DeferCleanup(func(ctx SpecContext) {
			configure(ctx, nil, platform.KVM)
			eventuallyModel(ctx, "host-model")
		}, NodeTimeout(3*time.Minute))
		configure(ctx, map[string]any{"cpuModel": model, "developerConfiguration": configuration}, platform.KVM)
		eventuallyModel(ctx, model)
		vm := runningVM("row-gate-" + strings.ToLower(model))
		cleanUp(vm)
		apply(ctx, vm)
		awaitRunning(ctx, vm)
		claimed("row-hot", true, kubevirtv1.DiskBusSCSI)(vm)
		planned := planOf(ctx, manifestOf(vm), "-f", "-")
		Expect(planned.Fields(rollouts.Restart)).To(ConsistOf(inSpec+"domain.devices.disks[data]", inSpec+"volumes[data]"))
		Expect(apply(ctx, vm)).To(ContainElement(ContainSubstring("The feature gate DeclarativeHotplugVolumes of the cluster is off, or HotplugVolumes is on")))
		Eventually(func(ctx context.Context) error { return agrees(ctx, vm, planned) }).WithContext(ctx).Should(Succeed())
	}
}

func migratedByKubeVirt(ctx SpecContext) {
	configureRollouts(ctx, kubevirtv1.VMRolloutStrategyLiveUpdate, "LiveMigrate")
	vm := runningVM("row-migrates")
	cleanUp(vm)
	apply(ctx, vm)
	awaitRunning(ctx, vm)
	for _, step := range []struct {
		change edit
		field  string
	}{{withSockets(4), sockets}, {withGuest("4Gi"), guest}, {networked(bridge), inSpec + "domain.devices.interfaces[blue]"}} {
		step.change(vm)
		planned := planOf(ctx, manifestOf(vm), "-f", "-")
		Expect(planned.Changes).To(ContainElement(And(HaveField("Field", step.field), HaveField("Takes", rollouts.LiveOnMigration),
			HaveField("Reason", "KubeVirt migrates the VM, and the guest gets the change with the migration."))))
		apply(ctx, vm)
		awaitPlanned(ctx, vm, func(vmi *kubevirtv1.VirtualMachineInstance) bool {
			state := vmi.Status.MigrationState
			return patchesAgree(vm, vmi, planned) == nil && !liveupdates.Waits(vmi) && state != nil && state.Completed
		})
	}
	list := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	Expect(admin.List(ctx, list, client.MatchingLabels{kubevirtv1.MigrationSelectorLabel: vm.Name})).To(Succeed())
	Expect(list.Items).To(HaveLen(3))
}

func evictedByKubeVirt(ctx SpecContext) {
	configureRollouts(ctx, kubevirtv1.VMRolloutStrategyLiveUpdate, "Evict")
	vm := runningVM("row-evicted")
	spec(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
		s.EvictionStrategy = new(kubevirtv1.EvictionStrategyNone)
	})(vm)
	cleanUp(vm)
	apply(ctx, vm)
	awaitRunning(ctx, vm)
	before := &kubevirtv1.VirtualMachineInstance{}
	Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), before)).To(Succeed())
	withSockets(4)(vm)
	Expect(apply(ctx, vm)).To(ContainElement(ContainSubstring(sockets + ": takes effect when the VM restarts. KubeVirt evicts the VM to apply the change: the guest is shut down.")))
	awaitPlanned(ctx, vm, func(vmi *kubevirtv1.VirtualMachineInstance) bool {
		return vmi.UID != before.UID && vmi.Status.Phase == kubevirtv1.Running && vmi.Spec.Domain.CPU.Sockets == 4
	})
}

// prepareOwner grants the permissions of an owner, and creates an instancetype.
func prepareOwner(ctx SpecContext) {
	grantVirtualMachines(ctx, owner)
	reads := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "rollout-rows"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"get"}},
		{APIGroups: []string{"cdi.kubevirt.io"}, Resources: []string{"datavolumes"}, Verbs: []string{"get"}},
		{APIGroups: []string{"kubevirt.io"}, Resources: []string{"kubevirts"}, Verbs: []string{"list", "get"}},
		{APIGroups: []string{"instancetype.kubevirt.io"}, Resources: []string{"*"}, Verbs: []string{"get"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: reads.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: reads.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: owner}},
	}
	instancetype := &instancetypev1beta1.VirtualMachineClusterInstancetype{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e.rows"},
		Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
			CPU: instancetypev1beta1.CPUInstancetype{Guest: 2}, Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("2Gi")},
		},
	}
	for _, object := range []client.Object{reads, binding, instancetype} {
		Expect(admin.Create(ctx, object)).To(Succeed())
		cleanUp(object)
	}
}

// runningVM is the VM of a row: two sockets, 2 GiB, a disk and the pod network.
func runningVM(name string) *kubevirtv1.VirtualMachine {
	return build.VMOf(build.VMI(name).Memory("2Gi").Topology(2, 1, 1).Disk("root", kubevirtv1.DiskBusVirtio).Interface("default", "").
		With(func(s *kubevirtv1.VirtualMachineInstanceSpec) {
			s.Domain.Firmware = &kubevirtv1.Firmware{UUID: "11111111-2222-4333-8444-555555555555"}
		})).RunStrategy(kubevirtv1.RunStrategyAlways).Obj()
}

// check starts a VM, plans its change, applies it as its owner, and compares the warning and the plan with what KubeVirt does.
func (row *rolloutRow) check(ctx context.Context, name string) {
	GinkgoHelper()
	vm := runningVM(name)
	field, warning := strings.ReplaceAll(row.field, "NAME", name), strings.ReplaceAll(row.warning, "NAME", name)
	if row.before != nil {
		row.before(vm)
	}
	cleanUp(vm)
	apply(ctx, vm)
	if *vm.Spec.RunStrategy == kubevirtv1.RunStrategyAlways {
		awaitRunning(ctx, vm)
	}
	if row.prepare != nil {
		row.prepare(ctx, vm)
	}
	row.change(vm)

	By("planning")
	planned := planOf(ctx, manifestOf(vm), "-f", "-")
	k := slices.IndexFunc(planned.Changes, func(c rollouts.Change) bool { return c.Field == field })
	Expect(k).To(BeNumerically(">=", 0), "%+v", planned.Changes)
	Expect(planned.Changes[k].Rule).To(Equal(row.rule))
	Expect(planned.Changes[k].Takes).To(Equal(row.takes), planned.Changes[k].Reason)

	By("applying")
	warned := apply(ctx, vm)
	if warning == "" {
		Expect(warned).To(BeEmpty())
	} else {
		Expect(warned).To(ContainElement(ContainSubstring(warning)))
	}

	By("comparing with what KubeVirt does")
	Eventually(func(ctx context.Context) error { return agrees(ctx, vm, planned) }).WithContext(ctx).Should(Succeed())
}

// apply applies a VM as its owner, and returns the warnings.
func apply(ctx context.Context, vm *kubevirtv1.VirtualMachine) []string {
	GinkgoHelper()
	answer := kubectl(ctx, owner, manifestOf(vm), "apply", "-f", "-")
	Expect(answer.code).To(Equal(0), answer.errors)
	var warned []string
	for line := range strings.Lines(answer.errors) {
		if warning, ok := strings.CutPrefix(strings.TrimSpace(line), "Warning: "); ok {
			warned = append(warned, warning)
		}
	}
	return warned
}

func manifestOf(vm *kubevirtv1.VirtualMachine) string {
	GinkgoHelper()
	object := asUnstructured(vm)
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	return asJSON(object.Object)
}

// planned is the output of kubectl virtward rollout plan.
type planned struct {
	rollouts.Result `json:",inline"`

	Running bool     `json:"running"`
	Notes   []string `json:"notes"`
}

func planOf(ctx context.Context, manifest string, args ...string) *planned {
	GinkgoHelper()
	answer := kubectl(ctx, owner, manifest, append([]string{"virtward", "rollout", "plan", "-o", "json"}, args...)...)
	Expect(answer.code).To(Equal(0), answer.errors)
	var output struct {
		Plans []planned `json:"plans"`
	}
	Expect(json.Unmarshal([]byte(answer.output), &output)).To(Succeed(), answer.output)
	Expect(output.Plans).To(HaveLen(1))
	return &output.Plans[0]
}

func awaitRunning(ctx context.Context, vm *kubevirtv1.VirtualMachine) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		vmi, live := &kubevirtv1.VirtualMachineInstance{}, &kubevirtv1.VirtualMachine{}
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), vmi)).To(Succeed())
		g.Expect(vmi.Status.Phase).To(Equal(kubevirtv1.Running))
		g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(vm), live)).To(Succeed())
		g.Expect(live.Status.Ready).To(BeTrue())
	}).WithContext(ctx).Should(Succeed())
}

// agrees compares a plan with the VM and its instance after KubeVirt's controllers have seen the change.
func agrees(ctx context.Context, applied *kubevirtv1.VirtualMachine, p *planned) error {
	vm, vmi := &kubevirtv1.VirtualMachine{}, &kubevirtv1.VirtualMachineInstance{}
	key := client.ObjectKeyFromObject(applied)
	if err := admin.Get(ctx, key, vm); err != nil {
		return err
	}
	if vm.Status.DesiredGeneration != vm.Generation {
		return errors.New("virt-controller has not seen the change")
	}
	restart, failure := messageOf(vm, kubevirtv1.VirtualMachineRestartRequired), messageOf(vm, kubevirtv1.VirtualMachineFailure)
	if got := rollouts.ReasonOf(restart); restart == "" && p.RestartRequired != "" || restart != "" && got != p.RestartRequired {
		return fmt.Errorf("RestartRequired: KubeVirt %q, the plan %q", restart, p.RestartRequired)
	}
	if (failure == "") != (p.Failure == "") {
		return fmt.Errorf("failure: KubeVirt %q, the plan %q", failure, p.Failure)
	}
	if !p.Running {
		return client.IgnoreNotFound(admin.Get(ctx, key, vmi))
	}
	if err := admin.Get(ctx, key, vmi); err != nil {
		return err
	}
	announced := slices.ContainsFunc(p.Changes, func(c rollouts.Change) bool { return c.Announced == rollouts.ByCondition })
	waits := slices.ContainsFunc(vmi.Status.Conditions, func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
		return c.Type == kubevirtv1.VirtualMachineInstanceVolumesChange && c.Status == corev1.ConditionFalse
	})
	if waits = waits || liveupdates.Waits(vmi); waits != announced && p.Failure == "" { // an earlier change may wait
		return fmt.Errorf("the plan announces a condition: %t; the instance has %+v", announced, vmi.Status.Conditions)
	}
	return patchesAgree(applied, vmi, p)
}

// patchesAgree reports whether the instance has the values that the plan says KubeVirt writes, and no others.
func patchesAgree(applied *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance, p *planned) error {
	wanted, running := asUnstructured(applied).Object, asUnstructured(vmi).Object
	for i := range p.Changes {
		c := &p.Changes[i]
		steps := fieldpath.Split(c.Field)
		if len(steps) < 4 || steps[1] != "template" || c.Rule == "interface-state" || c.Rule == "explicit-default" || c.Rule == "device-order" {
			continue // not a field of the instance, or one that KubeVirt removes from both afterwards
		}
		wants, set := cases.ValueAt(wanted, steps)
		runs, has := cases.ValueAt(running, steps[2:])
		same := set == has && (!set || asJSON(wants) == asJSON(runs))
		if same != c.Patched {
			return fmt.Errorf("%s: patched %t; the VM has %v, the instance %v", c.Field, c.Patched, wants, runs)
		}
	}
	return nil
}

func messageOf(vm *kubevirtv1.VirtualMachine, kind kubevirtv1.VirtualMachineConditionType) string {
	for i := range vm.Status.Conditions {
		if vm.Status.Conditions[i].Type == kind {
			return vm.Status.Conditions[i].Message
		}
	}
	return ""
}

// applying changes a VM before the change of a row, and waits.
func applying(change edit, wait func(*kubevirtv1.VirtualMachineInstance) bool) func(context.Context, *kubevirtv1.VirtualMachine) {
	return func(ctx context.Context, vm *kubevirtv1.VirtualMachine) {
		GinkgoHelper()
		change(vm)
		apply(ctx, vm)
		Eventually(func(ctx context.Context) bool {
			vmi := &kubevirtv1.VirtualMachineInstance{}
			return admin.Get(ctx, client.ObjectKeyFromObject(vm), vmi) == nil && wait(vmi)
		}).WithContext(ctx).Should(BeTrue())
	}
}

func pendingSockets(vmi *kubevirtv1.VirtualMachineInstance) bool { return liveupdates.Waits(vmi) }

// cleanUpClaim deletes a claim, whose finalizer nothing removes in the sandbox.
func cleanUpClaim(claim *corev1.PersistentVolumeClaim) {
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(admin.Delete(ctx, claim))).To(Succeed())
		Eventually(func(ctx context.Context) error {
			if err := admin.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
				return client.IgnoreNotFound(err)
			}
			claim.Finalizers = nil
			if err := admin.Update(ctx, claim); client.IgnoreNotFound(err) != nil {
				return err
			}
			return errors.New("it exists")
		}).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(3*time.Minute))
}
