package conformance

import (
	"regexp"
	"slices"
	"strings"
)

// alias is a wrong path in a message of KubeVirt, and the path of the field. Both are patterns, in which
//
//	{spec}   is spec or spec.template.spec,
//	[i]      is an index,
//	{rest}   is the rest of the path,
//	[*]      is any index, and
//	{below}  is the field itself or anything below it.
//
// {spec}, [i] and {rest} are equal in both paths of a pair.
type alias struct {
	kubeVirt string
	// causeType of the causes; empty for any.
	causeType string
	virtward  string
	// request is the kind and the operation; empty for any.
	request string
}

const (
	invalid      = "FieldValueInvalid"
	notSupported = "FieldValueNotSupported"
	required     = "FieldValueRequired"
	duplicate    = "FieldValueDuplicate"

	updateVM  = kindVM + " UPDATE"
	updateVMI = kindVMI + " UPDATE"
	createVMI = kindVMI + " CREATE"
)

// aliases returns all known wrong paths of KubeVirt.
func aliases() []alias {
	return []alias{
		// Fields without their parents.
		{kubeVirt: "{spec}.GPUs", virtward: "{spec}.domain.devices.gpus"},
		{kubeVirt: "{spec}.HostDevices", virtward: "{spec}.domain.devices.hostDevices"},
		{kubeVirt: "{spec}.Sound", virtward: "{spec}.domain.devices.sound"},
		{kubeVirt: "{spec}.video", virtward: "{spec}.domain.devices.video"},
		{kubeVirt: "{spec}.acpi", virtward: "{spec}.domain.firmware.acpi"},
		{kubeVirt: "{spec}.acpi.{rest}", virtward: "{spec}.domain.firmware.acpi.{rest}"},
		{kubeVirt: "{spec}.launchSecurity", virtward: "{spec}.domain.launchSecurity"},
		{kubeVirt: "{spec}[i].bootOrder", virtward: "{spec}.domain.devices.interfaces[i].bootOrder"},
		{kubeVirt: "{spec}.nodeAffinity.{rest}", virtward: "{spec}.affinity.nodeAffinity.{rest}"},
		{kubeVirt: "{spec}.podAffinity.{rest}", virtward: "{spec}.affinity.podAffinity.{rest}"},
		{kubeVirt: "{spec}.podAntiAffinity.{rest}", virtward: "{spec}.affinity.podAntiAffinity.{rest}"},

		// Fields beside the one that is wrong.
		{kubeVirt: "{spec}.domain.devices.interfaces[i].name", causeType: invalid, virtward: "{spec}.domain.devices.interfaces[i].portRanges"},

		{kubeVirt: "spec.running", causeType: invalid, virtward: "spec.runStrategy"},

		// Fields that are repeated, misplaced or renamed.
		{kubeVirt: "{spec}.domain.features.hyperv.domain.features.hyperv.{rest}", virtward: "{spec}.domain.features.hyperv.{rest}"},
		{kubeVirt: "{spec}.domain.devices.disks.domain.devices.disks.disk[i].pciAddress", virtward: "{spec}.domain.devices.disks[i].disk.pciAddress"},
		{kubeVirt: "{spec}.domain.devices.disks.domain.devices.disks[i]", causeType: notSupported, virtward: "{spec}.domain.devices.disks[i].dedicatedIOThread"},
		{kubeVirt: "{spec}.domain.devices.disks.domain.devices.disks[i].{rest}", virtward: "{spec}.domain.devices.disks[i].{rest}"},
		{kubeVirt: "{spec}.domain.ioThreads.count", virtward: "{spec}.domain.ioThreads.supplementalPoolThreadCount"},
		{kubeVirt: "{spec}.domain.volumes[i]", virtward: "{spec}.volumes[i]"},
		{kubeVirt: "{spec}.domain.volumes[i].{rest}", virtward: "{spec}.volumes[i].{rest}"},
		{kubeVirt: "{spec}.volumes[i].name", causeType: required, virtward: "{spec}.volumes[i].dataVolume.name"},
		{kubeVirt: "{spec}.interfaces", causeType: duplicate, virtward: "{spec}.networks"},
		{kubeVirt: "{spec}.topologySpreadConstraints[i].{topologyKey, whenUnsatisfiable}", virtward: "{spec}.topologySpreadConstraints[i]"},
		{kubeVirt: "{spec}.domain.cpu.dedicatedCPUPlacement", virtward: "{spec}.domain.cpu.dedicatedCpuPlacement"},
		{kubeVirt: "spec.domain.devices.interfaces[i].macvtap", causeType: invalid, virtward: "spec.template.spec.domain.devices.interfaces[i].macvtap"},
		{kubeVirt: "spec.domain.devices.interfaces[i].passt", causeType: invalid, virtward: "spec.template.spec.domain.devices.interfaces[i].passt"},
		{kubeVirt: "spec.domain.devices.interfaces[i].slirp", causeType: invalid, virtward: "spec.template.spec.domain.devices.interfaces[i].slirp"},
		{kubeVirt: "instancetype.spec.cpu.guest", virtward: "spec.instancetype"},
		{kubeVirt: "annotations.{rest}", virtward: "spec.template.metadata.annotations[{rest}]"},

		// Lists without the index of what is wrong in them.
		{kubeVirt: "{spec}.domain.devices.disks.luns.reservation", virtward: "{spec}.domain.devices.disks[*].lun.reservation"},
		{kubeVirt: "{spec}.topologySpreadConstraints.labelSelector.{rest}", virtward: "{spec}.topologySpreadConstraints[*].labelSelector.{rest}"},
		{kubeVirt: "{spec}.podAffinity.{rest}.namespace", virtward: "{spec}.affinity.podAffinity.{rest}.namespaces[*]"},
		{kubeVirt: "{spec}.podAntiAffinity.{rest}.namespace", virtward: "{spec}.affinity.podAntiAffinity.{rest}.namespaces[*]"},
		{kubeVirt: "{spec}", causeType: invalid, virtward: "{spec}.domain.devices.interfaces[*].dhcpOptions.privateOptions[*].option"},
		{kubeVirt: "nameservers", virtward: "{spec}.dnsConfig.nameservers"},
		{kubeVirt: "nameservers", causeType: invalid, virtward: "{spec}.dnsConfig.nameservers[*]"},
		{kubeVirt: "searchDomains", causeType: invalid, virtward: "{spec}.dnsConfig.searches"},
		{kubeVirt: "searchDomains", causeType: invalid, virtward: "{spec}.dnsConfig.searches[*]"},
		{kubeVirt: "options", causeType: invalid, virtward: "{spec}.dnsConfig.options[*].name"},

		// DataVolume templates, which are dataVolumeTemplate to KubeVirt, most of the time.
		{kubeVirt: "spec.dataVolumeTemplate[i]", causeType: required, virtward: "spec.dataVolumeTemplates[i]"},
		{kubeVirt: "spec.dataVolumeTemplate[i].name", causeType: required, virtward: "spec.dataVolumeTemplates[i].metadata.name"},
		{kubeVirt: "spec.dataVolumeTemplates[i]", causeType: invalid, virtward: "spec.dataVolumeTemplates[i].metadata.namespace"},
		{kubeVirt: "spec.dataVolumeTemplate[i].PVC.Storage", virtward: "spec.dataVolumeTemplates[i].spec"},
		{kubeVirt: "spec.dataVolumeTemplate[i].source", virtward: "spec.dataVolumeTemplates[i].spec.source"},
		{kubeVirt: "spec.dataVolumeTemplate[i].source", virtward: "spec.dataVolumeTemplates[i].spec.sourceRef"},
		{kubeVirt: "spec.dataVolumeTemplate[i].source.sourceRef", virtward: "spec.dataVolumeTemplates[i].spec.source"},

		// Volume requests: KubeVirt names the whole request, or the disk that it adds.
		{kubeVirt: "Status.volumeRequests", causeType: invalid, virtward: "status.volumeRequests{below}", request: updateVM},
		{kubeVirt: "spec", causeType: notSupported, virtward: "status.volumeRequests", request: updateVM},
		{kubeVirt: "spec.domain.devices.disks[i].bootOrder", causeType: invalid, virtward: "status.volumeRequests[*].addVolumeOptions.disk.bootOrder", request: updateVM},

		// Causes without a field: memory that is missing, dropped feature gates, and updates of VMIs.
		{causeType: required, virtward: "spec.domain.memory", request: createVMI},
		{causeType: notSupported, virtward: "{spec}.domain.devices.interfaces[*].macvtap"},
		{causeType: notSupported, virtward: "{spec}.domain.devices.interfaces[*].passt"},
		{causeType: notSupported, virtward: "spec.{rest}", request: updateVMI},
		{causeType: notSupported, virtward: "metadata.labels[{rest}]", request: updateVMI},
		{causeType: invalid, virtward: "spec.domain.cpu.maxSockets", request: updateVMI},
		{causeType: invalid, virtward: "spec.domain.memory.maxGuest", request: updateVMI},
		{causeType: invalid, virtward: "spec.domain.devices.disks{below}", request: updateVMI},
		{causeType: invalid, virtward: "spec.domain.devices.filesystems[*].name", request: updateVMI},
		{causeType: invalid, virtward: "spec.volumes{below}", request: updateVMI},
		{causeType: invalid, virtward: "spec.utilityVolumes{below}", request: updateVMI},
		{causeType: invalid, virtward: "status.nodeName", request: updateVMI},
		{causeType: invalid, virtward: "status.migrationState.targetNode", request: updateVMI},
	}
}

