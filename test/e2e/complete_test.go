package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/leaves"
)

var _ = Describe("A VMI that a user applies", func() {
	It("comes out complete, before KubeVirt's own mutator sees it, and once more after", func(ctx SpecContext) {
		kubevirt.API.Forget()
		vmi := build.Typical("complete").Obj()
		cleanUp(vmi)
		Expect(alice.Create(ctx, vmi)).To(Succeed())

		Expect(vmi.Spec.Architecture).To(Equal("amd64"))
		Expect(vmi.Spec.Domain.Machine.Type).To(Equal("q35"))
		Expect(vmi.Spec.Domain.CPU.Model).To(Equal("host-model"))
		Expect(vmi.Spec.Domain.CPU.Cores).To(BeEquivalentTo(4), "what the user wrote stays")
		Expect(vmi.Spec.Domain.Devices.Disks[0].Disk.Bus).To(BeEquivalentTo("virtio"), "what the user wrote stays")
		Expect(vmi.Spec.Domain.Devices.Disks[1].Disk.Bus).To(BeEquivalentTo("sata"))
		Expect(vmi.Spec.Domain.Memory.MaxGuest.String()).To(Equal("16Gi"))
		Expect(vmi.Spec.Domain.Firmware.UUID).NotTo(BeEmpty(), "KubeVirt draws the identity")
		Expect(vmi.Status.CurrentCPUTopology).NotTo(BeNil())

		By("reading the calls of virt-api's mutator")
		seen := firstSeen("complete")
		Expect(seen.Spec.Domain.Machine).NotTo(BeNil(), "our webhook is called before virt-api's")
		Expect(seen.Spec.Domain.Devices.Disks[1].Disk.Bus).To(BeEquivalentTo("sata"))
		Expect(seen.Status.Memory).NotTo(BeNil())
	})

	It("leaves a trace of the layers in the audit log, and is called again because virt-api replaces the spec", func(ctx SpecContext) {
		vmi := build.VMI("audited").Obj()
		cleanUp(vmi)
		Expect(alice.Create(ctx, vmi)).To(Succeed())
		Eventually(func() map[string]string {
			return auditAnnotations("audited")
		}).Should(And(
			HaveKeyWithValue(webhook+"/layers", "base,amd64,finalize"),
			HaveKeyWithValue(webhook+"/hypervisor", "kvm/amd64"),
			HaveKey(HavePrefix("mutation.webhook.admission.k8s.io/round_1_index_")),
		))
	})

	It("is not completed in kube-system", func(ctx SpecContext) {
		vmi := build.VMI("exempt").Namespace("kube-system").Obj()
		Expect(admin.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
		Expect(vmi.Spec.Domain.CPU).To(BeNil())
	})

	It("of 3 MB is completed and checked too", func(ctx SpecContext) {
		before := failedCalls(ctx)
		kubevirt.API.Forget()
		vmi := build.Typical("large").Obj()
		// An annotation may have 256 KiB; the user data of cloud-init has no bound in the schema, but 2 KiB in KubeVirt.
		vmi.Spec.Volumes[2].VolumeSource = kubevirtv1.VolumeSource{CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{UserData: strings.Repeat("#", 2_900_000)}}
		Expect(causes(alice.Create(ctx, vmi, client.DryRunAll))).To(ConsistOf("spec.volumes[2].cloudInitNoCloud cloudinit-size"))
		Expect(firstSeen("large").Spec.Domain.Machine.Type).To(Equal("q35"))
		Expect(failedCalls(ctx)).To(Equal(before))
	})

	It("that cannot be decoded is rejected by the schema, not by Virtward", func(ctx SpecContext) {
		before := failedCalls(ctx)
		vmi := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
			"metadata": map[string]any{"name": "broken", "namespace": "default"},
			"spec":     map[string]any{"domain": map[string]any{"devices": map[string]any{}, "cpu": map[string]any{"cores": "two"}}},
		}}
		err := alice.Create(ctx, vmi, client.DryRunAll)
		Expect(err).To(MatchError(And(ContainSubstring("spec.domain.cpu.cores"), Not(ContainSubstring(webhook)))))
		Expect(failedCalls(ctx)).To(Equal(before))
	})
})

