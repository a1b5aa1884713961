package rollouts

import (
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
)

// decision is what a rule says of a difference.
type decision struct {
	takes      Takes
	patched    bool
	reattached bool
	announced  Announcement
	reason     string
	wayOut     string
}

// rule decides about the differences of a group of fields.
type rule struct {
	id string
	// title names the fields, for the page of the rules.
	title string
	// applies reports whether the rule decides about a difference. The first rule that applies decides.
	applies func(*planner, *difference) bool
	decide  func(*planner, *difference) decision
	// usually is when such a change takes effect, and otherwise are the exceptions, for the page of the rules.
	usually   Takes
	otherwise []string
}

// rules in the order of precedence. docs/rollouts.md shows them: make generate writes it.
var rules = []rule{
	{
		"instancetype-missing", "Any field of a VM whose instancetype, preference or revision does not exist", instancetypeMissing, (*planner).untilInstancetype, Blocked,
		[]string{"NextStart for the other fields of a VM that is stopped"},
	},
	{
		"instancetype-conflict", "A field that the VM must not set beside its instancetype or preference", conflicts, (*planner).conflict, Blocked, nil,
	},
	{
		"stopped", "Any field of a VM that is stopped, or is being stopped", stopped, atNextStart, NextStart, nil,
	},
	{
		ruleFailure, "Another field at which KubeVirt fails", atFailure, (*planner).failedStep, Blocked, nil,
	},
	{
		"run-strategy", "`spec.runStrategy`, `spec.running`", at("spec.runStrategy"), runStrategy, Live, nil,
	},
	{
		"data-volume-unready", "Any field of a VM that has a dataVolumeTemplate whose DataVolume is not filled", dataVolumeUnready, untilDataVolume, Blocked, nil,
	},
	{
		"explicit-default", "Any field that gets the value which counts for the instance as a default, such as `evictionStrategy: None`", explicitDefault, nothingToDo, Live,
		[]string{"KubeVirt announces a restart nevertheless"},
	},
	{
		"sockets", "`domain.cpu.sockets`", at("domain.cpu.sockets"), (*planner).sockets, LiveOnMigration,
		[]string{"Restart for fewer sockets", "Restart beyond maxSockets of the last start", "Restart on arm64", notMigratable, "Blocked while an earlier change of sockets or a migration is in progress", underStage},
	},
	{
		"guest-memory", "`domain.memory.guest`", at("domain.memory.guest"), (*planner).guestMemory, LiveOnMigration,
		[]string{"Restart beyond maxGuest of the last start", "Restart below the memory of the last start", "Restart for a value that is not a multiple of 2Mi, or of 1Gi with hugepages of 1Gi", "Restart on other architectures than amd64, and with realtime CPUs, NUMA passthrough or encrypted memory", notMigratable, "Blocked while an earlier change of memory or a migration is in progress", underStage},
	},
	{
		"node-selector-and-affinity", "`nodeSelector`, `affinity`", at("nodeSelector", "affinity"), placement(stepAffinity), LiveOnMigration,
		[]string{"KubeVirt does not migrate the VM for it", notMigratable, "Blocked while a migration is in progress", underStage},
	},
	{
		"tolerations", "`tolerations`", at("tolerations"), placement(stepTolerations), LiveOnMigration,
		[]string{"KubeVirt does not migrate the VM for it", notMigratable, "Blocked while a migration is in progress", underStage},
	},
	{
		"volume-request", "Volumes of `virtctl addvolume` and `removevolume`", requested, volumeRequest, Live, nil,
	},
	{
		"volume-migration", "The claim of a volume, with `updateVolumesStrategy: Migration`", movesClaim, (*planner).volumeMigration, LiveOnMigration,
		[]string{"Restart for filesystems, LUNs and shareable disks", "Restart if a ReadWriteOnce volume keeps its claim", "Blocked until the new claim exists", notMigratable, underStage},
	},
	{
		"hotplug-volume", "Volumes with `hotpluggable: true`, and their disks: added, removed, or with another claim", hotplugs, (*planner).hotplug, Live,
		[]string{"Restart if the feature gate DeclarativeHotplugVolumes is off, or HotplugVolumes is on", "Restart under `updateVolumesStrategy: Migration`", "Restart for a disk whose bus is not virtio or scsi, and for a new CD-ROM drive", "Restart if a volume becomes hotpluggable"},
	},
	{
		"hotplugged-disk", "The bus, the cache, the serial and other fields of a disk with a hotpluggable volume", hotpluggedDisk, (*planner).diskOfHotplugged, Restart,
		[]string{"Live if the claim of the volume changes too"},
	},
	{
		"cd-rom-drive", "A CD-ROM drive that is removed", removesDrive, (*planner).driveRemoved, Live,
		[]string{"KubeVirt announces a restart nevertheless"},
	},
	{
		"device-order", "The order of disks or interfaces", func(_ *planner, d *difference) bool { return d.event == reordered }, deviceOrder, Restart, nil,
	},
	{
		"interface-added", "An interface with its network, added", addsInterface, (*planner).interfaceAdded, LiveOnMigration,
		[]string{"Restart for other bindings than bridge and SR-IOV, and for the pod network", notMigratable},
	},
	{
		"interface-state", "`state` of an interface: up, down or absent", changesState, (*planner).interfaceState, Live,
		[]string{"Blocked until an absent interface is unplugged", "Blocked until the status shows the name of the interface in the pod"},
	},
	{
		"interface-removed", "An interface with its network, removed from the VM", removesInterface, (*planner).interfaceRemoved, Restart, nil,
	},
	{
		"network-attachment", "`networks[].multus.networkName`", changesAttachment, (*planner).networkAttachment, LiveOnMigration,
		[]string{"Live for another way to write the same NetworkAttachmentDefinition", "KubeVirt does not migrate the VM for the default network", notMigratable},
	},
	{
		"synced-metadata", "Labels and annotations of the template that KubeVirt copies to the instance", syncedMetadata, (*planner).copiedMetadata, Live,
		[]string{"Blocked together with the annotation `kubevirt.io/skip-backup-hooks` of the VM"},
	},
	{
		"metadata", "Other labels and annotations of the template", at("spec.template.metadata"), otherMetadata, Restart, nil,
	},
	{
		"data-volume-template", "`dataVolumeTemplates`", at("spec.dataVolumeTemplates"), dataVolumeTemplate, Live,
		[]string{"Never for a template whose DataVolume exists"},
	},
	{
		"max-sockets", "`domain.cpu.maxSockets`", at("domain.cpu.maxSockets"), cold("The number of sockets that the VM can have is fixed when it starts."), Restart, nil,
	},
	{
		"max-guest", "`domain.memory.maxGuest`", at("domain.memory.maxGuest"), cold("The memory that the VM can have is fixed when it starts."), Restart, nil,
	},
	{
		"firmware-uuid", "`domain.firmware.uuid`", at("domain.firmware.uuid"), (*planner).firmwareUUID, Restart, nil,
	},
	{
		"other", "Every other field: cores, threads, CPU model, machine type, firmware, features, other devices, other volumes, host name, cloud-init …", func(*planner, *difference) bool { return true }, cold("KubeVirt applies this field only when the VM starts."), Restart, nil,
	},
}

