package migrations

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/texts"
)

// Machine is a running instance, or one that has not started yet.
type Machine struct {
	VMI *v1.VirtualMachineInstance
	// Pod is the launcher on the node of the instance; nil if it has not started yet.
	Pod *corev1.Pod
	// Claims has the access modes of claims; nil for those in the status of the instance.
	Claims Claims
}

// Claims returns the access modes of a claim. The error says why they are not known.
type Claims func(name string) ([]corev1.PersistentVolumeAccessMode, error)

// claimOf is the name of the claim of a volume, which two nodes must be able to use during a migration; empty if it has none.
func claimOf(v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.DataVolume != nil:
		return v.DataVolume.Name
	}
	return ""
}

var errNoStatus = errors.New("the status of the instance does not have them")

// accessModes are those of the claim of a volume.
func (m *Machine) accessModes(v *v1.Volume) ([]corev1.PersistentVolumeAccessMode, error) {
	if m.Claims != nil {
		return m.Claims(claimOf(v))
	}
	for i := range m.VMI.Status.VolumeStatus {
		if s := &m.VMI.Status.VolumeStatus[i]; s.Name == v.Name && s.PersistentVolumeClaimInfo != nil {
			return s.PersistentVolumeClaimInfo.AccessModes, nil
		}
	}
	return nil, errNoStatus
}

// unknownClaim says why the access modes of a claim are not known; nil if all are.
func (m *Machine) unknownClaim() error {
	for i := range m.VMI.Spec.Volumes {
		v := &m.VMI.Spec.Volumes[i]
		if claim := claimOf(v); claim != "" {
			if _, err := m.accessModes(v); err != nil {
				return fmt.Errorf("the access modes of the claim %s are not known: %w", claim, err)
			}
		}
	}
	return nil
}

// Blocker is why an instance cannot migrate at all, whatever the nodes are.
type Blocker struct {
	// Reason is that of KubeVirt's condition LiveMigratable.
	Reason string `json:"reason"`
	Text   string `json:"text"`
	// Field of the instance; empty if only the condition says it.
	Field  string `json:"field,omitempty"`
	Change string `json:"change,omitempty"`
	// Temporary blockers end without a change.
	Temporary bool `json:"temporary,omitempty"`
}

// Result says whether and where an instance can migrate.
type Result struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node"`
	// Blockers keep it from migrating at all.
	Blockers []Blocker `json:"blockers,omitempty"`
	// Targets are the nodes that can take it, at most MaxTargets, and TargetCount is how many there are.
	Targets     []string `json:"targets,omitempty"`
	TargetCount int      `json:"targetCount"`
	// NotChecked are the objects that decide about the nodes too, but no check reads, such as ResourceClaims that are not allocated.
	NotChecked []string `json:"notChecked,omitempty"`
	// Groups are the reasons of the other nodes.
	Groups []placement.Group `json:"groups,omitempty"`
	// EvictionStrategy is what KubeVirt does when its node is drained.
	EvictionStrategy v1.EvictionStrategy `json:"evictionStrategy"`
}

// MaxTargets bounds the names of nodes of a result.
const MaxTargets = 100

// Migratable reports whether the instance can migrate now.
func (r *Result) Migratable() bool { return len(r.Blockers) == 0 && r.TargetCount > 0 }

// Stranded reports whether a drain of the node cannot move the instance.
func (r *Result) Stranded() bool { return !r.Migratable() }

// blocker is a row of the table.
type blocker struct {
	reason string
	// blocks returns what blocks the migration, and the field; no text if nothing does.
	blocks    func(m *Machine, facts *platform.Facts) (text, field, change string)
	temporary bool
}

// ReasonMigrating is the reason of an instance that migrates already. KubeVirt has no condition for it: it denies a second migration.
const ReasonMigrating = "MigrationInProgress"

