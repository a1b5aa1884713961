package effective

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/provenance"
)

// RuntimeLayer is the layer of values that KubeVirt uses at run time for fields that stay empty in the instance. Only
// policies see them: they are never stored.
const RuntimeLayer = "kubevirt"

// RuntimeDefault is a field for which KubeVirt has a value at run time, although it stays empty in the instance.
type RuntimeDefault struct {
	// Path is the field in the spec of an instance; [*] is each element.
	Path string
	// Value and Source are for the documentation: the value, and the part of KubeVirt that uses it.
	Value, Source string

	// always reports whether each complete spec has the field.
	always bool
	fill   func(*runtimeSpec)
}

// runtimeSpec is the spec that is filled.
type runtimeSpec struct {
	*v1.VirtualMachineInstanceSpec
	*provenance.Recorder

	// name is that of the instance; empty if it is not known.
	name string
}

const (
	fromLauncher   = "virt-launcher: domain converter"
	fromController = "virt-controller: pod template"
)

// RuntimeDefaults returns the table of these fields.
func RuntimeDefaults() []RuntimeDefault {
	devices := func(name string, value bool, of func(*v1.Devices) **bool) RuntimeDefault {
		path := "domain.devices." + name
		return RuntimeDefault{path, strconv.FormatBool(value), fromLauncher, true, func(r *runtimeSpec) {
			provenance.FillPointer(r.Recorder, path, of(&r.Domain.Devices), value)
		}}
	}
	cpu := func(name string, of func(*v1.CPU) *uint32) RuntimeDefault {
		path := "domain.cpu." + name
		return RuntimeDefault{path, "1", fromLauncher, true, func(r *runtimeSpec) { provenance.Fill(r.Recorder, path, of(r.cpu()), 1) }}
	}
	return []RuntimeDefault{
		cpu("cores", func(c *v1.CPU) *uint32 { return &c.Cores }),
		cpu("sockets", func(c *v1.CPU) *uint32 { return &c.Sockets }),
		cpu("threads", func(c *v1.CPU) *uint32 { return &c.Threads }),
		{"domain.firmware.bootloader", "bios: {}, on amd64", fromLauncher, false, bootloader},
		{"domain.firmware.bootloader.efi.secureBoot", "true", fromLauncher, false, efi("secureBoot", func(e *v1.EFI) **bool { return &e.SecureBoot }, true)},
		{"domain.firmware.bootloader.efi.persistent", "false", fromLauncher, false, efi("persistent", func(e *v1.EFI) **bool { return &e.Persistent }, false)},
		devices("autoattachPodInterface", true, func(d *v1.Devices) **bool { return &d.AutoattachPodInterface }),
		devices("autoattachGraphicsDevice", true, func(d *v1.Devices) **bool { return &d.AutoattachGraphicsDevice }),
		devices("autoattachSerialConsole", true, func(d *v1.Devices) **bool { return &d.AutoattachSerialConsole }),
		devices("autoattachMemBalloon", true, func(d *v1.Devices) **bool { return &d.AutoattachMemBalloon }),
		devices("autoattachInputDevice", false, func(d *v1.Devices) **bool { return &d.AutoattachInputDevice }),
		devices("autoattachVSOCK", false, func(d *v1.Devices) **bool { return &d.AutoattachVSOCK }),
		devices("networkInterfaceMultiqueue", false, func(d *v1.Devices) **bool { return &d.NetworkInterfaceMultiQueue }),
		devices("blockMultiQueue", false, func(d *v1.Devices) **bool { return &d.BlockMultiQueue }),
		devices("useVirtioTransitional", false, func(d *v1.Devices) **bool { return &d.UseVirtioTransitional }),
		{"domain.devices.disks[*].dedicatedIOThread", "false", fromLauncher, false, disks("dedicatedIOThread", func(d *v1.Disk) **bool { return &d.DedicatedIOThread })},
		{"domain.devices.disks[*].shareable", "false", fromLauncher, false, disks("shareable", func(d *v1.Disk) **bool { return &d.Shareable })},
		{"domain.devices.interfaces[*].model", "virtio, unless the binding has its own device", fromLauncher, false, interfaceModels},
		{"domain.devices.interfaces[*].state", "up", fromLauncher, false, interfaceStates},
		{"domain.devices.tpm.enabled", "true", fromLauncher, false, tpm("enabled", func(t *v1.TPMDevice) **bool { return &t.Enabled }, true)},
		{"domain.devices.tpm.persistent", "false", fromLauncher, false, tpm("persistent", func(t *v1.TPMDevice) **bool { return &t.Persistent }, false)},
		{"domain.devices.video.type", "bochs with EFI on amd64, vga with a BIOS, virtio on arm64 and s390x; none without a graphics device", fromLauncher, false, video},
		{"hostname", "the name of the VM, as a DNS label", fromLauncher, true, hostname},
		{"terminationGracePeriodSeconds", "30", fromController, true, func(r *runtimeSpec) {
			provenance.FillPointer(r.Recorder, "terminationGracePeriodSeconds", &r.TerminationGracePeriodSeconds, v1.DefaultGracePeriodSeconds)
		}},
	}
}