// ruleFailure is the rule of a failure that no other rule is about.
const ruleFailure = "failure"

// Exceptions of several rules.
const (
	notMigratable = "Restart if the VM cannot be migrated"
	underStage    = "Restart under Stage, or with a field that needs one"
)

// ruleOf is the index of the first rule that applies.
func (p *planner) ruleOf(d *difference) int {
	for i := range rules {
		if rules[i].applies(p, d) {
			return i
		}
	}
	return len(rules) - 1
}

// at applies to fields and what is below them.
func at(paths ...string) func(*planner, *difference) bool {
	return func(_ *planner, d *difference) bool {
		for _, path := range paths {
			if rest, ok := strings.CutPrefix(d.path, path); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				return true
			}
		}
		return false
	}
}

func stopped(p *planner, d *difference) bool {
	return p.kubevirt.stopped && d.path != "spec.runStrategy"
}

func atNextStart(p *planner, _ *difference) decision {
	if p.in.Running != nil {
		return decision{takes: NextStart, announced: p.announcesRestart(), reason: "The VM is being stopped. The change takes effect when it starts again."}
	}
	return decision{takes: NextStart, announced: p.announcesRestart(), reason: "The VM is stopped. The change takes effect when it starts."}
}

func dataVolumeUnready(p *planner, d *difference) bool {
	return p.kubevirt.unready != "" && !strings.HasPrefix(d.path, "spec.dataVolumeTemplates")
}