// blockers are in the order of virt-handler.
func blockers() []blocker {
	return []blocker{
		{reason: v1.VirtualMachineInstanceReasonDisksNotMigratable, blocks: localDisks},
		{reason: v1.VirtualMachineInstanceReasonInterfaceNotMigratable, blocks: interfaces},
		{reason: v1.VirtualMachineInstanceReasonHostDeviceNotMigratable, blocks: hostDevices},
		{reason: v1.VirtualMachineInstanceReasonSEVNotMigratable, blocks: encrypted(func(_ *v1.VirtualMachineInstance, s *v1.LaunchSecurity) bool { return s.SEV != nil || s.SNP != nil }, "SEV")},
		{reason: v1.VirtualMachineInstanceReasonTDXNotMigratable, blocks: encrypted(func(_ *v1.VirtualMachineInstance, s *v1.LaunchSecurity) bool {
			return s.SEV == nil && s.SNP == nil && s.TDX != nil
		}, "TDX")},
		{reason: v1.VirtualMachineInstanceReasonSecureExecutionNotMigratable, blocks: encrypted(func(vmi *v1.VirtualMachineInstance, _ *v1.LaunchSecurity) bool {
			return vmi.Spec.Architecture == architectures.S390X
		}, "Secure Execution")},
		{reason: v1.VirtualMachineInstanceReasonPRNotMigratable, blocks: reservations},
		{reason: v1.VirtualMachineInstanceReasonNoTSCFrequencyMigratable, blocks: noFrequency},
		{reason: v1.VirtualMachineInstanceReasonHypervPassthroughNotMigratable, blocks: hypervPassthrough},
		{reason: v1.VirtualMachineInstanceReasonCPUModeNotMigratable, blocks: passthroughCPU},
		{reason: ReasonMigrating, blocks: migrating, temporary: true},
	}
}

// blockerRows is blockers. It is not changed.
var blockerRows = blockers()

// Blockers are why an instance cannot migrate: what its spec and its volumes say, and KubeVirt's condition if that says more.
func Blockers(m *Machine, facts *platform.Facts) []Blocker {
	var found []Blocker
	for i := range blockerRows {
		if text, field, change := blockerRows[i].blocks(m, facts); text != "" {
			found = append(found, Blocker{Reason: blockerRows[i].reason, Text: text, Field: field, Change: change, Temporary: blockerRows[i].temporary})
		}
	}
	for i := range m.VMI.Status.Conditions {
		c := &m.VMI.Status.Conditions[i]
		known := slices.ContainsFunc(found, func(b Blocker) bool { return b.Reason == c.Reason })
		if c.Type == v1.VirtualMachineInstanceIsMigratable && c.Status == corev1.ConditionFalse && !known {
			found = append(found, Blocker{Reason: c.Reason, Text: "KubeVirt says: " + c.Message})
		}
	}
	return found
}

// lastingly reports whether one of the blockers is not temporary.
func lastingly(all []Blocker) bool {
	return slices.ContainsFunc(all, func(b Blocker) bool { return !b.Temporary })
}

// localDisks are claims that only one node can mount, and files of the node. A claim with unknown access modes is none of them, and neither
// is one to which a migration copies the disk.
func localDisks(m *Machine, _ *platform.Facts) (text, field, change string) {
	for i := range m.VMI.Spec.Volumes {
		v := &m.VMI.Spec.Volumes[i]
		path := "spec.volumes[" + strconv.Itoa(i) + "]"
		if v.HostDisk != nil && (v.HostDisk.Shared == nil || !*v.HostDisk.Shared) {
			return "the disk " + v.Name + " is a file of the node", path, "use a claim with ReadWriteMany"
		}
		claim := claimOf(v)
		if claim == "" || m.copied(v.Name) != "" {
			continue
		}
		if modes, err := m.accessModes(v); err == nil && !slices.Contains(modes, corev1.ReadWriteMany) {
			return fmt.Sprintf("the claim %s of the volume %s is not ReadWriteMany", claim, v.Name), path, "move the volume to a claim with ReadWriteMany"
		}
	}
	return "", "", ""
}

// interfaces are bindings of the pod network that cannot move.
func interfaces(m *Machine, facts *platform.Facts) (text, field, change string) {
	pod := ""
	for i := range m.VMI.Spec.Networks {
		if m.VMI.Spec.Networks[i].Pod != nil {
			pod = m.VMI.Spec.Networks[i].Name
		}
	}
	all := m.VMI.Spec.Domain.Devices.Interfaces
	for i := range all {
		n := &all[i]
		path := "spec.domain.devices.interfaces[" + strconv.Itoa(i) + "]"
		_, allowed := m.VMI.Annotations[v1.AllowPodBridgeNetworkLiveMigrationAnnotation]
		switch {
		case n.Name == pod && n.Bridge != nil && !allowed:
			return "the interface " + n.Name + " connects the pod network with a bridge", path, "use masquerade, or the annotation " + v1.AllowPodBridgeNetworkLiveMigrationAnnotation
		case n.Binding != nil && !pluginMigrates(facts, n.Binding.Name):
			return "the network binding plugin " + n.Binding.Name + " of the interface " + n.Name + " does not support migration", path, "use another binding"
		}
	}
	return "", "", ""
}

func pluginMigrates(facts *platform.Facts, name string) bool {
	network := facts.Configuration.NetworkConfiguration
	return network != nil && network.Binding[name].Migration != nil
}

