package ovf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/virtward/virtward/texts"
)

// preferenceRow is a row of the table of operating systems: the types of VMware and VirtualBox, and the preference of the common
// instancetypes. A pattern matches a whole type in lower case; $1 is its first group.
type preferenceRow struct {
	types      []string
	preference string
	// cpus and memoryMiB are what the preference requires. KubeVirt rejects a virtual machine that has less.
	cpus      int
	memoryMiB int64
	// guessed tells that the preference is that of another operating system.
	guessed bool
}

// preferenceRows is the table. The first row that matches applies.
var preferenceRows = []preferenceRow{
	{types: []string{`windows2025.*`, `windows2022srvnext.*`}, preference: "windows.2k25", cpus: 1, memoryMiB: 2048},
	{types: []string{`windows2022.*`, `windows2019srvnext.*`}, preference: "windows.2k22", cpus: 1, memoryMiB: 2048},
	{types: []string{`windows2019.*`}, preference: "windows.2k19", cpus: 1, memoryMiB: 2048},
	{types: []string{`windows2016.*`, `windows9server.*`}, preference: "windows.2k16", cpus: 1, memoryMiB: 2048},
	{types: []string{`windows2012.*`, `windows8server.*`}, preference: "windows.2k12", cpus: 1, memoryMiB: 512},
	{types: []string{`windows2008.*`, `windows7server.*`, `longhorn.*`, `winlonghorn.*`}, preference: "windows.2k8", cpus: 1, memoryMiB: 512},
	{types: []string{`windows2003.*`, `winnet.*`}, preference: "windows.2k3", cpus: 1, memoryMiB: 256},
	{types: []string{`windowsxp.*`, `winxp.*`}, preference: "windows.xp", cpus: 1, memoryMiB: 128},
	{types: []string{`windows11.*`}, preference: "windows.11", cpus: 2, memoryMiB: 4096},
	{types: []string{`windows10.*`, `windows9.*`}, preference: "windows.10", cpus: 1, memoryMiB: 2048},
	{types: []string{`windows7.*`}, preference: "windows.7", cpus: 1, memoryMiB: 2048},
	{types: []string{`win.*`}, preference: "windows.10", cpus: 1, memoryMiB: 2048, guessed: true},
	{types: []string{`(?:rhel|redhat)[^0-9]?7(?:[^0-9].*)?`}, preference: "rhel.7", cpus: 1, memoryMiB: 1024},
	{types: []string{`(?:rhel|redhat)[^0-9]?(8|9|10)(?:[^0-9].*)?`}, preference: "rhel.$1", cpus: 1, memoryMiB: 1536},
	{types: []string{`centos7(?:[^0-9].*)?`}, preference: "rhel.7", cpus: 1, memoryMiB: 1024},
	{types: []string{`centos8(?:[^0-9].*)?`}, preference: "rhel.8", cpus: 1, memoryMiB: 1536},
	{types: []string{`centos(9|10)(?:[^0-9].*)?`}, preference: "centos.stream$1", cpus: 1, memoryMiB: 1536},
	{types: []string{`ubuntu.*`}, preference: "ubuntu", cpus: 1, memoryMiB: 2048},
	{types: []string{`debian.*`}, preference: "debian", cpus: 1, memoryMiB: 512},
	{types: []string{`fedora.*`}, preference: "fedora", cpus: 1, memoryMiB: 2048},
	{types: []string{`opensuse.*tumbleweed.*`}, preference: "opensuse.tumbleweed", cpus: 1, memoryMiB: 2048},
	{types: []string{`opensuse.*`}, preference: "opensuse.leap", cpus: 1, memoryMiB: 2048},
	{types: []string{`sles.*`, `suse.*`}, preference: "sles", cpus: 1, memoryMiB: 2048},
	{types: []string{`oraclelinux.*`, `oracle.*`}, preference: "oraclelinux", cpus: 2, memoryMiB: 4096},
}

// withArchitecture are the preferences that require amd64, and have a variant for each other architecture.
var withArchitecture = []string{"rhel.9", "rhel.10", "fedora"}

// linuxTypes are the types of Linux that have no row.
var linuxTypes = regexp.MustCompile(`linux|^(?:rhel|redhat|centos|vmwarephoton|coreos|mandr|turbolinux|asianux|nld|oes|sjds|gentoo|arch|xandros|crx|fusionos|pardus)`)

// cimTypes are the types of ids of CIM_OperatingSystem.
var cimTypes = map[string]string{
	"58": "windows2000", "67": "windowsxp", "71": "windowsxp", "72": "windowsxp", "69": "windows2003", "70": "windows2003", "73": "windowsvista",
	"74": "windowsvista", "76": "windows2008", "77": "windows2008", "103": "windows2008r2", "105": "windows7", "112": "windows2012",
	"113": "windows8", "114": "windows8", "115": "windows2012r2",
	"79": "redhat", "80": "redhat", "84": "sles", "85": "sles", "93": "ubuntu", "94": "ubuntu", "95": "debian", "96": "debian",
	"106": "centos", "107": "centos", "108": "oraclelinux", "109": "oraclelinux",
	"36": "linux", "82": "linux", "83": "linux", "86": "linux", "87": "linux", "88": "linux", "89": "linux", "90": "linux", "91": "linux", "92": "linux",
	"97": "linux", "98": "linux", "99": "linux", "100": "linux", "101": "linux",
}

