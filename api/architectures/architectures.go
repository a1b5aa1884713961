package architectures

import (
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// The definitions of the kinds of policies, and the values of the chart of common templates, have the names too.
//go:generate go run ./gen ../policy/v1alpha1/zz_generated.architectures.go ../../charts/virtward-common-templates/values.schema.json

// Names of architectures. KubeVirt, CDI, OCI, Kubernetes' nodes and Go use the same ones.
const (
	AMD64 = "amd64"
	ARM64 = "arm64"
	S390X = "s390x"
)

// Default is the architecture of a cluster whose KubeVirt resource names none. KubeVirt completes an unknown architecture as this one.
const Default = AMD64

// Architecture is a row of the table.
type Architecture struct {
	Name string
	// MachineType is KubeVirt's default, and EmulatedMachines are the globs of the machine types that KubeVirt allows by default.
	MachineType      string
	EmulatedMachines []string
	// Firmware is the directory of the firmware in KubeVirt's images; empty if there is none.
	Firmware string
	// Section returns the settings of the architecture in KubeVirt's configuration. It is nil for an architecture without
	// settings there, which always has the defaults above.
	Section func(*v1.ArchConfiguration) **v1.ArchSpecificConfiguration
	// Baselines are the variants of OCI that mean the architecture itself. A node or a virtual machine has no variant.
	Baselines []string
	// Imported are the variants that CDI finds in an image index when it requests the architecture.
	Imported []string
}

// All returns the table in alphabetical order.
func All() []Architecture {
	return []Architecture{
		{
			Name: AMD64, MachineType: "q35", EmulatedMachines: []string{"q35*", "pc-q35*"}, Firmware: "/usr/share/edk2/ovmf",
			Section:   func(c *v1.ArchConfiguration) **v1.ArchSpecificConfiguration { return &c.Amd64 },
			Baselines: []string{"v1"},
		},
		{
			Name: ARM64, MachineType: "virt", EmulatedMachines: []string{"virt*"}, Firmware: "/usr/share/AAVMF",
			Section:   func(c *v1.ArchConfiguration) **v1.ArchSpecificConfiguration { return &c.Arm64 },
			Baselines: []string{"v8", "8"}, Imported: []string{"v8"},
		},
		{
			Name: S390X, MachineType: "s390-ccw-virtio", EmulatedMachines: []string{"s390-ccw-virtio*"},
			Section: func(c *v1.ArchConfiguration) **v1.ArchSpecificConfiguration { return &c.S390x },
		},
	}
}

// table is All. It is not changed.
var table = All()

// Names returns the names in the order of the table. The caller may change the list.
func Names() []string {
	names := make([]string, len(table))
	for i := range table {
		names[i] = table[i].Name
	}
	return names
}

// Find returns the row of an architecture, and whether there is one.
func Find(name string) (Architecture, bool) {
	at := slices.IndexFunc(table, func(a Architecture) bool { return a.Name == name })
	if at < 0 {
		return Architecture{}, false
	}
	return table[at], true
}

// Known reports whether KubeVirt runs virtual machines on an architecture.
func Known(name string) bool {
	_, known := Find(name)
	return known
}

// Sentence lists the names for a message: amd64, arm64 or s390x.
func Sentence(conjunction string) string {
	names := Names()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " " + conjunction + " " + names[last]
}