func hostDevices(m *Machine, _ *platform.Facts) (text, field, change string) {
	d := &m.VMI.Spec.Domain.Devices
	switch {
	case len(d.HostDevices) > 0:
		return "it has the host device " + d.HostDevices[0].DeviceName, "spec.domain.devices.hostDevices[0]", "remove the device"
	case len(d.GPUs) > 0:
		return "it has the GPU " + d.GPUs[0].DeviceName, "spec.domain.devices.gpus[0]", "remove the device"
	}
	return "", "", ""
}

// encrypted is for a guest whose memory is encrypted by its node, with the technology that the function recognizes.
func encrypted(is func(*v1.VirtualMachineInstance, *v1.LaunchSecurity) bool, technology string) func(*Machine, *platform.Facts) (text, field, change string) {
	return func(m *Machine, _ *platform.Facts) (text, field, change string) {
		if security := m.VMI.Spec.Domain.LaunchSecurity; security == nil || !is(m.VMI, security) {
			return "", "", ""
		}
		return "its memory is encrypted by the node with " + technology, "spec.domain.launchSecurity", "remove the encryption"
	}
}

// noFrequency is a guest that measures time with a counter of which virt-controller has not fixed the frequency. KubeVirt blocks the one
// with Hyper-V reenlightenment; QEMU does not migrate the one with invtsc.
func noFrequency(m *Machine, _ *platform.Facts) (text, field, change string) {
	if field = launcher.TSCField(&m.VMI.Spec); field == "" || launcher.TSCFrequency(m.VMI) > 0 {
		return "", "", ""
	}
	return "it needs a fixed frequency of the time stamp counter, which no node had when it started", field, "remove the feature, or restart it when nodes have the label " + v1.CPUTimerLabel + "tsc-frequency"
}

// migrating is an instance with a migration that has not ended.
func migrating(m *Machine, _ *platform.Facts) (text, field, change string) {
	s := m.VMI.Status.MigrationState
	if s == nil || s.MigrationUID == "" || s.Completed || s.Failed {
		return "", "", ""
	}
	text = "it migrates already"
	if s.TargetNode != "" {
		text += " to " + s.TargetNode
	}
	if volumes := m.VMI.Status.MigratedVolumes; len(volumes) > 0 {
		text += ", with " + texts.Count(len(volumes), "volume", "volumes")
	}
	return text, "status.migrationState", "wait until the migration ends"
}

// copied is the claim to which the migration of an instance copies a volume; empty if the volume stays.
func (m *Machine) copied(volume string) string {
	for i := range m.VMI.Status.MigratedVolumes {
		if v := &m.VMI.Status.MigratedVolumes[i]; v.VolumeName == volume && v.DestinationPVCInfo != nil {
			return v.DestinationPVCInfo.ClaimName
		}
	}
	return ""
}

func reservations(m *Machine, _ *platform.Facts) (text, field, change string) {
	disks := m.VMI.Spec.Domain.Devices.Disks
	for i := range disks {
		if disks[i].LUN != nil && disks[i].LUN.Reservation {
			return "the disk " + disks[i].Name + " has SCSI reservations", "spec.domain.devices.disks[" + strconv.Itoa(i) + "].lun.reservation", "remove the reservation"
		}
	}
	return "", "", ""
}

func hypervPassthrough(m *Machine, _ *platform.Facts) (text, field, change string) {
	f := m.VMI.Spec.Domain.Features
	if f == nil || f.HypervPassthrough == nil || f.HypervPassthrough.Enabled != nil && !*f.HypervPassthrough.Enabled {
		return "", "", ""
	}
	return "it takes the Hyper-V features of its node", "spec.domain.features.hypervPassthrough", "name the features in spec.domain.features.hyperv"
}

// passthroughCPU is not one of KubeVirt's blockers; its migration fails if the CPUs of the nodes differ.
func passthroughCPU(m *Machine, _ *platform.Facts) (text, field, change string) {
	cpu := m.VMI.Spec.Domain.CPU
	if cpu == nil || cpu.Model != v1.CPUModeHostPassthrough {
		return "", "", ""
	}
	return "it has the CPU of its node, which other nodes need not have", "spec.domain.cpu.model", "name a CPU model that the nodes have in common"
}

