package ovf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/templates"
	"github.com/virtward/virtward/validators"
)

// ExportOptions are the choices about an export.
type ExportOptions struct {
	// Hardware is that of the instancetype; nil if it is not known.
	Hardware *Hardware
	// KeepUserData keeps texts for cloud-init as they are. Otherwise their secrets are removed.
	KeepUserData bool
}

// Hardware is what an instancetype gives to a virtual machine.
type Hardware struct {
	CPUs   int
	Memory int64 // in bytes
}

// Content is a file that a package needs: the content of a volume.
type Content struct {
	// Volume is the name of the volume.
	Volume string
	// Href is the name of the file in the package.
	Href string
	// Medium tells that the volume is a CD, whose file is its content itself. Others are streamOptimized VMDKs.
	Medium bool
	// Requested is the size that the template requests in bytes; 0 if it states none.
	Requested int64
}

// Image is the content of a volume.
type Image struct {
	// Size is that of the file in bytes; 0 if it is not known.
	Size int64
	// Capacity is that of the disk in bytes.
	Capacity int64
}

// Export is a template as a package has it. Create it with NewExport.
type Export struct {
	// Template is what the package contains. It has neither a namespace nor secrets.
	Template *v1beta1.VirtualMachineTemplate
	// Contents are the files of the package, in the order of the descriptor.
	Contents []Content
	// Warnings name each field that is removed, and each that other programs do not read. Elements are paths of fields.
	Warnings []Warning

	machine exported
	json    []byte
}

// exported is a virtual machine as the standard elements of a descriptor describe it.
type exported struct {
	cpus, cores  int
	memoryMiB    int64
	firmware     string
	architecture string
	tpm          bool
	preference   string
	disks        []exportedDisk
	media        []exportedDisk
	nics         []exportedNIC
}

type exportedDisk struct {
	volume string
	// content is an index of Contents; -1 for a blank disk.
	content  int
	capacity int64
	order    uint
}

type exportedNIC struct{ network string }

// Bounds of an export: four SCSI controllers with 15 disks, and one SATA controller.
const (
	disksPerController = 15
	maxExportedDisks   = 4 * disksPerController
	maxExportedMedia   = 30
	maxExportedNICs    = 10
)

// steady is a source of values that are the same in each export.
type steady struct{}

func (steady) IntN(int) int { return 0 }

// NewExport prepares the export of a template. The error says why the template cannot be exported.
func NewExport(template *v1beta1.VirtualMachineTemplate, options ExportOptions) (*Export, error) {
	s := &stripper{keepUserData: options.KeepUserData}
	stripped, err := s.template(template, options.Hardware)
	if err != nil {
		return nil, err
	}
	e := &Export{Template: stripped, Warnings: s.Warnings}
	samples, _ := templates.Samples(&stripped.Spec, nil)
	rendered, findings := templates.Preview(&stripped.Spec, samples, steady{})
	if rendered == nil { // a sample is a text where a field needs a number
		rendered, findings = templates.Preview(&stripped.Spec, nil, steady{})
	}
	if rendered == nil {
		return nil, notValid(findings)
	}
	if err := e.describe(rendered.VirtualMachine, options.Hardware); err != nil {
		return nil, err
	}
	if e.json, err = json.Marshal(stripped); err != nil {
		return nil, fmt.Errorf("encoding the template: %w", err)
	}
	e.json = onlyXML(e.json)
	return e, nil
}

// notValid is the first error of the findings of a template.
func notValid(findings []validators.Finding) error {
	for _, f := range findings {
		if f.Severity == validators.Deny && f.Error != nil {
			return fmt.Errorf("the template is not valid: %w", f.Error)
		}
	}
	return errors.New("the template is not valid")
}

// onlyXML escapes the characters of JSON that XML does not have.
func onlyXML(data []byte) []byte {
	for _, r := range []rune{0xfffe, 0xffff} {
		data = bytes.ReplaceAll(data, []byte(string(r)), fmt.Appendf(nil, `\u%04x`, r))
	}
	return data
}