// described are words of descriptions and their types. Descriptions are in lower case, with spaces for underscores.
var described = []struct{ words, kind string }{
	{`windows ?(?:server ?)?(2025|2022|2019|2016|2012|2008|2003)`, "windows$1"},
	{`windows ?11`, "windows11"},
	{`windows ?10`, "windows10"},
	{`windows ?7`, "windows7"},
	{`windows ?xp`, "windowsxp"},
	{`windows`, "windows"},
	{`(?:red hat|rhel|redhat)[^0-9]*(7|8|9|10)(?:[^0-9]|$)`, "rhel$1"},
	{`centos[^0-9]*(7|8|9|10)(?:[^0-9]|$)`, "centos$1"},
	{`ubuntu`, "ubuntu"},
	{`debian`, "debian"},
	{`fedora`, "fedora"},
	{`opensuse[^a-z]*tumbleweed`, "opensusetumbleweed"},
	{`opensuse`, "opensuse"},
	{`suse|sles`, "sles"},
	{`solaris`, "solaris"},
	{`oracle`, "oraclelinux"},
	{`linux|red ?hat|rhel|centos|rhcos|coreos|photon`, "linux"},
}

// typeLinux is the type of a Linux that is not known.
const typeLinux = "linux"

// typeOf is the type of an operating system in the words of the table; empty if it is not known. Of the ids of oVirt, only those of Linux
// are those of CIM.
func typeOf(os OS, producer string) string {
	for _, kind := range []string{os.VMwareType, os.VirtualBoxType} {
		kind = strings.ToLower(strings.TrimSpace(kind))
		kind = strings.TrimPrefix(kind, "arm-")
		if kind != "" && !strings.HasPrefix(kind, "other") && kind != "unknown" {
			return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(kind, "guest"), "_64"), "_arm64")
		}
		if strings.HasPrefix(kind, "other") && strings.Contains(kind, "linux") {
			return typeLinux
		}
	}
	byID, byText := cimTypes[os.CIMID], describedType(os.Description)
	if producer == ProducerOVirt && byID != typeLinux {
		byID = ""
	}
	switch version := versionIn(os); {
	case byID == "redhat" && version == "" && strings.HasPrefix(byText, "rhel"), byID == "centos" && version == "" && strings.HasPrefix(byText, "centos"):
		return byText // it has the version
	case byID != "" && byID != typeLinux:
		return byID + version
	case byText != "":
		return byText
	}
	return byID
}

// maxDescribed bounds a description that is searched for words, in bytes.
const maxDescribed = 1 << 10

// describedType is the type of an operating system with a description; empty if it is not known.
func describedType(description string) string {
	text := strings.ReplaceAll(strings.ToLower(texts.Shorten(description, maxDescribed)), "_", " ")
	for _, d := range described {
		pattern := regexp.MustCompile(d.words)
		if match := pattern.FindStringSubmatchIndex(text); match != nil {
			return string(pattern.ExpandString(nil, d.kind, text, match))
		}
	}
	return ""
}

// versionIn is the first number of the version of a distribution, or nothing.
func versionIn(os OS) string {
	major, _, _ := strings.Cut(os.Version, ".")
	if number(major) > 0 {
		return major
	}
	return ""
}

// guest is what an operating system tells about its virtual machine.
type guest struct {
	// preference is the preference for the system; guessed tells that it is that of another one.
	preference string
	guessed    bool
	// windows and linux tell the kind of the system; both are false for others.
	windows, linux bool
	// required is the row of the preference, with what it requires; zero for a system without a row.
	required preferenceRow
}

// guestOf is what an operating system tells about its virtual machine with a firmware. An empty architecture stands for amd64.
func guestOf(os OS, producer, firmware, architecture string) guest {
	kind := typeOf(os, producer)
	for _, row := range preferenceRows {
		pattern := regexp.MustCompile("^(?:" + strings.Join(row.types, "|") + ")$")
		match := pattern.FindStringSubmatchIndex(kind)
		if match == nil {
			continue
		}
		name := string(pattern.ExpandString(nil, row.preference, kind, match))
		windows := strings.HasPrefix(name, "windows.")
		if architecture != "" && slices.Contains(withArchitecture, name) {
			name += "." + architecture
		}
		return guest{preference: name, guessed: row.guessed, windows: windows, linux: !windows, required: row}
	}
	switch {
	case !linuxTypes.MatchString(kind):
		return guest{preference: "legacy", guessed: true}
	case firmware == firmwareBIOS:
		return guest{preference: "linux", linux: true}
	}
	return guest{preference: "linux.efi", linux: true}
}

// requirements warns of a virtual machine that has less than its preference requires.
func (b *builder) requirements(cpus int, memoryMiB int64) {
	s, required := b.System, &b.guest.required
	warn := func(requires, has string) {
		b.Warn(PreferenceRequirement, s.element, fmt.Sprintf("the preference %s of the common instancetypes requires %s, and the virtual machine has %s: "+
			"KubeVirt rejects the virtual machine. Raise the value, or choose another preference", s.OS.Preference, requires, has))
	}
	if memoryMiB < required.memoryMiB {
		warn(fmt.Sprintf("%d MiB of memory", required.memoryMiB), fmt.Sprintf("%d MiB", memoryMiB))
	}
	if cpus < required.cpus {
		warn(texts.Count(required.cpus, "CPU", "CPUs"), strconv.Itoa(cpus))
	}
}