var _ = Describe("A VM that a user applies", func() {
	BeforeEach(func(ctx SpecContext) {
		instancetype := &instancetypev1beta1.VirtualMachineClusterInstancetype{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e.medium"},
			Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{
				CPU:    instancetypev1beta1.CPUInstancetype{Guest: 2},
				Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse("4Gi")},
			},
		}
		topology := instancetypev1beta1.Cores
		preference := &instancetypev1beta1.VirtualMachineClusterPreference{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e.linux"},
			Spec: instancetypev1beta1.VirtualMachinePreferenceSpec{
				CPU:     &instancetypev1beta1.CPUPreferences{PreferredCPUTopology: &topology},
				Devices: &instancetypev1beta1.DevicePreferences{PreferredDiskBus: kubevirtv1.DiskBusVirtio},
				Machine: &instancetypev1beta1.MachinePreferences{PreferredMachineType: "pc-q35-9.2"},
			},
		}
		for _, object := range []client.Object{instancetype, preference} {
			Expect(admin.Create(ctx, object)).To(Succeed())
			cleanUp(object)
		}
	})

	It("keeps its fields, and its VMI is complete", func(ctx SpecContext) {
		vm := build.VMOf(build.VMI("fedora").Disk("root", "")).Instancetype("e2e.medium").Preference("e2e.linux").
			RunStrategy(kubevirtv1.RunStrategyAlways).Obj()
		cleanUp(vm)
		Eventually(func(g Gomega, ctx context.Context) { // the watches of virtward catch up
			dry := vm.DeepCopy()
			g.Expect(alice.Create(ctx, dry, client.DryRunAll)).To(Succeed())
			g.Expect(dry.Spec.Template.Spec.Domain.Machine).NotTo(BeNil())
			g.Expect(dry.Spec.Template.Spec.Domain.Machine.Type).To(Equal("pc-q35-9.2"))
		}).WithContext(ctx).Should(Succeed())
		Expect(alice.Create(ctx, vm)).To(Succeed())

		spec := vm.Spec.Template.Spec
		Expect(spec.Architecture).To(Equal("amd64"))
		Expect(spec.Domain.Machine.Type).To(Equal("pc-q35-9.2"), "the preference's, persisted as KubeVirt persists it")
		Expect(spec.Domain.CPU).To(BeNil(), "what can be computed is not persisted in a VM")
		Expect(spec.Domain.Devices.Disks[0].Disk.Bus).To(BeEmpty())

		vmi := &kubevirtv1.VirtualMachineInstance{}
		Eventually(func(ctx context.Context) error {
			return alice.Get(ctx, client.ObjectKeyFromObject(vm), vmi)
		}).WithContext(ctx).Should(Succeed())
		Expect(vmi.Spec.Domain.CPU.Cores).To(BeEquivalentTo(2))
		Expect(vmi.Spec.Domain.CPU.Sockets).To(BeEquivalentTo(1))
		Expect(vmi.Spec.Domain.CPU.MaxSockets).To(BeEquivalentTo(4))
		Expect(vmi.Spec.Domain.Devices.Disks[0].Disk.Bus).To(BeEquivalentTo("virtio"))
		Expect(vmi.Spec.Domain.Memory.MaxGuest.String()).To(Equal("16Gi"))
	})

	It("is warned of an instancetype that does not exist, and not rejected", func(ctx SpecContext) {
		warned, warnings := listening("alice")
		Expect(warned.Create(ctx, build.VM("early").Instancetype("later").Obj(), client.DryRunAll)).To(Succeed())
		Expect(warnings.texts).To(ContainElement("spec.instancetype: there is no VirtualMachineClusterInstancetype later; the VM is evaluated without it, and what it determines is checked when the VM starts"))
	})

	It("is not changed when it is updated", func(ctx SpecContext) {
		vm := build.VM("updated").Obj()
		cleanUp(vm)
		Expect(alice.Create(ctx, vm)).To(Succeed())
		Eventually(func(ctx context.Context) error { // virt-controller writes to it too
			if err := alice.Get(ctx, client.ObjectKeyFromObject(vm), vm); err != nil {
				return err
			}
			vm.Spec.Template.Spec.Domain.Machine = nil
			kubevirt.API.Forget()
			return alice.Update(ctx, vm)
		}).WithContext(ctx).Should(Succeed())
		updates := 0
		for _, call := range kubevirt.API.Calls() {
			if call.Webhook != "virtualmachines-mutator.kubevirt.io" || call.Name != "updated" || call.User != "alice" {
				continue
			}
			updates++
			var seen kubevirtv1.VirtualMachine
			Expect(json.Unmarshal(call.Object, &seen)).To(Succeed())
			Expect(seen.Spec.Template.Spec.Domain.Machine).To(BeNil(), "the webhook does not change the update")
		}
		Expect(updates).NotTo(BeZero())
	})
})

