package ovf

import (
	"strings"

	"github.com/virtward/virtward/api/architectures"
)

// What descriptors of oVirt, RHV and virt-v2v have beside the elements of OVF. Virtual machines of an export domain are a Content with
// sections; those of an OVA are a VirtualSystem, with the same fields beside the sections.

// ProducerOVirt is the Producer of descriptors of oVirt, and the prefix of their namespace.
const ProducerOVirt = "ovirt"

// oVirtField reads a field of a virtual machine that is beside its sections.
func oVirtField(v *VirtualSystem, e *element) {
	text := e.content()
	switch why := oVirtSettings[e.name]; {
	case e.name == "BiosType":
		v.Firmware, v.SecureBoot = oVirtFirmware(text)
	case why == "", text == "" && len(e.attrs) == 0:
	case e.name == "TimeZone" && (strings.HasSuffix(text, "GMT") || strings.HasSuffix(text, "UTC")):
	default:
		v.problems.Warn(SettingDropped, e.path(), "the setting "+e.name+" is not imported: "+why)
	}
}

// oVirtSettings are the fields that a guest can depend on, and what is used instead. Other fields are about the administration of oVirt.
var oVirtSettings = map[string]string{
	"VmInit":                "the guest does not receive the settings for cloud-init or Sysprep",
	"InitrdUrl":             "the virtual machine boots from its disks",
	"KernelUrl":             "the virtual machine boots from its disks",
	"KernelParams":          "the virtual machine boots from its disks",
	"CustomCpuName":         "the cluster chooses the CPU model",
	"CustomEmulatedMachine": "the cluster chooses the machine type",
	"CpuPinning":            "the scheduler places virtual machines",
	"PredefinedProperties":  "KubeVirt has no hooks of oVirt",
	"UserDefinedProperties": "KubeVirt has no hooks of oVirt",
	"TimeZone":              "the clock of the virtual machine is in UTC",
}

// oVirtFirmware is the firmware of a BiosType. All releases that write the field count from 0, which is the chipset i440FX with BIOS.
// virt-v2v does it too. The numbers in the interface of oVirt 4.4 are higher by 1.
func oVirtFirmware(kind string) (firmware string, secureBoot bool) {
	switch kind {
	case "0", "1":
		return firmwareBIOS, false
	case "2":
		return firmwareEFI, false
	case "3", "4":
		return firmwareEFI, true
	}
	return "", false // the cluster of oVirt chooses it
}

// oVirtArchitecture is the architecture of a number of an operating system; empty for x86.
func oVirtArchitecture(system string) string {
	switch id := number(system); {
	case id >= 1001 && id <= 1009:
		return architecturePOWER
	case id >= 2001 && id <= 2005:
		return architectures.S390X
	}
	return ""
}

// oVirtModels are the numbers of oVirt for its network adapters. That of 0 is two in one: rtl8139 and virtio.
var oVirtModels = map[string]string{"0": "rtl8139", "1": "rtl8139", "2": "e1000", "3": "virtio", "6": "e1000e"}

// oVirtControllers are the interfaces of disks that have a controller.
var oVirtControllers = map[string]string{"ide": "ide", "sata": "sata", "virtio_scsi": "scsi", "spapr_vscsi": "scsi"}

// oVirtDevice maps a device whose ResourceType is a number of oVirt. Graphics, controllers, channels and the balloon are part of each
// virtual machine.
func (m *mapper) oVirtDevice(i *Item) {
	switch i.Kind {
	case "tpm":
		m.System.TPM = true
	case "sound":
		m.drop(i, "sound card")
	case "watchdog":
		m.drop(i, "watchdog")
	case "smartcard":
		m.drop(i, "smart card reader")
	case "hostdev", "mdev":
		m.drop(i, "passthrough device")
	}
}