// Check finds out where an instance can migrate to. Its own pod counts where it runs.
func Check(m *Machine, s *placement.Snapshot, facts *platform.Facts) *Result {
	r := &Result{Namespace: m.VMI.Namespace, Name: m.VMI.Name, Node: m.VMI.Status.NodeName, Blockers: Blockers(m, facts), EvictionStrategy: strategy(m, facts)}
	if m.Pod == nil {
		return r
	}
	p := s.Place(&placement.Subject{Pod: target(m, s), VMI: m.VMI})
	r.Groups, r.NotChecked = p.Groups(r.Node), p.NotChecked
	for i := range p.Len() {
		if p.Node(i) == r.Node || !p.Fits(i) {
			continue
		}
		if r.TargetCount++; len(r.Targets) < MaxTargets {
			r.Targets = append(r.Targets, p.Node(i))
		}
	}
	return r
}

// strategy is what a drain does with the instance.
func strategy(m *Machine, facts *platform.Facts) v1.EvictionStrategy {
	switch {
	case m.VMI.Spec.EvictionStrategy != nil:
		return *m.VMI.Spec.EvictionStrategy
	case facts.EvictionStrategy != nil:
		return *facts.EvictionStrategy
	}
	return v1.EvictionStrategyNone
}

// target is the pod that KubeVirt makes on the node to which the instance migrates: that of the source, but not on its node, with the claims
// to which volumes are copied, and for a CPU model of the host with the labels that the node of the source has for migrations.
func target(m *Machine, s *placement.Snapshot) *corev1.Pod {
	p := m.Pod.DeepCopy()
	p.Name, p.Spec.NodeName, p.Status = "", "", corev1.PodStatus{}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if claim := m.copied(v.Name); claim != "" && v.PersistentVolumeClaim != nil {
			v.PersistentVolumeClaim.ClaimName = claim
		}
	}
	if p.Spec.NodeSelector == nil {
		p.Spec.NodeSelector = map[string]string{}
	}
	maps.Copy(p.Spec.NodeSelector, hostModel(m.VMI, s.NodeLabels(m.VMI.Status.NodeName)))
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &corev1.Affinity{}
	}
	if p.Spec.Affinity.PodAntiAffinity == nil {
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	required := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	*required = append(*required, corev1.PodAffinityTerm{
		TopologyKey:   corev1.LabelHostname,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1.CreatedByLabel: string(m.VMI.UID)}},
	})
	return p
}

// ofHost reports whether the guest has the CPU model of its host.
func ofHost(vmi *v1.VirtualMachineInstance) bool {
	cpu := vmi.Spec.Domain.CPU
	return cpu == nil || cpu.Model == "" || cpu.Model == v1.CPUModeHostModel
}

// hostModel are the labels that a node needs to take an instance with the CPU model of its host.
func hostModel(vmi *v1.VirtualMachineInstance, source map[string]string) map[string]string {
	if !ofHost(vmi) {
		return nil
	}
	return placement.HostModelDemands(source)
}

// CommonModels are the CPU models that all of the nodes support, sorted. Without nodes, there are none.
func CommonModels(nodes []map[string]string) []string {
	counts := map[string]int{}
	for _, labels := range nodes {
		for key, value := range labels {
			if model, ok := strings.CutPrefix(key, v1.CPUModelLabel); ok && value == "true" {
				counts[model]++
			}
		}
	}
	return slices.Sorted(maps.Keys(keep(counts, len(nodes))))
}

func keep(counts map[string]int, n int) map[string]int {
	maps.DeleteFunc(counts, func(_ string, count int) bool { return count < n })
	return counts
}

// generations are the CPU models of amd64 that KubeVirt's nodes have labels for, from the oldest to the newest of each vendor.
var generations = []string{
	"486", "pentium", "pentium2", "pentium3", "coreduo", "kvm32", "qemu32", "n270", "core2duo", "kvm64", "qemu64", "Conroe", "Penryn", "Nehalem", "Westmere", "SandyBridge", "IvyBridge",
	"Haswell", "Broadwell", "Skylake-Client", "Skylake-Server", "Cascadelake-Server", "Cooperlake", "Icelake-Client", "Icelake-Server", "Snowridge", "SapphireRapids", "GraniteRapids", "SierraForest",
	"phenom", "athlon", "Opteron_G1", "Opteron_G2", "Opteron_G3", "Opteron_G4", "Opteron_G5", "EPYC", "EPYC-Rome", "EPYC-Milan", "EPYC-Genoa", "EPYC-Turin",
}

// Highest is the newest of some CPU models; empty if none is known. Variants of a model, such as Haswell-noTSX, count as the model.
func Highest(models []string) string {
	best, at := "", -1
	for _, model := range models {
		for i, generation := range generations {
			if (model == generation || strings.HasPrefix(model, generation+"-")) && (i > at || i == at && len(model) < len(best)) {
				best, at = model, i
			}
		}
	}
	return best
}
