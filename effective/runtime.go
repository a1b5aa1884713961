package effective

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/platform"
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

	fill func(*runtimeSpec)
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
	devices := func(name, value string, of func(*v1.Devices) **bool) RuntimeDefault {
		return RuntimeDefault{"domain.devices." + name, value, fromLauncher, func(r *runtimeSpec) {
			provenance.FillPointer(r.Recorder, "domain.devices."+name, of(&r.Domain.Devices), value == "true")
		}}
	}
	return []RuntimeDefault{
		{"domain.cpu.cores", "1", fromLauncher, func(r *runtimeSpec) { provenance.Fill(r.Recorder, "domain.cpu.cores", &r.cpu().Cores, 1) }},
		{"domain.cpu.sockets", "1", fromLauncher, func(r *runtimeSpec) { provenance.Fill(r.Recorder, "domain.cpu.sockets", &r.cpu().Sockets, 1) }},
		{"domain.cpu.threads", "1", fromLauncher, func(r *runtimeSpec) { provenance.Fill(r.Recorder, "domain.cpu.threads", &r.cpu().Threads, 1) }},
		{"domain.firmware.bootloader", "bios: {}, on amd64", fromLauncher, bootloader},
		{"domain.firmware.bootloader.efi.secureBoot", "true", fromLauncher, efi("secureBoot", func(e *v1.EFI) **bool { return &e.SecureBoot }, true)},
		{"domain.firmware.bootloader.efi.persistent", "false", fromLauncher, efi("persistent", func(e *v1.EFI) **bool { return &e.Persistent }, false)},
		devices("autoattachPodInterface", "true", func(d *v1.Devices) **bool { return &d.AutoattachPodInterface }),
		devices("autoattachGraphicsDevice", "true", func(d *v1.Devices) **bool { return &d.AutoattachGraphicsDevice }),
		devices("autoattachSerialConsole", "true", func(d *v1.Devices) **bool { return &d.AutoattachSerialConsole }),
		devices("autoattachMemBalloon", "true", func(d *v1.Devices) **bool { return &d.AutoattachMemBalloon }),
		devices("autoattachVSOCK", "false", func(d *v1.Devices) **bool { return &d.AutoattachVSOCK }),
		devices("networkInterfaceMultiqueue", "false", func(d *v1.Devices) **bool { return &d.NetworkInterfaceMultiQueue }),
		devices("blockMultiQueue", "false", func(d *v1.Devices) **bool { return &d.BlockMultiQueue }),
		{"domain.devices.interfaces[*].model", "virtio, unless the binding has its own device", fromLauncher, interfaceModels},
		{"domain.devices.tpm.persistent", "false", fromLauncher, tpm},
		{"hostname", "the name of the VM, as a DNS label", fromLauncher, hostname},
		{"terminationGracePeriodSeconds", "30", fromController, func(r *runtimeSpec) {
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
	if r.Architecture != platform.AMD64 {
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

func tpm(r *runtimeSpec) {
	if t := r.Domain.Devices.TPM; t != nil {
		provenance.FillPointer(r.Recorder, "domain.devices.tpm.persistent", &t.Persistent, false)
	}
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

// AlwaysSet returns the fields that each complete spec has, below the spec of vm. Other fields can be absent, except those of
// an element that is there, such as the bus of a disk. Lint reads them.
func AlwaysSet() []string {
	always := []string{"architecture", "domain.cpu.model", "domain.features.acpi.enabled", "domain.machine.type", "evictionStrategy"}
	for _, d := range runtimeDefaults {
		if conditional := strings.Contains(d.Path, "[*]") || strings.Contains(d.Path, ".firmware.") || strings.Contains(d.Path, ".tpm."); !conditional && d.Path != "hostname" {
			always = append(always, d.Path)
		}
	}
	slices.Sort(always)
	return always
}
