package conformance

import (
	"regexp"
	"slices"
	"strings"
)

// alias is a path that KubeVirt gets wrong, and the field of the object that it means by it. Both are forms, in
// which
//
//	{spec}   is spec or spec.template.spec,
//	[i]      is some index,
//	{rest}   is what a path goes on with,
//	[*]      is any index, and
//	{below}  is the field itself or anything below it.
//
// {spec}, [i] and {rest} are the same in both paths of a pair where both forms have them.
type alias struct {
	kubeVirt string
	// causeType of the causes that this is about; any if empty.
	causeType string
	ours      string
	// request that this is about, kind and operation; any if empty.
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

// aliases are all of KubeVirt's odd paths that are known.
func aliases() []alias {
	return []alias{
		// Fields whose parents are left out.
		{kubeVirt: "{spec}.GPUs", ours: "{spec}.domain.devices.gpus"},
		{kubeVirt: "{spec}.HostDevices", ours: "{spec}.domain.devices.hostDevices"},
		{kubeVirt: "{spec}.Sound", ours: "{spec}.domain.devices.sound"},
		{kubeVirt: "{spec}.video", ours: "{spec}.domain.devices.video"},
		{kubeVirt: "{spec}.acpi", ours: "{spec}.domain.firmware.acpi"},
		{kubeVirt: "{spec}.acpi.{rest}", ours: "{spec}.domain.firmware.acpi.{rest}"},
		{kubeVirt: "{spec}.launchSecurity", ours: "{spec}.domain.launchSecurity"},
		{kubeVirt: "{spec}[i].bootOrder", ours: "{spec}.domain.devices.interfaces[i].bootOrder"},
		{kubeVirt: "{spec}.nodeAffinity.{rest}", ours: "{spec}.affinity.nodeAffinity.{rest}"},
		{kubeVirt: "{spec}.podAffinity.{rest}", ours: "{spec}.affinity.podAffinity.{rest}"},
		{kubeVirt: "{spec}.podAntiAffinity.{rest}", ours: "{spec}.affinity.podAntiAffinity.{rest}"},

		// Fields that are doubled, misplaced or named otherwise.
		{kubeVirt: "{spec}.domain.features.hyperv.domain.features.hyperv.{rest}", ours: "{spec}.domain.features.hyperv.{rest}"},
		{kubeVirt: "{spec}.domain.devices.disks.domain.devices.disks.disk[i].pciAddress", ours: "{spec}.domain.devices.disks[i].disk.pciAddress"},
		{kubeVirt: "{spec}.domain.devices.disks.domain.devices.disks[i]", causeType: notSupported, ours: "{spec}.domain.devices.disks[i].dedicatedIOThread"},
		{kubeVirt: "{spec}.domain.devices.disks.domain.devices.disks[i].{rest}", ours: "{spec}.domain.devices.disks[i].{rest}"},
		{kubeVirt: "{spec}.domain.ioThreads.count", ours: "{spec}.domain.ioThreads.supplementalPoolThreadCount"},
		{kubeVirt: "{spec}.domain.volumes[i]", ours: "{spec}.volumes[i]"},
		{kubeVirt: "{spec}.domain.volumes[i].{rest}", ours: "{spec}.volumes[i].{rest}"},
		{kubeVirt: "{spec}.volumes[i].name", causeType: required, ours: "{spec}.volumes[i].dataVolume.name"},
		{kubeVirt: "{spec}.interfaces", causeType: duplicate, ours: "{spec}.networks"},
		{kubeVirt: "{spec}.topologySpreadConstraints[i].{topologyKey, whenUnsatisfiable}", ours: "{spec}.topologySpreadConstraints[i]"},
		{kubeVirt: "{spec}.domain.cpu.dedicatedCPUPlacement", ours: "{spec}.domain.cpu.dedicatedCpuPlacement"},
		{kubeVirt: "spec.domain.devices.interfaces[i].macvtap", causeType: invalid, ours: "spec.template.spec.domain.devices.interfaces[i].macvtap"},
		{kubeVirt: "spec.domain.devices.interfaces[i].passt", causeType: invalid, ours: "spec.template.spec.domain.devices.interfaces[i].passt"},
		{kubeVirt: "spec.domain.devices.interfaces[i].slirp", causeType: invalid, ours: "spec.template.spec.domain.devices.interfaces[i].slirp"},
		{kubeVirt: "instancetype.spec.cpu.guest", ours: "spec.instancetype"},
		{kubeVirt: "annotations.{rest}", ours: "spec.template.metadata.annotations[{rest}]"},

		// Lists without the index of what is wrong in them.
		{kubeVirt: "{spec}.domain.devices.disks.luns.reservation", ours: "{spec}.domain.devices.disks[*].lun.reservation"},
		{kubeVirt: "{spec}.topologySpreadConstraints.labelSelector.{rest}", ours: "{spec}.topologySpreadConstraints[*].labelSelector.{rest}"},
		{kubeVirt: "{spec}.podAffinity.{rest}.namespace", ours: "{spec}.affinity.podAffinity.{rest}.namespaces[*]"},
		{kubeVirt: "{spec}.podAntiAffinity.{rest}.namespace", ours: "{spec}.affinity.podAntiAffinity.{rest}.namespaces[*]"},
		{kubeVirt: "{spec}", causeType: invalid, ours: "{spec}.domain.devices.interfaces[*].dhcpOptions.privateOptions[*].option"},
		{kubeVirt: "nameservers", ours: "{spec}.dnsConfig.nameservers"},
		{kubeVirt: "nameservers", causeType: invalid, ours: "{spec}.dnsConfig.nameservers[*]"},
		{kubeVirt: "searchDomains", causeType: invalid, ours: "{spec}.dnsConfig.searches"},
		{kubeVirt: "searchDomains", causeType: invalid, ours: "{spec}.dnsConfig.searches[*]"},
		{kubeVirt: "options", causeType: invalid, ours: "{spec}.dnsConfig.options[*].name"},

		// DataVolume templates, which are dataVolumeTemplate to KubeVirt, most of the time.
		{kubeVirt: "spec.dataVolumeTemplate[i]", causeType: required, ours: "spec.dataVolumeTemplates[i]"},
		{kubeVirt: "spec.dataVolumeTemplate[i].name", causeType: required, ours: "spec.dataVolumeTemplates[i].metadata.name"},
		{kubeVirt: "spec.dataVolumeTemplates[i]", causeType: invalid, ours: "spec.dataVolumeTemplates[i].metadata.namespace"},
		{kubeVirt: "spec.dataVolumeTemplate[i].PVC.Storage", ours: "spec.dataVolumeTemplates[i].spec"},
		{kubeVirt: "spec.dataVolumeTemplate[i].source", ours: "spec.dataVolumeTemplates[i].spec.source"},
		{kubeVirt: "spec.dataVolumeTemplate[i].source", ours: "spec.dataVolumeTemplates[i].spec.sourceRef"},
		{kubeVirt: "spec.dataVolumeTemplate[i].source.sourceRef", ours: "spec.dataVolumeTemplates[i].spec.source"},

		// Volume requests, of which KubeVirt names the whole, or the disk that will come of one.
		{kubeVirt: "Status.volumeRequests", causeType: invalid, ours: "status.volumeRequests{below}", request: updateVM},
		{kubeVirt: "spec", causeType: notSupported, ours: "status.volumeRequests", request: updateVM},
		{kubeVirt: "spec.domain.devices.disks[i].bootOrder", causeType: invalid, ours: "status.volumeRequests[*].addVolumeOptions.disk.bootOrder", request: updateVM},

		// Causes without a field: memory that is missing, dropped feature gates, and updates of VMIs.
		{causeType: required, ours: "spec.domain.memory", request: createVMI},
		{causeType: notSupported, ours: "{spec}.domain.devices.interfaces[*].macvtap"},
		{causeType: notSupported, ours: "{spec}.domain.devices.interfaces[*].passt"},
		{causeType: notSupported, ours: "spec.{rest}", request: updateVMI},
		{causeType: notSupported, ours: "metadata.labels[{rest}]", request: updateVMI},
		{causeType: invalid, ours: "spec.domain.cpu.maxSockets", request: updateVMI},
		{causeType: invalid, ours: "spec.domain.memory.maxGuest", request: updateVMI},
		{causeType: invalid, ours: "spec.domain.devices.disks{below}", request: updateVMI},
		{causeType: invalid, ours: "spec.domain.devices.filesystems[*].name", request: updateVMI},
		{causeType: invalid, ours: "spec.volumes{below}", request: updateVMI},
		{causeType: invalid, ours: "spec.utilityVolumes{below}", request: updateVMI},
		{causeType: invalid, ours: "status.nodeName", request: updateVMI},
		{causeType: invalid, ours: "status.migrationState.targetNode", request: updateVMI},
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
		all = append(all, readAlias{a, formPattern(a.kubeVirt), formPattern(a.ours)})
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
func (a *readAlias) joins(kubeVirt, ours string) bool {
	theirParts, ourParts := a.kubeVirtPattern.FindStringSubmatch(kubeVirt), a.oursPattern.FindStringSubmatch(ours)
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

// same reports whether a cause that KubeVirt gives, of a kind of request, is one of ours. KubeVirt may name several
// paths in one string.
func same(kubeVirt, ours Cause, request string) bool {
	return kubeVirt.Type == ours.Type && slices.ContainsFunc(pathsIn(kubeVirt.Field), func(path string) bool {
		return path == ours.Field || slices.ContainsFunc(readAliases, func(a readAlias) bool {
			return (a.causeType == "" || a.causeType == ours.Type) && (a.request == "" || a.request == request) && a.joins(path, ours.Field)
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
