package ovf

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/texts"
)

// hardware reads a VirtualHardwareSection, with the settings of VMware.
func (r reader) hardware(v *VirtualSystem, e *element) {
	for _, c := range e.children {
		switch c.name {
		case "Item", "StorageItem", "EthernetPortItem":
			if len(v.Items) == MaxFiles {
				v.problems.Reject(LimitExceeded, e.path(), "the virtual system has more than 1000 devices", "remove devices")
				return
			}
			v.Items = append(v.Items, r.item(c))
		case "Config", "ExtraConfig":
			setting(v, c)
		case "VirtualSystemOtherConfigurationData":
			xenSetting(v, c)
		case "System":
			if kind := strings.ToLower(c.value("VirtualSystemType")); v.Architecture == "" && strings.Contains(kind, "ppc64") {
				v.Architecture = architecturePOWER
			}
		}
	}
	if v.OS.VMwareType != "" && strings.HasPrefix(strings.ToLower(v.OS.VMwareType), "arm") {
		v.Architecture = architectures.ARM64
	}
}

// settings are the settings of VMware that are imported, by their keys in lower case.
var settings = map[string]func(v *VirtualSystem, value string){
	"firmware":                         func(v *VirtualSystem, value string) { v.Firmware = strings.ToLower(value) },
	"cpuid.corespersocket":             func(v *VirtualSystem, value string) { v.Cores = value },
	"bootoptions.efisecurebootenabled": secureBootSetting,
	"uefi.secureboot.enabled":          secureBootSetting,
	"nvram":                            func(v *VirtualSystem, _ string) { v.NVRAM = true },
	"vtpm.present":                     func(v *VirtualSystem, value string) { v.TPM = v.TPM || strings.EqualFold(value, "true") },
}

func secureBootSetting(v *VirtualSystem, value string) {
	v.SecureBoot = v.SecureBoot || strings.EqualFold(value, "true")
}

// droppedSettings are the settings of VMware that a guest can depend on, and what is used instead. A key can end with a period for all
// that begin with it. A setting that is false is not one.
var droppedSettings = []struct {
	key  string
	code Code
	why  string
}{
	{"nestedhvenabled", SettingDropped, "the cluster decides whether a guest can run virtual machines"},
	{"flags.vbsenabled", SettingDropped, "the cluster decides whether a guest can run virtual machines, which security of Windows that is based on virtualization needs"},
	{"sevenabled", SettingDropped, "the memory of the virtual machine is not encrypted"},
	{"sevsnpenabled", SettingDropped, "the memory of the virtual machine is not encrypted"},
	{"tdxenabled", SettingDropped, "the memory of the virtual machine is not encrypted"},
	{"uefi.secureboot.", SettingDropped, "the keys of Secure Boot are those of the cluster"},
	{"guestinfo.", PropertyDropped, "the guest does not receive it: KubeVirt has no variables of VMware for guests"},
}

// setting reads a setting of VMware, or warns of one that has no equivalent.
func setting(v *VirtualSystem, e *element) {
	key, value := e.attr("key"), e.attr("value")
	lower := strings.ToLower(key)
	if read := settings[lower]; read != nil {
		read(v, value)
		return
	}
	if value == "" || strings.EqualFold(value, "false") {
		return
	}
	for _, s := range droppedSettings {
		if lower == s.key || strings.HasSuffix(s.key, ".") && strings.HasPrefix(lower, s.key) {
			v.problems.Warn(s.code, e.path(), "the setting "+texts.Shorten(key, maxShown)+" is not imported: "+s.why)
			return
		}
	}
}

// item reads a device.
func (r reader) item(e *element) Item {
	i := Item{
		InstanceID: e.value("InstanceID", "InstanceId"), Name: e.value("ElementName", "Caption"), Parent: e.value("Parent"), Address: e.value("Address"),
		OnParent: e.value("AddressOnParent"), HostResource: e.value("HostResource"), Connection: e.value("Connection"), Quantity: e.value("VirtualQuantity"),
		Units: e.value("AllocationUnits"), Cores: e.value("CoresPerSocket", "cpu_per_socket"), Sockets: e.value("num_of_sockets"),
		Threads: e.value("threads_per_cpu"), Bus: e.value("BusNumber"),
		Reservation: e.value("Reservation"), Limit: e.value("Limit"),
		Configurations: strings.Fields(e.attr("configuration")), Bound: e.attr("bound"), Optional: e.optional(), Element: e.path(),
	}
	i.Type, _ = strconv.Atoi(e.value("ResourceType"))
	if e.name == "EthernetPortItem" && (i.Type == 0 || i.Type == typeConnection) {
		i.Type = typeEthernet
	}
	if e.name == "StorageItem" && i.Type == 0 {
		i.Type = typeDisk
	}
	i.MAC = i.Address
	if mac := e.value("MACAddress"); mac != "" { // of oVirt
		i.MAC = mac
	}
	if r.Producer == ProducerOVirt {
		i.Kind, i.Disabled = strings.ToLower(e.value("Type")), strings.EqualFold(e.value("UsbPolicy"), "disabled")
	}
	i.SubTypes = strings.FieldsFunc(e.value("ResourceSubType"), func(r rune) bool { return unicode.IsSpace(r) || r == ',' })
	return i
}

// subtype is the first resource subtype.
func (i *Item) subtype() string {
	if len(i.SubTypes) == 0 {
		return ""
	}
	return i.SubTypes[0]
}

// number is a field as a whole number; 0 if it is not one.
func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// in reports whether a device exists in a deployment option.
func (i *Item) in(option string) bool {
	if i.Bound != "" && i.Bound != "normal" {
		return false
	}
	if len(i.Configurations) == 0 {
		return true
	}
	return slices.Contains(i.Configurations, option)
}

// items are the devices in a deployment option. A device of the option replaces one of all options with the same InstanceID, and one of
// the option before it with the same InstanceID and type.
func (v *VirtualSystem) items(option string) []Item {
	last := map[string]int{}
	key := func(i *Item) string { return strconv.Itoa(i.Type) + " " + i.InstanceID }
	own := map[string]bool{}
	for i := range v.Items {
		if item := &v.Items[i]; len(item.Configurations) > 0 && item.in(option) && item.InstanceID != "" {
			own[item.InstanceID] = true
			last[key(item)] = i
		}
	}
	var found []Item
	for i := range v.Items {
		item := &v.Items[i]
		replaced := len(item.Configurations) == 0 && own[item.InstanceID]
		if n, again := last[key(item)]; again && n > i {
			replaced = true
		}
		if item.in(option) && !replaced {
			found = append(found, *item)
		}
	}
	return found
}