// template is a copy of a template without what is not exported.
func (s *stripper) template(from *v1beta1.VirtualMachineTemplate, hardware *Hardware) (*v1beta1.VirtualMachineTemplate, error) {
	if from.Spec.VirtualMachine == nil {
		return nil, errors.New("the template has no VirtualMachine")
	}
	vm, err := decodeObject(from.Spec.VirtualMachine.Raw)
	if err != nil {
		return nil, fmt.Errorf("the VirtualMachine of the template: %w", err)
	}
	had := child(vm, "spec")["instancetype"] != nil
	s.machine(vm)
	if had && child(vm, "spec")["instancetype"] == nil && hardware != nil {
		domain := ensure(vm, "spec", "template", "spec", "domain")
		domain["cpu"] = object{"sockets": max(1, hardware.CPUs), "cores": 1, "threads": 1}
		domain["memory"] = object{"guest": resource.NewQuantity(hardware.Memory, resource.BinarySI).String()}
	}
	raw, err := json.Marshal(vm)
	if err != nil {
		return nil, fmt.Errorf("encoding the VirtualMachine: %w", err)
	}
	to := &v1beta1.VirtualMachineTemplate{}
	to.APIVersion, to.Kind = v1beta1.GroupVersion.String(), apikinds.VirtualMachineTemplate
	to.Name = from.Name
	from = from.DeepCopy()
	to.Labels, to.Annotations = from.Labels, from.Annotations
	if _, exists := to.Annotations[lastApplied]; exists {
		delete(to.Annotations, lastApplied)
		s.Warn(FieldRemoved, "metadata.annotations["+lastApplied+"]", "it repeats fields that are removed")
	}
	if len(to.Annotations) == 0 {
		to.Annotations = nil
	}
	to.Spec = from.Spec
	to.Spec.VirtualMachine = &runtime.RawExtension{Raw: raw}
	s.parameters(to.Spec.Parameters)
	return to, nil
}

// ensure is an object in an object, which is created if it does not exist.
func ensure(o object, names ...string) object {
	for _, name := range names {
		next, _ := o[name].(object)
		if next == nil {
			next = object{}
			o[name] = next
		}
		o = next
	}
	return o
}

// decodeObject reads an object of JSON. Numbers keep their digits.
func decodeObject(data []byte) (object, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var o object
	if err := decoder.Decode(&o); err != nil {
		return nil, fmt.Errorf("it is not a JSON object: %w", err)
	}
	return o, nil
}

func (e *Export) only(at, why string) {
	e.Warnings = append(e.Warnings, Warning{OnlyVirtward, at, why})
}

// describe finds what the standard elements say.
func (e *Export) describe(vm *kubevirtv1.VirtualMachine, hardware *Hardware) error {
	m := &e.machine
	if vm.Spec.Template == nil {
		return errors.New("the template has no spec.virtualMachine.spec.template")
	}
	guest := &vm.Spec.Template.Spec
	if vm.Spec.Preference != nil {
		m.preference = vm.Spec.Preference.Name
	}
	m.architecture = guest.Architecture
	m.tpm = guest.Domain.Devices.TPM != nil
	m.firmware = firmwareOf(&guest.Domain, m.preference)
	if m.architecture == architectures.ARM64 && m.firmware == firmwareBIOS {
		m.firmware = firmwareEFI
	}
	e.processor(&guest.Domain, vm.Spec.Instancetype != nil, hardware)
	if err := e.disks(vm, guest); err != nil {
		return err
	}
	return e.networks(guest)
}

// firmwareOf is bios, efi or efi-secure.
func firmwareOf(domain *kubevirtv1.DomainSpec, preference string) string {
	if f := domain.Firmware; f != nil && f.Bootloader != nil {
		switch efi := f.Bootloader.EFI; {
		case efi == nil:
			return firmwareBIOS
		case efi.SecureBoot == nil || *efi.SecureBoot:
			return firmwareSecure
		}
		return firmwareEFI
	}
	switch {
	case strings.HasPrefix(preference, "windows.11"):
		return firmwareSecure
	case strings.HasSuffix(preference, ".efi"):
		return firmwareEFI
	}
	return firmwareBIOS
}

// processor finds the CPUs and the memory.
func (e *Export) processor(domain *kubevirtv1.DomainSpec, instancetype bool, hardware *Hardware) {
	m := &e.machine
	m.cpus, m.cores = 1, 1
	at := machineAt("template", "spec", "domain").String()
	switch {
	case instancetype && hardware != nil:
		m.cpus, m.memoryMiB = max(1, hardware.CPUs), (hardware.Memory+1<<20-1)>>20
		return
	case instancetype:
		m.memoryMiB = defaultMemory
		e.Warnings = append(e.Warnings, Warning{Guessed, machineAt("instancetype").String(), "the instancetype is not read: other programs get 1 CPU and 1Gi of memory"})
		return
	}
	if c := domain.CPU; c != nil {
		m.cores = int(max(1, c.Cores) * max(1, c.Threads))
		m.cpus = int(max(1, c.Sockets)) * m.cores
	} else if q, has := quantity(domain.Resources.Limits, domain.Resources.Requests, "cpu"); has {
		m.cpus = int(max(1, q.Value()))
	}
	if m.cpus > MaxCPUs {
		m.cpus, m.cores = MaxCPUs, 1
	}
	var memory int64
	if g := domain.Memory; g != nil && g.Guest != nil {
		memory = g.Guest.Value()
	} else if q, has := quantity(domain.Resources.Requests, domain.Resources.Limits, "memory"); has {
		memory = q.Value()
	}
	if m.memoryMiB = (memory + 1<<20 - 1) >> 20; m.memoryMiB <= 0 {
		m.memoryMiB = defaultMemory
		e.Warnings = append(e.Warnings, Warning{Guessed, at + ".memory", "the template states no memory: other programs get 1Gi"})
	}
}

