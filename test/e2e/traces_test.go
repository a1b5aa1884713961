package e2e

import (
	"encoding/json"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
)

var _ = Describe("A rejection", func() {
	It("writes its rules to the audit log, and one line without values of the object to Virtward's log", func(ctx SpecContext) {
		vmi := impossibly("traced").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
			spec.Volumes = append(spec.Volumes, kubevirtv1.Volume{Name: "cloudinit", VolumeSource: kubevirtv1.VolumeSource{
				CloudInitNoCloud: &kubevirtv1.CloudInitNoCloudSource{UserData: userData},
			}})
			spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, kubevirtv1.Disk{Name: "cloudinit", DiskDevice: kubevirtv1.DiskDevice{
				Disk: &kubevirtv1.DiskTarget{Bus: kubevirtv1.DiskBusVirtio},
			}})
		}).Obj()
		Expect(causes(alice.Create(ctx, vmi))).To(HaveLen(2))

		Eventually(func() map[string]string { return auditAnnotations("traced") }).Should(
			HaveKeyWithValue(machineCheck+"/findings", "arm64-bios,arm64-disk-bus"))
		log, err := os.ReadFile(virtward.Log())
		Expect(err).NotTo(HaveOccurred())
		var entries []map[string]any
		for line := range strings.Lines(string(log)) {
			if entry := map[string]any{}; strings.Contains(line, `"traced"`) && json.Unmarshal([]byte(line), &entry) == nil {
				delete(entry, "time")
				entries = append(entries, entry)
			}
		}
		Expect(entries).To(ConsistOf(map[string]any{
			"level": "INFO", "logger": "validate", "msg": "denied",
			"kind": "VirtualMachineInstance", "namespace": "default", "name": "traced", "operation": "CREATE", "user": "alice",
			"rules": "arm64-bios,arm64-disk-bus",
		}))
		Expect(strings.Contains(string(log), userData)).To(BeFalse(), "the log has the user data")
	})
})

var _ = Describe("A VM with liveUpdateFeatures", func() {
	It("loses them by the schema, with a warning on request, and is not rejected for them", func(ctx SpecContext) {
		content, err := json.Marshal(build.VM("once-live").Obj())
		Expect(err).NotTo(HaveOccurred())
		vm := &unstructured.Unstructured{}
		Expect(json.Unmarshal(content, &vm.Object)).To(Succeed())
		Expect(unstructured.SetNestedField(vm.Object, map[string]any{"cpu": map[string]any{}}, "spec", "liveUpdateFeatures")).To(Succeed())

		strict := client.WithFieldValidation(alice, "Strict")
		Expect(strict.Create(ctx, vm.DeepCopy(), client.DryRunAll)).To(MatchError(And(
			ContainSubstring(`unknown field "spec.liveUpdateFeatures"`), Not(ContainSubstring("virtward")))))

		user, heard := listening("alice")
		Expect(client.WithFieldValidation(user, "Ignore").Create(ctx, vm, client.DryRunAll)).To(Succeed())
		Expect(heard.texts).To(BeEmpty())
		Expect(vm.Object["spec"]).NotTo(HaveKey("liveUpdateFeatures"))
	})
})
