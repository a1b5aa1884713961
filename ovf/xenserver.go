package ovf

import (
	"strings"

	"github.com/virtward/virtward/texts"
)

// What descriptors of XenServer have beside the elements of OVF: an element VirtualSystemOtherConfigurationData for each setting, with its
// name and its value. A value can have several keys, such as order=dc;firmware=uefi.

// xenSettings are the keys that are imported, in lower case.
var xenSettings = map[string]func(v *VirtualSystem, value string){
	"firmware": func(v *VirtualSystem, value string) {
		if v.Firmware = value; strings.EqualFold(value, "uefi") {
			v.Firmware = firmwareEFI
		}
	},
	"device-model": func(v *VirtualSystem, value string) {
		if v.Firmware == "" && strings.HasSuffix(value, "-uefi") {
			v.Firmware = firmwareEFI
		}
	},
	"secureboot":       secureBootSetting,
	"vtpm":             func(v *VirtualSystem, value string) { v.TPM = v.TPM || strings.EqualFold(value, "true") },
	"cores-per-socket": func(v *VirtualSystem, value string) { v.Cores = value },
}

// xenSetting reads a setting of XenServer.
func xenSetting(v *VirtualSystem, e *element) {
	name, value := e.attr("Name"), e.value("Value")
	if name == "" {
		name = e.value("Name")
	}
	switch name {
	case "HVM_boot_params", "platform":
		for _, pair := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(";, \t\r\n", r) }) {
			key, value, _ := strings.Cut(pair, "=")
			if read := xenSettings[strings.ToLower(key)]; read != nil {
				read(v, value)
			}
		}
	case "PV_bootloader", "PV_kernel", "PV_ramdisk", "PV_args":
		if value != "" {
			v.problems.Warn(SettingDropped, e.path(), "the setting "+texts.Shorten(name, maxShown)+" is not imported: the virtual machine boots from its disks, and is not paravirtualized")
		}
	}
}