// atRunTime fills what KubeVirt would use at run time. The spec changes in place.
func atRunTime(spec *v1.VirtualMachineInstanceSpec, name string) []provenance.Change {
	rec := provenance.NewRecorder("spec")
	rec.SetLayer(RuntimeLayer)
	r := &runtimeSpec{spec, rec, name}
	for _, d := range runtimeDefaults {
		d.fill(r)
	}
	return rec.Changes()
}

var runtimeDefaults = RuntimeDefaults()

func (r *runtimeSpec) cpu() *v1.CPU { return provenance.Ensure(&r.Domain.CPU) }

func bootloader(r *runtimeSpec) {
	if r.Architecture != architectures.AMD64 {
		return
	}
	if b := provenance.Ensure(&provenance.Ensure(&r.Domain.Firmware).Bootloader); b.BIOS == nil && b.EFI == nil {
		b.BIOS = &v1.BIOS{}
		r.Record("domain.firmware.bootloader.bios", b.BIOS)
	}
}

func efi(name string, of func(*v1.EFI) **bool, value bool) func(*runtimeSpec) {
	return func(r *runtimeSpec) {
		if f := r.Domain.Firmware; f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil {
			provenance.FillPointer(r.Recorder, "domain.firmware.bootloader.efi."+name, of(f.Bootloader.EFI), value)
		}
	}
}

func interfaceModels(r *runtimeSpec) {
	for i := range r.Domain.Devices.Interfaces {
		if one := &r.Domain.Devices.Interfaces[i]; one.SRIOV == nil && one.Binding == nil {
			provenance.Fill(r.Recorder, fieldpath.Indexed("domain.devices.interfaces", i, "model"), &one.Model, v1.VirtIO)
		}
	}
}

func interfaceStates(r *runtimeSpec) {
	for i := range r.Domain.Devices.Interfaces {
		provenance.Fill(r.Recorder, fieldpath.Indexed("domain.devices.interfaces", i, "state"), &r.Domain.Devices.Interfaces[i].State, v1.InterfaceStateLinkUp)
	}
}

func disks(name string, of func(*v1.Disk) **bool) func(*runtimeSpec) {
	return func(r *runtimeSpec) {
		for i := range r.Domain.Devices.Disks {
			provenance.FillPointer(r.Recorder, fieldpath.Indexed("domain.devices.disks", i, name), of(&r.Domain.Devices.Disks[i]), false)
		}
	}
}

func tpm(name string, of func(*v1.TPMDevice) **bool, value bool) func(*runtimeSpec) {
	return func(r *runtimeSpec) {
		if t := r.Domain.Devices.TPM; t != nil {
			provenance.FillPointer(r.Recorder, "domain.devices.tpm."+name, of(t), value)
		}
	}
}

// video is the type that KubeVirt's API documents. A device without a type has none: KubeVirt does not change it.
func video(r *runtimeSpec) {
	if attached := r.Domain.Devices.AutoattachGraphicsDevice; attached != nil && !*attached || r.Domain.Devices.Video != nil {
		return
	}
	kind := v1.VirtIO
	if r.Architecture == architectures.AMD64 {
		kind = "vga"
		if f := r.Domain.Firmware; f != nil && f.Bootloader != nil && f.Bootloader.EFI != nil {
			kind = "bochs"
		}
	}
	r.Domain.Devices.Video = &v1.VideoDevice{Type: kind}
	r.Record("domain.devices.video.type", kind)
}

// hostname is the first label of the name, cut as KubeVirt cuts it.
func hostname(r *runtimeSpec) {
	label, _, _ := strings.Cut(r.name, ".")
	if len(label) > validation.DNS1123LabelMaxLength {
		label = label[:validation.DNS1123LabelMaxLength]
	}
	provenance.Fill(r.Recorder, "hostname", &r.Hostname, strings.TrimRight(label, "-"))
}

// completed returns a copy of a machine with what KubeVirt would use at run time, and these changes.
func completed(vmi *v1.VirtualMachineInstance) (*v1.VirtualMachineInstance, []provenance.Change) {
	if vmi == nil {
		return nil, nil
	}
	running := *vmi
	spec := vmi.Spec.DeepCopy()
	changes := atRunTime(spec, vmi.Name)
	running.Spec = *spec
	return &running, changes
}

// AlwaysSet returns the fields that the spec of each virtual machine that can run has, below the spec of vm. Other fields can be
// absent, except those of an element that is there, such as the bus of a disk. Lint reads them.
func AlwaysSet() []string {
	always := []string{"architecture", "domain.cpu.model", "domain.features.acpi.enabled", "domain.machine.type", "domain.memory.guest", "evictionStrategy"}
	for _, d := range runtimeDefaults {
		if d.always {
			always = append(always, d.Path)
		}
	}
	slices.Sort(always)
	return always
}