func untilDataVolume(p *planner, _ *difference) decision {
	return decision{
		takes: Blocked, announced: p.announcesRestart(),
		reason: shortened("KubeVirt applies no change of the VM until the DataVolume " + p.kubevirt.unready + " is filled."),
		wayOut: "Wait for the DataVolume, or repair it.",
	}
}

func runStrategy(*planner, *difference) decision {
	return decision{takes: Live, reason: "KubeVirt starts or stops the VM as the run strategy says."}
}

func explicitDefault(_ *planner, d *difference) bool { return d.event == explicit }

func nothingToDo(p *planner, _ *difference) decision {
	return decision{takes: Live, announced: p.announcesRestart(), reason: "The VM already runs with this value, so that nothing changes."}
}

// announcesRestart is ByRestartRequired if KubeVirt sets that condition for any reason.
func (p *planner) announcesRestart() Announcement {
	if p.kubevirt.restart != "" {
		return ByRestartRequired
	}
	return Silent
}

// cold decides about a field that KubeVirt never updates live.
func cold(reason string) func(*planner, *difference) decision {
	return func(p *planner, _ *difference) decision {
		return decision{takes: Restart, announced: p.announcesRestart(), reason: reason, wayOut: wayOutRestart}
	}
}

const wayOutRestart = "Restart the VM: virtctl restart NAME."

func (p *planner) firmwareUUID(d *difference) decision {
	v := cold("The guest sees another firmware UUID after the restart. Licenses may depend on it.")(p, d)
	if uuidOf(p.wanted) == "" {
		v.reason = "Without a UUID, KubeVirt writes one that it derives from the name of the VM. The guest sees it after the restart."
	}
	return v
}

func deviceOrder(p *planner, _ *difference) decision {
	return decision{takes: Restart, announced: p.announcesRestart(), reason: "The guest gets its devices in the new order when the VM starts.", wayOut: wayOutRestart}
}

func syncedMetadata(p *planner, d *difference) bool {
	switch {
	case strings.HasPrefix(d.path, "metadata.annotations"):
		return true
	case strings.HasPrefix(d.path, "spec.template.metadata.labels"):
		return p.syncsLabel(d.name)
	case strings.HasPrefix(d.path, "spec.template.metadata.annotations"):
		return p.syncsAnnotation(d.name)
	}
	return false
}

func (p *planner) copiedMetadata(*difference) decision {
	o := &p.kubevirt.outcomes[stepMetadata]
	switch {
	case o.failure != "":
		return decision{
			takes: Blocked, announced: ByFailure, reason: "KubeVirt cannot write this annotation and kubevirt.io/skip-backup-hooks in one update.",
			wayOut: "Revert one of the two annotations, and set it again later.",
		}
	case !o.ran:
		return p.halted()
	}
	return decision{takes: Live, patched: true, reason: "KubeVirt copies it to the running instance."}
}