// disks finds the disks and the CDs, in the order in which the firmware tries them.
func (e *Export) disks(vm *kubevirtv1.VirtualMachine, guest *kubevirtv1.VirtualMachineInstanceSpec) error {
	m := &e.machine
	at := machineAt("template", "spec", "domain", "devices", "disks")
	devices := slices.Clone(guest.Domain.Devices.Disks)
	for i := range guest.Volumes { // KubeVirt adds a disk for each volume without a device
		if v := &guest.Volumes[i]; v.DataVolume != nil && !slices.ContainsFunc(devices, func(d kubevirtv1.Disk) bool { return d.Name == v.Name }) {
			devices = append(devices, kubevirtv1.Disk{Name: v.Name})
		}
	}
	for i := range devices {
		d := &devices[i]
		n := slices.IndexFunc(guest.Volumes, func(v kubevirtv1.Volume) bool { return v.Name == d.Name })
		if n < 0 {
			continue
		}
		disk, why := e.volume(vm, &guest.Volumes[n])
		if why != "" {
			e.only(machineAt("template", "spec", "volumes").Index(n).String(), "other programs do not get the volume "+d.Name+": "+why)
			continue
		}
		disk.order = 1 << 30
		if d.BootOrder != nil {
			disk.order = *d.BootOrder
		}
		switch {
		case d.CDRom != nil && disk.content < 0:
			e.only(at.Index(i).String(), "other programs do not get the CD "+d.Name+": it has no medium")
		case d.CDRom != nil:
			m.media = append(m.media, disk)
		default:
			m.disks = append(m.disks, disk)
		}
	}
	if n := len(m.disks); n > maxExportedDisks {
		return fmt.Errorf("%s: the virtual machine has %d disks: a package can have %d", at, n, maxExportedDisks)
	}
	if n := len(m.media); n > maxExportedMedia {
		return fmt.Errorf("%s: the virtual machine has %d CDs: a package can have %d", at, n, maxExportedMedia)
	}
	slices.SortStableFunc(m.disks, func(a, b exportedDisk) int { return int(a.order) - int(b.order) })
	for _, kind := range []struct {
		disks     []exportedDisk
		medium    bool
		extension string
	}{{m.disks, false, ".vmdk"}, {m.media, true, ".iso"}} {
		for i := range kind.disks {
			d := &kind.disks[i]
			if d.content < 0 {
				continue
			}
			d.content = len(e.Contents)
			e.Contents = append(e.Contents, Content{Volume: d.volume, Href: Name(e.Template.Name) + "-" + d.volume + kind.extension, Medium: kind.medium, Requested: d.capacity})
		}
	}
	if devices := &guest.Domain.Devices; len(devices.GPUs)+len(devices.HostDevices)+len(devices.Filesystems) > 0 {
		e.only(machineAt("template", "spec", "domain", "devices").String(), "other programs do not get GPUs, host devices and file systems")
	}
	return nil
}

// volume is the disk of a volume. The text says why it is not one for other programs.
func (e *Export) volume(vm *kubevirtv1.VirtualMachine, v *kubevirtv1.Volume) (disk exportedDisk, why string) {
	disk.volume = v.Name
	switch {
	case v.EmptyDisk != nil:
		disk.content, disk.capacity = -1, v.EmptyDisk.Capacity.Value()
	case v.ContainerDisk != nil:
		return disk, "it is an image of a registry"
	case v.CloudInitNoCloud != nil, v.CloudInitConfigDrive != nil:
		return disk, "it is made of text for cloud-init"
	case v.DataVolume == nil:
		return disk, "it has no image"
	default:
		for i := range vm.Spec.DataVolumeTemplates {
			if t := &vm.Spec.DataVolumeTemplates[i]; t.Name == v.DataVolume.Name {
				disk.capacity = sizeOf(&t.Spec)
				if t.Spec.Source != nil && t.Spec.Source.Blank != nil {
					disk.content = -1
				}
			}
		}
	}
	if disk.content < 0 && disk.capacity <= 0 {
		return disk, "it states no size"
	}
	return disk, ""
}

// sizeOf is what a DataVolume requests in bytes.
func sizeOf(spec *cdiv1beta1.DataVolumeSpec) int64 {
	if s := spec.Storage; s != nil {
		if q, has := s.Resources.Requests["storage"]; has {
			return q.Value()
		}
	}
	if s := spec.PVC; s != nil {
		if q, has := s.Resources.Requests["storage"]; has {
			return q.Value()
		}
	}
	return 0
}