// readAlias is an alias whose forms have become patterns.
type readAlias struct {
	alias
	kubeVirtPattern, oursPattern *regexp.Regexp
}

// readAliases is never written to.
var readAliases = readAll(aliases())

func readAll(aliases []alias) []readAlias {
	var all []readAlias
	for _, a := range aliases {
		all = append(all, readAlias{a, formPattern(a.kubeVirt), formPattern(a.virtward)})
	}
	return all
}

// formPattern matches the paths of a form; its groups are what has to be the same in both of a pair.
func formPattern(form string) *regexp.Regexp {
	pattern := strings.NewReplacer(
		`\{spec\}`, `(?P<spec>spec(?:\.template\.spec)?)`,
		`\[i\]`, `\[(?P<i>\d+)\]`,
		`\{rest\}`, `(?P<rest>.+)`,
		`\[\*\]`, `\[\d+\]`,
		`\{below\}`, `(?:[.\[].+)?`,
	).Replace(regexp.QuoteMeta(form))
	return regexp.MustCompile("^" + pattern + "$")
}

// joins reports whether the paths are a pair of these forms.
func (a *readAlias) joins(kubeVirt, virtward string) bool {
	theirParts, ourParts := a.kubeVirtPattern.FindStringSubmatch(kubeVirt), a.oursPattern.FindStringSubmatch(virtward)
	if theirParts == nil || ourParts == nil {
		return false
	}
	for i, name := range a.kubeVirtPattern.SubexpNames() {
		if j := a.oursPattern.SubexpIndex(name); j >= 0 && theirParts[i] != ourParts[j] {
			return false
		}
	}
	return true
}

// same reports whether a cause that KubeVirt gives, of a kind of request, is one of virtward. KubeVirt may name several
// paths in one string.
func same(kubeVirt, virtward Cause, request string) bool {
	return kubeVirt.Type == virtward.Type && slices.ContainsFunc(pathsIn(kubeVirt.Field), func(path string) bool {
		return path == virtward.Field || slices.ContainsFunc(readAliases, func(a readAlias) bool {
			return (a.causeType == "" || a.causeType == virtward.Type) && (a.request == "" || a.request == request) && a.joins(path, virtward.Field)
		})
	})
}

// pathsIn are the paths that a string may mean: itself, or those that it lists.
func pathsIn(text string) []string {
	if paths := strings.Split(text, ", "); len(paths) > 1 {
		return append(paths, text)
	}
	return []string{text}
}