func otherMetadata(p *planner, _ *difference) decision {
	return decision{
		takes: Restart, announced: p.announcesRestart(), reason: "KubeVirt copies it to the instance only when the VM starts.",
		wayOut: "Restart the VM, or set it on the VirtualMachineInstance too.",
	}
}

func dataVolumeTemplate(_ *planner, d *difference) decision {
	if d.event == added {
		return decision{takes: Live, reason: "KubeVirt creates the DataVolume."}
	}
	return decision{
		takes: Never, reason: "The DataVolume exists, and KubeVirt does not change it. The template only counts for a new one.",
		wayOut: "Change the PersistentVolumeClaim, or use a template with another name.",
	}
}

// halted decides about a step that does not run because an earlier one fails.
func (p *planner) halted() decision {
	return decision{
		takes: Blocked, announced: ByFailure, reason: "KubeVirt fails at another change of the VM (" + p.kubevirt.failure + "), and applies nothing after it.",
		wayOut: "Revert or correct the other change.",
	}
}

// waiting decides about a live step that does not run; ok is false if it runs.
func (p *planner) waiting(step int) (v decision, ok bool) {
	switch {
	case p.kubevirt.outcomes[step].ran:
		return decision{}, false
	case !p.facts.LiveUpdate:
		return decision{takes: Restart, announced: p.announcesRestart(), reason: "The rollout strategy of the cluster is Stage: changes wait for a restart.", wayOut: wayOutRestart}, true
	case p.kubevirt.waits:
		return decision{
			takes: Restart, announced: p.announcesRestart(), reason: shortened(p.otherField() + " needs a restart. Until then, KubeVirt applies no live change of this kind."),
			wayOut: "Restart the VM, or revert the other field.",
		}, true
	}
	return p.halted(), true
}

// otherField names the field for which live changes wait.
func (p *planner) otherField() string {
	if p.coldField == "" {
		return "Another changed field"
	}
	return "The changed field " + p.coldField
}

// migration decides about a change that the instance has, and that the guest gets with a migration. KubeVirt starts it
// for some changes.
func (p *planner) migration(started bool) decision {
	v := decision{takes: LiveOnMigration, patched: true}
	migrates, evicts := p.updates(v1.WorkloadUpdateMethodLiveMigrate), p.updates(v1.WorkloadUpdateMethodEvict)
	if started {
		v.announced = ByCondition
	}
	switch migratable := p.in.migratable(); {
	case started && migrates && migratable:
		v.reason = "KubeVirt migrates the VM, and the guest gets the change with the migration."
	case started && evicts && migratable && p.evictionMigrates():
		v.reason = "KubeVirt evicts the VM, which migrates it. The guest gets the change with the migration."
	case started && evicts:
		v.takes, v.reason, v.wayOut = Restart, "KubeVirt evicts the VM to apply the change: the guest is shut down.", "Change the field when the VM may restart."
	case migratable:
		v.reason, v.wayOut = "The guest gets the change with the next live migration. KubeVirt does not start one.", "Migrate the VM: virtctl migrate NAME."
	default:
		v.takes, v.reason, v.wayOut = Restart, p.whyNotMigratable(), wayOutRestart
	}
	return v
}

func (p *planner) whyNotMigratable() string {
	const text = "The change needs a live migration, and the VM cannot be migrated"
	if _, message := p.in.condition(v1.VirtualMachineInstanceIsMigratable); message != "" {
		return shortened(text + ": " + strings.TrimSuffix(message, ".") + ".")
	}
	return text + "."
}

func (p *planner) updates(method v1.WorkloadUpdateMethod) bool {
	return slices.Contains(p.facts.WorkloadUpdateMethods, method)
}

// evictionMigrates reports whether an eviction of the pod migrates the VM.
func (p *planner) evictionMigrates() bool {
	strategy := p.evictsAs(p.running)
	return strategy == v1.EvictionStrategyLiveMigrate || strategy == v1.EvictionStrategyLiveMigrateIfPossible
}