// networks finds the network adapters.
func (e *Export) networks(guest *kubevirtv1.VirtualMachineInstanceSpec) error {
	at := machineAt("template", "spec", "domain", "devices", "interfaces")
	for i := range guest.Domain.Devices.Interfaces {
		nic := &guest.Domain.Devices.Interfaces[i]
		found := exportedNIC{NetworkPod}
		for n := range guest.Networks {
			if net := &guest.Networks[n]; net.Name == nic.Name && net.Multus != nil {
				found.network = net.Multus.NetworkName
			}
		}
		e.machine.nics = append(e.machine.nics, found)
		if i >= maxExportedNICs {
			return fmt.Errorf("%s: the virtual machine has more than %d network adapters", at, maxExportedNICs)
		}
	}
	if devices := &guest.Domain.Devices; len(devices.Interfaces) == 0 && (devices.AutoattachPodInterface == nil || *devices.AutoattachPodInterface) {
		e.machine.nics = []exportedNIC{{NetworkPod}}
	}
	return nil
}

// quantity is the resource of a name in one list, or else in another one.
func quantity(first, second map[corev1.ResourceName]resource.Quantity, name corev1.ResourceName) (resource.Quantity, bool) {
	if q, has := first[name]; has {
		return q, true
	}
	q, has := second[name]
	return q, has
}

// guestType is an operating system for other programs.
type guestType struct{ preference, cim, vmware, description string }

// guestTypes are the operating systems of preferences. The longest prefix applies. A # stands for the number behind it.
var guestTypes = []guestType{
	{"windows.2k25", "1", "windows2022srvNext_64Guest", "Microsoft Windows Server 2025 (64-bit)"},
	{"windows.2k22", "1", "windows2019srvNext_64Guest", "Microsoft Windows Server 2022 (64-bit)"},
	{"windows.2k19", "1", "windows2019srv_64Guest", "Microsoft Windows Server 2019 (64-bit)"},
	{"windows.2k16", "1", "windows9Server64Guest", "Microsoft Windows Server 2016 (64-bit)"},
	{"windows.2k12", "112", "windows8Server64Guest", "Microsoft Windows Server 2012 (64-bit)"},
	{"windows.2k8", "103", "windows7Server64Guest", "Microsoft Windows Server 2008 R2 (64-bit)"},
	{"windows.2k3", "70", "winNetEnterprise64Guest", "Microsoft Windows Server 2003 (64-bit)"},
	{"windows.11", "1", "windows11_64Guest", "Microsoft Windows 11 (64-bit)"},
	{"windows.10", "1", "windows9_64Guest", "Microsoft Windows 10 (64-bit)"},
	{"windows.7", "105", "windows7_64Guest", "Microsoft Windows 7 (64-bit)"},
	{"windows.xp", "67", "winXPPro64Guest", "Microsoft Windows XP (64-bit)"},
	{"windows", "1", "windows9_64Guest", "Microsoft Windows (64-bit)"},
	{"rhel.#", "80", "rhel#_64Guest", "Red Hat Enterprise Linux # (64-bit)"},
	{"centos.stream#", "107", "centos#_64Guest", "CentOS # (64-bit)"},
	{"ubuntu", "94", "ubuntu64Guest", "Ubuntu Linux (64-bit)"},
	{"debian", "96", "debian10_64Guest", "Debian GNU/Linux (64-bit)"},
	{"fedora", "101", "fedora64Guest", "Fedora Linux (64-bit)"},
	{"opensuse", "101", "opensuse64Guest", "openSUSE (64-bit)"},
	{"sles", "85", "sles15_64Guest", "SUSE Linux Enterprise Server (64-bit)"},
	{"oraclelinux", "109", "oracleLinux7_64Guest", "Oracle Linux (64-bit)"},
	{"linux", "101", "otherLinux64Guest", "Other Linux (64-bit)"},
}

// guestTypeOf is the operating system of a preference.
func guestTypeOf(preference string) guestType {
	for _, g := range guestTypes {
		prefix, _, numbered := strings.Cut(g.preference, "#")
		rest, found := strings.CutPrefix(preference, prefix)
		if !found {
			continue
		}
		if numbered {
			digits := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
			if n, err := strconv.Atoi(digits); err != nil || n == 0 || len(digits) > 3 {
				continue
			}
			g.vmware, g.description = strings.ReplaceAll(g.vmware, "#", digits), strings.ReplaceAll(g.description, "#", digits)
		}
		return g
	}
	return guestType{"", "1", "otherGuest64", "Other (64-bit)"}
}
