package ovf

import (
	"regexp"
	"strings"
)

// preferenceRow is a row of the table of operating systems: the types of VMware and VirtualBox and the ids of CIM_OperatingSystem, and the
// preference of the common instancetypes. A pattern matches a whole type in lower case; $1 is its first group.
type preferenceRow struct {
	types, preference string
}

// preferenceRows is the table. The first row that matches applies.
var preferenceRows = []preferenceRow{
	{`windows2025.*|windows2022srvnext.*`, "windows.2k25"},
	{`windows2022.*|windows2019srvnext.*`, "windows.2k22"},
	{`windows2019.*`, "windows.2k19"},
	{`windows2016.*|windows9server.*`, "windows.2k16"},
	{`windows2012.*|windows8server.*`, "windows.2k12"},
	{`windows2008.*|windows7server.*|longhorn.*|winlonghorn.*`, "windows.2k8"},
	{`windows2003.*|winnet.*`, "windows.2k3"},
	{`windowsxp.*|winxp.*`, "windows.xp"},
	{`windows11.*`, "windows.11"},
	{`windows10.*|windows9.*`, "windows.10"},
	{`windows7.*`, "windows.7"},
	{`win.*`, "windows.10"},
	{`(?:rhel|redhat)[^0-9]?([6-9]|10)(?:[^0-9].*)?`, "rhel.$1"},
	{`centos([78])(?:[^0-9].*)?`, "rhel.$1"},
	{`centos(9|10)(?:[^0-9].*)?`, "centos.stream$1"},
	{`ubuntu.*`, "ubuntu"},
	{`debian.*`, "debian"},
	{`fedora.*`, "fedora"},
	{`sles.*|suse.*`, "sles"},
	{`opensuse.*`, "opensuse.leap"},
	{`oraclelinux.*|oracle.*`, "oraclelinux"},
}

// cimTypes are the types of ids of CIM_OperatingSystem.
var cimTypes = map[string]string{
	"67": "windowsxp", "71": "windowsxp", "69": "windows2003", "70": "windows2003", "103": "windows2008r2", "105": "windows7",
	"112": "windows2012", "115": "windows2012r2",
	"79": "redhat", "80": "redhat", "84": "sles", "85": "sles", "93": "ubuntu", "94": "ubuntu", "95": "debian", "96": "debian",
	"106": "centos", "107": "centos", "108": "oraclelinux", "109": "oraclelinux",
	"36": "linux", "97": "linux", "98": "linux", "99": "linux", "100": "linux", "101": "linux",
}

// described are words of descriptions and their types.
var described = []struct{ words, kind string }{
	{`windows server 2025`, "windows2025"},
	{`windows server 2022`, "windows2022"},
	{`windows server 2019`, "windows2019"},
	{`windows server 2016`, "windows2016"},
	{`windows server 2012`, "windows2012"},
	{`windows server 2008`, "windows2008"},
	{`windows server 2003`, "windows2003"},
	{`windows 11`, "windows11"},
	{`windows 10`, "windows10"},
	{`windows 7`, "windows7"},
	{`windows xp`, "windowsxp"},
	{`windows`, "windows"},
	{`(?:red hat|rhel|redhat)[^0-9]*(6|7|8|9|10)(?:[^0-9]|$)`, "rhel$1"},
	{`centos[^0-9]*(7|8|9|10)(?:[^0-9]|$)`, "centos$1"},
	{`ubuntu`, "ubuntu"},
	{`debian`, "debian"},
	{`fedora`, "fedora"},
	{`opensuse`, "opensuse"},
	{`suse`, "sles"},
	{`oracle`, "oraclelinux"},
	{`linux|red ?hat|rhel|centos`, "linux"},
}

// typeOf is the type of an operating system in the words of the table; empty if it is not known.
func typeOf(os OS) string {
	for _, kind := range []string{os.VMwareType, os.VirtualBoxType} {
		kind = strings.ToLower(strings.TrimSpace(kind))
		kind = strings.TrimPrefix(kind, "arm-")
		if kind != "" && !strings.HasPrefix(kind, "other") && kind != "unknown" {
			return strings.TrimSuffix(strings.TrimSuffix(kind, "guest"), "_64")
		}
		if strings.HasPrefix(kind, "other") && strings.Contains(kind, "linux") {
			return "linux"
		}
	}
	if kind := cimTypes[os.CIMID]; kind != "" && kind != "linux" {
		return kind + versionIn(os)
	}
	text := strings.ToLower(os.Description)
	for _, d := range described {
		pattern := regexp.MustCompile(d.words)
		if match := pattern.FindStringSubmatchIndex(text); match != nil {
			return string(pattern.ExpandString(nil, d.kind, text, match))
		}
	}
	return cimTypes[os.CIMID]
}

// versionIn is the first number of the version of a distribution, or nothing.
func versionIn(os OS) string {
	major, _, _ := strings.Cut(os.Version, ".")
	if number(major) > 0 {
		return major
	}
	return ""
}

// preference is the preference for an operating system with a firmware, and whether it is Windows. An operating system that is not
// known is guessed.
func preference(os OS, firmware string) (name string, windows, guessed bool) {
	kind := typeOf(os)
	for _, row := range preferenceRows {
		pattern := regexp.MustCompile("^(?:" + row.types + ")$")
		if match := pattern.FindStringSubmatchIndex(kind); match != nil {
			name := string(pattern.ExpandString(nil, row.preference, kind, match))
			return name, strings.HasPrefix(name, "windows."), kind == "windows"
		}
	}
	switch {
	case kind == "":
		return "legacy", false, true
	case firmware == firmwareBIOS:
		return "linux", false, false
	}
	return "linux.efi", false, false
}
