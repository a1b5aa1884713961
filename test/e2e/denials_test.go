package e2e

import (
	"context"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
)

// written is a VM for arm64 with typical settings of amd64.
const written = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: written
  namespace: default
spec:
  runStrategy: Halted
  template:
    spec:
      architecture: arm64
      domain:
        memory: {guest: 1Gi}
        firmware: {bootloader: {bios: {}}}
        devices:
          disks:
            - {name: root, disk: {bus: sata}}
      volumes:
        - {name: root, containerDisk: {image: "quay.io/containerdisks/fedora:41"}}
`

// chosen is one that leaves both to its preference, and its CPUs to its instancetype.
const chosen = `
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: written
  namespace: default
spec:
  runStrategy: Halted
  instancetype: {name: e2e.pinned}
  preference: {name: e2e.desktop}
  template:
    spec:
      architecture: arm64
      domain:
        devices:
          disks:
            - {name: root, disk: {}}
      volumes:
        - {name: root, containerDisk: {image: "quay.io/containerdisks/fedora:41"}}
`

// The fields of the errors of an impossible VMI.
const (
	diskBus = "spec.domain.devices.disks[0].disk.bus"
	bios    = "spec.domain.firmware.bootloader.bios"
)

// impossible is a VMI for arm64 with a BIOS and a disk on SATA, which arm64 has not.
func impossible(name string) *kubevirtv1.VirtualMachineInstance { return impossibly(name).Obj() }

func impossibly(name string) *build.VMIBuilder {
	return build.VMI(name).Architecture("arm64").Disk("root", kubevirtv1.DiskBusSATA).With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
		spec.Domain.Firmware = &kubevirtv1.Firmware{Bootloader: &kubevirtv1.Bootloader{BIOS: &kubevirtv1.BIOS{}}}
	})
}

// The ways to apply an object. None of them stores a rejected object.
var ways = []TableEntry{
	Entry("as it is"),
	Entry("on a dry run", "--dry-run=server"),
	Entry("on the server's side", "--server-side"),
}

var _ = Describe("kubectl apply of a VM that could never run", func() {
	AfterEach(func(ctx SpecContext) {
		err := admin.Get(ctx, client.ObjectKey{Namespace: "default", Name: "written"}, &kubevirtv1.VirtualMachine{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "it is stored: %v", err)
	})

	DescribeTable("prints every cause with its field and its rule", func(ctx SpecContext, flags ...string) {
		got := kubectl(ctx, "alice", written, append([]string{"apply", "--filename=-"}, flags...)...)
		Expect(got.code).To(Equal(1))
		Expect(got.output).To(BeEmpty())
		Expect(lines(got.errors)).To(HaveExactElements(
			`The VirtualMachine "written" is invalid: `,
			MatchRegexp(`^\* spec\.template\.spec\.domain\.devices\.disks\[0\]\.disk\.bus: Unsupported value: "sata": .*virtio or scsi.* \[virtward/arm64-disk-bus\] .+$`),
			MatchRegexp(`^\* spec\.template\.spec\.domain\.firmware\.bootloader\.bios: Unsupported value: .*EFI.* \[virtward/arm64-bios\] .+$`),
		))
	}, ways)

	DescribeTable("names the preference or instancetype that a cause lies in, and its field", func(ctx SpecContext, flags ...string) {
		machine := preferring("e2e.desktop", "")
		machine.Spec.Machine = nil
		machine.Spec.Devices = &instancetypev1beta1.DevicePreferences{PreferredDiskBus: kubevirtv1.DiskBusSATA}
		machine.Spec.Firmware = &instancetypev1beta1.FirmwarePreferences{PreferredUseBios: new(true)}
		pinned := sized("e2e.pinned")
		pinned.Spec.CPU.IsolateEmulatorThread = new(true)
		install(ctx, machine, pinned)
		Eventually(func(g Gomega, ctx context.Context) { // the watches of virtward catch up
			got := kubectl(ctx, "alice", chosen, append([]string{"apply", "--filename=-"}, flags...)...)
			g.Expect(got.code).To(Equal(1))
			g.Expect(lines(got.errors)).To(HaveExactElements(
				`The VirtualMachine "written" is invalid: `,
				MatchRegexp(`^\* spec\.instancetype\.name: .*\(VirtualMachineClusterInstancetype e2e\.pinned sets domain\.cpu\.isolateEmulatorThread by its spec\.cpu\.isolateEmulatorThread\) \[virtward/cpu-isolated-emulator-dedicated\] `),
				MatchRegexp(`^\* spec\.preference\.name: .*\(VirtualMachineClusterPreference e2e\.desktop sets domain\.firmware\.bootloader\.bios by its spec\.firmware\.preferredUseBios\) \[virtward/arm64-bios\] `),
				MatchRegexp(`^\* spec\.preference\.name: .*"sata".*\(VirtualMachineClusterPreference e2e\.desktop sets domain\.devices\.disks\[0\]\.disk\.bus by its spec\.devices\.preferredDiskBus\) \[virtward/arm64-disk-bus\] `),
			))
		}).WithContext(ctx).Should(Succeed())
	}, ways)
})

var _ = Describe("A VM with very many faults", func() {
	It("gets fifty causes, and the number of the others", func(ctx SpecContext) {
		vm := build.VMOf(many(70)).Obj()
		err := alice.Create(ctx, vm)
		details := detailed(err)
		Expect(details).To(HaveLen(50))
		for _, cause := range details {
			Expect(cause.Type).To(Equal(metav1.CauseTypeFieldValueNotSupported))
			Expect(cause.Field).To(MatchRegexp(`^spec\.template\.spec\.domain\.devices\.disks\[\d+\]\.disk\.bus$`))
		}
		Expect(details[49].Message).To(HaveSuffix("(and 20 more findings, which kubectl virtward explain shows)"))
	})
})

func lines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

func many(disks int) *build.VMIBuilder {
	vmi := build.VMI("very-many").Architecture("arm64")
	for i := range disks {
		vmi.Disk("disk-"+string(rune('a'+i/26))+string(rune('a'+i%26)), kubevirtv1.DiskBusSATA)
	}
	return vmi
}

var _ = Describe("The examples", func() {
	It("are admitted, with warnings only about missing objects", func(ctx SpecContext) {
		// The KubeVirt resources among them are for clusters of their own.
		got := kubectlAsAdmin(ctx, "", "apply", "--dry-run=server", "--filename="+filepath.Join("..", "..", "examples"), "--filename="+filepath.Join("..", "..", "examples", "policy"))
		Expect(got.code).To(BeZero(), got.errors)
		Expect(got.output).To(MatchRegexp(`(?m)^virtualmachine\.kubevirt\.io/.* \(server dry run\)$`))
		for _, line := range lines(got.errors) {
			Expect(line).To(Or(BeEmpty(), MatchRegexp(`^Warning: spec\.(instancetype|preference): there is no VirtualMachineCluster.*; the VM is evaluated without it, and what it determines is checked when the VM starts$`)))
		}
	})
})