var _ = Describe("kubectl virtward explain", func() {
	It("explains a file as the webhook completes it", func(ctx SpecContext) {
		vmi := build.Typical("explained").Obj()
		written, err := json.Marshal(vmi)
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(GinkgoT().TempDir(), "vmi.json")
		Expect(os.WriteFile(file, written, 0o600)).To(Succeed())

		command := exec.CommandContext(ctx, cluster.Binary("kubectl-virtward"), "explain", "--from-cluster", "-f", file, "-o", "json", "--kubeconfig", cluster.Kubeconfig())
		output, err := command.Output()
		Expect(err).NotTo(HaveOccurred())
		var explained struct {
			Effective kubevirtv1.VirtualMachineInstance `json:"effective"`
		}
		Expect(json.Unmarshal(output, &explained)).To(Succeed())

		Expect(alice.Create(ctx, vmi, client.DryRunAll)).To(Succeed())
		vmi.Spec.Domain.Firmware = nil // the identity that KubeVirt draws
		want, err := leaves.Of("spec", vmi.Spec)
		Expect(err).NotTo(HaveOccurred())
		got, err := leaves.Of("spec", explained.Effective.Spec)
		Expect(err).NotTo(HaveOccurred())
		Expect(got).To(Equal(want))
	})
})

// firstSeen is a VMI as it came to virt-api's mutator first.
func firstSeen(name string) (seen kubevirtv1.VirtualMachineInstance) {
	GinkgoHelper()
	for _, call := range kubevirt.API.Calls() {
		if call.Name == name && call.Webhook == "virtualmachineinstances-mutator.kubevirt.io" {
			Expect(json.Unmarshal(call.Object, &seen)).To(Succeed())
			return seen
		}
	}
	Fail("virt-api's mutator was never called for " + name)
	return seen
}

// listening returns a client of a user, and the warnings that it receives.
func listening(user string) (client.Client, *recordedWarnings) {
	GinkgoHelper()
	config, err := cluster.UserConfig(user)
	Expect(err).NotTo(HaveOccurred())
	return listen(config)
}

func listen(config *rest.Config) (client.Client, *recordedWarnings) {
	GinkgoHelper()
	heard := &recordedWarnings{}
	config.WarningHandler = heard
	return clientFor(config), heard
}

type recordedWarnings struct{ texts []string }

func (r *recordedWarnings) HandleWarningHeader(_ int, _ string, text string) {
	r.texts = append(r.texts, text)
}

// auditAnnotations returns those of the request that created an object with a name.
func auditAnnotations(name string) map[string]string {
	GinkgoHelper()
	file, err := os.Open(cluster.AuditLog())
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	found := map[string]string{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var event struct {
			Verb        string
			Stage       string
			ObjectRef   struct{ Resource, Name string }
			Annotations map[string]string
		}
		if json.Unmarshal(lines.Bytes(), &event) == nil && event.Verb == "create" && event.Stage == "ResponseComplete" && event.ObjectRef.Name == name {
			maps.Copy(found, event.Annotations)
		}
	}
	return found
}
