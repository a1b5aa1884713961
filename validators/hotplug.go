package validators

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/fieldpath"
)

const (
	gateDeclarativeHotplug = "DeclarativeHotplugVolumes"
	gateNodeRestriction    = "NodeRestriction"
	gateUtilityVolumes     = "UtilityVolumes"
)

// hotplugRules say who may change a running VMI, and what. The changes themselves come from KubeVirt's
// components, which carry over what a user changed in the VM or asked for with virtctl. An update of a VMI is
// evaluated by itself, not beside what the VMI was: so these rules report only errors that the update adds, and an old
// error does not prevent plugging a CPU.
func hotplugRules() Table {
	return Scoped(OnVMIUpdate,
		specByKubeVirtRule,
		labelsByKubeVirtRule,
		handlerOwnNodeRule,
		handlerTargetNodeRule,
		maxSocketsKeptRule,
		maxGuestKeptRule,
		volumesPairedRule,
		permanentVolumesKeptRule,
		pluggedVolumesKeptRule,
		pluggedVolumeSourceRule,
		pluggedDisksRule,
		utilityVolumesGateRule,
		utilityVolumesRule,
		utilityVolumesKeptRule,
	)
}

// updated reports whether there are two states of a VMI to compare.
func (s *Subject) updated() bool { return s.VMI != nil && s.OldVMI != nil }

// plugging reports whether KubeVirt may be changing the spec of a VMI. No other user may, so that only its
// changes are looked at closer.
func (s *Subject) plugging() bool { return s.updated() && s.ByKubeVirt() }

// specChanged compares whole specs. Most updates of a VMI are of its status: ask for this last.
func (s *Subject) specChanged() bool {
	return s.updated() && !equality.Semantic.DeepEqual(s.OldVMI.Spec, s.VMI.Spec)
}

var specByKubeVirtRule = Rule{
	ID:       "hotplug-spec-by-kubevirt",
	Title:    "Only KubeVirt changes the spec of a VMI",
	Remedy:   "Restore the field that the message names, and change the VM instead.",
	Security: true,
	Check:    specByKubeVirt,
}

func specByKubeVirt(s *Subject, found *Errors) {
	if !s.updated() || s.ByKubeVirt() || !s.specChanged() {
		return
	}
	for _, path := range changedFields(s.Path, reflect.ValueOf(s.OldVMI.Spec), reflect.ValueOf(s.VMI.Spec)) {
		found.Add(unsupportedChange(path, "only KubeVirt changes the spec of a VMI"))
	}
}

// changedFields are the fields in which two structs differ: those of the spec, of its domain and its devices.
func changedFields(path *field.Path, old, changed reflect.Value) (paths []*field.Path) {
	for i := range old.NumField() {
		a, b := old.Field(i), changed.Field(i)
		if equality.Semantic.DeepEqual(a.Interface(), b.Interface()) {
			continue
		}
		described := old.Type().Field(i)
		name, _, _ := fieldpath.Name(&described)
		switch a.Type() {
		case reflect.TypeFor[v1.DomainSpec](), reflect.TypeFor[v1.Devices]():
			paths = append(paths, changedFields(path.Child(name), a, b)...)
		default:
			paths = append(paths, path.Child(name))
		}
	}
	return paths
}

var labelsByKubeVirtRule = Rule{
	ID:       "hotplug-labels-by-kubevirt",
	Title:    "Only KubeVirt changes its own labels of a VMI",
	Remedy:   "Do not change KubeVirt's labels.",
	Security: true,
	Check:    labelsByKubeVirt,
}

func labelsByKubeVirt(s *Subject, found *Errors) {
	if !s.updated() || s.ByKubeVirt() {
		return
	}
	for _, name := range labelsOfKubeVirt {
		old, was := s.OldVMI.Labels[name]
		value, is := s.VMI.Labels[name]
		if old != value || was != is {
			found.Add(unsupportedChange(s.MetaPath.Child("labels").Key(name), "only KubeVirt adds, changes or removes this label"))
		}
	}
}

// nodeNameExtra is the attribute in which the API server names the node of a pod that uses its token.
const nodeNameExtra = "authentication.kubernetes.io/node-name"

// byRestrictedHandler reports whether a virt-handler asked that must keep to its node.
func (s *Subject) byRestrictedHandler() bool {
	return s.updated() && s.ByKubeVirt() && strings.HasSuffix(s.Requester, ":kubevirt-handler") && s.Facts.GateEnabled(gateNodeRestriction)
}

var handlerOwnNodeRule = Rule{
	ID:       "hotplug-handler-own-node",
	Title:    "virt-handler changes the VMIs of its own node only",
	Remedy:   "Find the client that uses this token of virt-handler outside its node.",
	Security: true,
	Check:    handlerOwnNode,
}

// handlerOwnNode is called only for updates that also change the spec, labels or annotations. The API server does not call
// Virtward's webhooks for updates of only the status, so that they cannot keep a VMI from running. KubeVirt's own admission
// validates these updates.
func handlerOwnNode(s *Subject, found *Errors) {
	if !s.byRestrictedHandler() {
		return
	}
	path := field.NewPath("status", "nodeName")
	source, target := s.OldVMI.Status.NodeName, migrationTarget(s.OldVMI)
	values := s.RequesterExtra[nodeNameExtra]
	if len(values) == 0 {
		found.Add(field.Invalid(path, source, "the token of virt-handler names no node"))
		return
	}
	if node := values[0]; node != source && (target == "" || node != target) {
		found.Add(field.Invalid(path, source, fmt.Sprintf("the virt-handler of node %q may not change a VMI that neither runs there nor migrates there", node)))
	}
}

var handlerTargetNodeRule = Rule{
	ID:       "hotplug-handler-target-node",
	Title:    "virt-handler does not choose where a VMI migrates to",
	Remedy:   "Find the client that uses this token. Only virt-controller chooses a target.",
	Security: true,
	Check:    handlerTargetNode,
}

// handlerTargetNode is not called for updates of only the status, like handlerOwnNode.
func handlerTargetNode(s *Subject, found *Errors) {
	if !s.byRestrictedHandler() || len(s.RequesterExtra[nodeNameExtra]) == 0 {
		return
	}
	target := migrationTarget(s.VMI)
	if migrationTarget(s.OldVMI) != "" || target == "" {
		return
	}
	found.Add(field.Invalid(field.NewPath("status", "migrationState", "targetNode"), target, "virt-handler may not choose the node that a VMI migrates to"))
}

func migrationTarget(vmi *v1.VirtualMachineInstance) string {
	if vmi.Status.MigrationState == nil {
		return ""
	}
	return vmi.Status.MigrationState.TargetNode
}

var maxSocketsKeptRule = Rule{
	ID:     "hotplug-max-sockets-kept",
	Title:  "The limit of CPU hotplug does not change while a VMI runs",
	Remedy: "Restart the VM to change cpu.maxSockets.",
	Check:  maxSocketsKept,
}

// maxSocketsKept also rejects a VMI without a CPU topology. KubeVirt completes every VMI, and its own
// admission fails on one that somehow has none.
func maxSocketsKept(s *Subject, found *Errors) {
	if !s.plugging() {
		return
	}
	path, old, changed := s.Domain().Child("cpu"), s.OldVMI.Spec.Domain.CPU, s.VMI.Spec.Domain.CPU
	switch {
	case (old == nil || changed == nil) && s.specChanged():
		found.Add(field.Required(path, "the spec of a VMI without a CPU topology cannot be changed"))
		return
	case old == nil || changed == nil || old.MaxSockets == changed.MaxSockets:
		return
	}
	found.Add(field.Invalid(path.Child("maxSockets"), changed.MaxSockets, fmt.Sprintf("must stay %d while the VMI runs", old.MaxSockets)))
}

var maxGuestKeptRule = Rule{
	ID:     "hotplug-max-guest-kept",
	Title:  "The limit of memory hotplug does not change while a VMI runs",
	Remedy: "Restart the VM to change memory.maxGuest.",
	Check:  maxGuestKept,
}

func maxGuestKept(s *Subject, found *Errors) {
	if !s.plugging() {
		return
	}
	old, changed := s.OldVMI.Spec.Domain.Memory, s.VMI.Spec.Domain.Memory
	if old == nil || changed == nil || old.MaxGuest == nil || changed.MaxGuest == nil || old.MaxGuest.Equal(*changed.MaxGuest) {
		return
	}
	found.Add(field.Invalid(s.Domain().Child("memory", "maxGuest"), changed.MaxGuest.String(), fmt.Sprintf("must stay %s while the VMI runs", old.MaxGuest.String())))
}

// added reports the errors that a changed spec has and the one before did not have. Of several equal errors, it reports
// as many as there are more.
func (s *Subject) added(faults func(*Subject, *v1.VirtualMachineInstanceSpec, *Errors), found *Errors) {
	now := all(func(found *Errors) { faults(s, &s.VMI.Spec, found) })
	if len(now) == 0 || !s.specChanged() {
		return
	}
	before := map[string]int{}
	for _, err := range all(func(found *Errors) { faults(s, &s.OldVMI.Spec, found) }) {
		before[withoutPlaces(err)]++
	}
	for _, err := range now {
		id := withoutPlaces(err)
		if before[id]--; before[id] < 0 {
			found.Add(err)
		}
	}
}

// places are those of elements in lists, which an update may move.
var places = regexp.MustCompile(`\[\d+\]`)

func withoutPlaces(err *field.Error) string { return places.ReplaceAllString(err.Error(), "[]") }

var volumesPairedRule = Rule{
	ID:     "hotplug-volumes-paired",
	Title:  "Each volume of a running VMI has one disk or filesystem, and each of these has a volume",
	Remedy: "Add or remove a volume together with its disk.",
	Check:  volumesPaired,
}

func volumesPaired(s *Subject, found *Errors) {
	if !s.plugging() {
		return
	}
	s.added(pairingFaults, found)
}

// pairingFaults looks at the whole of a spec. The volume of a memory dump needs no disk, and a CD drive may be
// empty where volumes are hot-plugged declaratively.
func pairingFaults(s *Subject, spec *v1.VirtualMachineInstanceSpec, found *Errors) {
	users := map[string]string{} // of volumes, by name
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.MemoryDump == nil {
			users[v.Name] = ""
		}
	}
	use := func(path *field.Path, name string, mayBeEmpty bool) {
		switch user, known := users[name]; {
		case !known && !mayBeEmpty:
			found.Add(field.Invalid(path.Child("name"), name, "there is no volume of this name"))
		case known && user != "":
			found.Add(field.Invalid(path.Child("name"), name, "the volume is used by "+user+" already"))
		case known:
			users[name] = path.String()
		}
	}
	emptyDrives := s.Facts.GateEnabled(gateDeclarativeHotplug)
	for i := range spec.Domain.Devices.Disks {
		d := &spec.Domain.Devices.Disks[i]
		use(s.Devices().Child("disks").Index(i), d.Name, emptyDrives && d.CDRom != nil)
	}
	for i := range spec.Domain.Devices.Filesystems {
		use(s.Devices().Child("filesystems").Index(i), spec.Domain.Devices.Filesystems[i].Name, false)
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if user, counts := users[v.Name]; counts && user == "" {
			found.Add(field.Invalid(s.Path.Child("volumes").Index(i).Child("name"), v.Name, "no disk or filesystem uses the volume"))
		}
	}
}

// storage is what of a VMI's volumes and disks matters to hotplug, by name. More than one volume of a name is a
// fault, which a VMI may have had all along.
type storage struct {
	volumes map[string][]*v1.Volume
	disks   map[string]*v1.Disk
	// at is the index of a disk in the list.
	at map[string]int
}

func storageOf(spec *v1.VirtualMachineInstanceSpec) storage {
	disks := spec.Domain.Devices.Disks
	st := storage{
		volumes: make(map[string][]*v1.Volume, len(spec.Volumes)),
		disks:   make(map[string]*v1.Disk, len(disks)), at: make(map[string]int, len(disks)),
	}
	for i := range spec.Volumes {
		name := spec.Volumes[i].Name
		st.volumes[name] = append(st.volumes[name], &spec.Volumes[i])
	}
	for i := range disks {
		st.disks[disks[i].Name], st.at[disks[i].Name] = &disks[i], i
	}
	return st
}

// has reports whether there is this very volume.
func (st *storage) has(v *v1.Volume) bool {
	return slices.ContainsFunc(st.volumes[v.Name], func(other *v1.Volume) bool { return equality.Semantic.DeepEqual(other, v) })
}

// permanentVolumes are those that the VMI started with: the status says so.
func permanentVolumes(vmi *v1.VirtualMachineInstance) map[string]bool {
	permanent := map[string]bool{}
	for i := range vmi.Status.VolumeStatus {
		if st := &vmi.Status.VolumeStatus[i]; st.HotplugVolume == nil {
			permanent[st.Name] = true
		}
	}
	return permanent
}

// migratedVolumes are those whose storage is being replaced while the VMI migrates.
func migratedVolumes(vmi *v1.VirtualMachineInstance) map[string]bool {
	migrated := map[string]bool{}
	for i := range vmi.Status.MigratedVolumes {
		migrated[vmi.Status.MigratedVolumes[i].VolumeName] = true
	}
	return migrated
}

var permanentVolumesKeptRule = Rule{
	ID:     "hotplug-permanent-volumes-kept",
	Title:  "The volumes that a VMI started with do not change",
	Remedy: "Restart the VM to change volumes that are not hot-plugged.",
	Check:  permanentVolumesKept,
}

func permanentVolumesKept(s *Subject, found *Errors) {
	if !s.plugging() {
		return
	}
	volumes, permanent, migrated := s.Path.Child("volumes"), permanentVolumes(s.OldVMI), migratedVolumes(s.VMI)
	old, changed := storageOf(&s.OldVMI.Spec), storageOf(&s.VMI.Spec)
	for i := range s.OldVMI.Spec.Volumes {
		if name := s.OldVMI.Spec.Volumes[i].Name; permanent[name] && changed.volumes[name] == nil {
			found.Add(field.Invalid(volumes, name, "the VMI started with this volume, which cannot be removed while it runs"))
		}
	}
	for i := range s.VMI.Spec.Volumes {
		v := &s.VMI.Spec.Volumes[i]
		if !permanent[v.Name] {
			continue
		}
		switch {
		case old.volumes[v.Name] == nil:
			found.Add(field.Invalid(volumes.Index(i).Child("name"), v.Name, "the VMI's status has a volume of this name that is not hot-plugged"))
		case migrated[v.Name]:
		case !old.has(v):
			found.Add(field.Invalid(volumes.Index(i), v.Name, "the VMI started with this volume, which cannot be changed while it runs"))
		default:
			s.diskKept(v.Name, &old, &changed, found)
		}
	}
}

// diskKept compares the disk of a volume that is in both states.
func (s *Subject) diskKept(name string, old, changed *storage, found *Errors) {
	before, now := old.disks[name], changed.disks[name]
	if equality.Semantic.DeepEqual(before, now) {
		return
	}
	path := s.Devices().Child("disks")
	if now != nil {
		path = path.Index(changed.at[name])
	}
	found.Add(field.Invalid(path, name, "the disk of this volume cannot be changed while the VMI runs"))
}

var pluggedVolumesKeptRule = Rule{
	ID:     "hotplug-plugged-volumes-kept",
	Title:  "A hot-plugged volume does not change",
	Remedy: "Keep the volume and its disk: unplug the volume, then plug it again.",
	Check:  pluggedVolumesKept,
}

func pluggedVolumesKept(s *Subject, found *Errors) {
	if !s.plugging() {
		return
	}
	permanent, migrated := permanentVolumes(s.OldVMI), migratedVolumes(s.VMI)
	old, changed := storageOf(&s.OldVMI.Spec), storageOf(&s.VMI.Spec)
	for i := range s.VMI.Spec.Volumes {
		v := &s.VMI.Spec.Volumes[i]
		if permanent[v.Name] || old.volumes[v.Name] == nil {
			continue
		}
		if !migrated[v.Name] && !old.has(v) {
			found.Add(field.Invalid(s.Path.Child("volumes").Index(i), v.Name, "a hot-plugged volume cannot be changed"))
		}
		if v.MemoryDump == nil {
			s.diskKept(v.Name, &old, &changed, found)
		}
	}
}

var pluggedVolumeSourceRule = Rule{
	ID:     "hotplug-volume-source",
	Title:  "A hot-plugged volume is a PersistentVolumeClaim or a DataVolume",
	Remedy: "Use persistentVolumeClaim or dataVolume.",
	Check:  pluggedVolumeSource,
}

func pluggedVolumeSource(s *Subject, found *Errors) {
	if !s.plugging() {
		return
	}
	permanent, old := permanentVolumes(s.OldVMI), storageOf(&s.OldVMI.Spec)
	for i := range s.VMI.Spec.Volumes {
		v := &s.VMI.Spec.Volumes[i]
		if permanent[v.Name] || old.volumes[v.Name] != nil || v.DataVolume != nil || v.PersistentVolumeClaim != nil || v.MemoryDump != nil {
			continue
		}
		found.Add(field.Invalid(s.Path.Child("volumes").Index(i), v.Name, "this source cannot be hot-plugged"))
	}
}

var pluggedDisksRule = Rule{
	ID:     "hotplug-disk",
	Title:  "A running guest supports each hot-plugged disk",
	Remedy: "Use a disk with bus scsi or virtio, or a lun with bus scsi.",
	Check:  pluggedDisks,
}

// pluggedDisks looks at the disks of new volumes. A disk that was there before is an empty CD drive.
func pluggedDisks(s *Subject, found *Errors) {
	if !s.plugging() {
		return
	}
	permanent, old, changed := permanentVolumes(s.OldVMI), storageOf(&s.OldVMI.Spec), storageOf(&s.VMI.Spec)
	for i := range s.VMI.Spec.Domain.Devices.Disks {
		d := &s.VMI.Spec.Domain.Devices.Disks[i]
		v := changed.volumes[d.Name]
		if len(v) == 0 || v[len(v)-1].MemoryDump != nil || permanent[d.Name] || old.volumes[d.Name] != nil || old.disks[d.Name] != nil {
			continue
		}
		hotplugDisk(s.Devices().Child("disks").Index(i), d, found)
	}
}

// hotplugDisk says why a running guest cannot take a disk.
func hotplugDisk(path *field.Path, d *v1.Disk, found *Errors) {
	var bus v1.DiskBus
	switch {
	case d.Disk != nil:
		bus = d.Disk.Bus
		if bus != v1.DiskBusSCSI && bus != v1.DiskBusVirtio {
			found.Add(field.Invalid(path.Child("disk", "bus"), bus, "must be scsi or virtio for a disk to be hot-plugged"))
		}
	case d.LUN != nil:
		bus = d.LUN.Bus
		if bus != v1.DiskBusSCSI {
			found.Add(field.Invalid(path.Child("lun", "bus"), bus, "must be scsi for a lun to be hot-plugged"))
		}
	default:
		found.Add(field.Invalid(path, d.Name, "must be a disk or a lun to be hot-plugged"))
		return
	}
	if d.DedicatedIOThread != nil && *d.DedicatedIOThread && bus != v1.DiskBusVirtio {
		found.Add(field.Invalid(path.Child("dedicatedIOThread"), true, "needs the bus virtio"))
	}
	if d.BootOrder != nil && *d.BootOrder < 1 {
		found.Add(field.Invalid(path.Child("bootOrder"), *d.BootOrder, "must be 1 or more"))
	}
}

var utilityVolumesGateRule = Rule{
	ID:       "hotplug-utility-volumes-gate",
	Title:    "Utility volumes need the feature gate UtilityVolumes",
	Remedy:   "Remove utilityVolumes, or enable the feature gate in the KubeVirt resource.",
	Security: true,
	Check:    utilityVolumesGate,
}

// utilityVolumesGate lets those be that were plugged while the gate was on.
func utilityVolumesGate(s *Subject, found *Errors) {
	if !s.plugging() || len(s.VMI.Spec.UtilityVolumes) == 0 || s.Facts.GateEnabled(gateUtilityVolumes) {
		return
	}
	old := utilityVolumesOf(&s.OldVMI.Spec)
	for i := range s.VMI.Spec.UtilityVolumes {
		v := &s.VMI.Spec.UtilityVolumes[i]
		if !equality.Semantic.DeepEqual(old[v.Name], v) {
			found.Add(field.Invalid(s.Path.Child("utilityVolumes"), field.OmitValueType{}, "need KubeVirt's feature gate "+gateUtilityVolumes))
			return
		}
	}
}

// utilityVolumesOf finds them by name.
func utilityVolumesOf(spec *v1.VirtualMachineInstanceSpec) map[string]*v1.UtilityVolume {
	volumes := make(map[string]*v1.UtilityVolume, len(spec.UtilityVolumes))
	for i := range spec.UtilityVolumes {
		volumes[spec.UtilityVolumes[i].Name] = &spec.UtilityVolumes[i]
	}
	return volumes
}

var utilityVolumesRule = Rule{
	ID:     "hotplug-utility-volumes",
	Title:  "A utility volume has a claim and a unique name",
	Remedy: "Set claimName and a unique name.",
	Check:  utilityVolumes,
}

func utilityVolumes(s *Subject, found *Errors) {
	if !s.plugging() || len(s.VMI.Spec.UtilityVolumes) == 0 || !s.Facts.GateEnabled(gateUtilityVolumes) {
		return
	}
	s.added(utilityVolumeFaults, found)
}

func utilityVolumeFaults(s *Subject, spec *v1.VirtualMachineInstanceSpec, found *Errors) {
	volumes, seen := storageOf(spec).volumes, map[string]bool{}
	for i := range spec.UtilityVolumes {
		v, path := &spec.UtilityVolumes[i], s.Path.Child("utilityVolumes").Index(i)
		if v.Name == "" {
			found.Add(field.Required(path.Child("name"), "a utility volume needs a name"))
		}
		if seen[v.Name] || volumes[v.Name] != nil {
			found.Add(field.Duplicate(path.Child("name"), v.Name))
		}
		seen[v.Name] = true
		if v.ClaimName == "" {
			found.Add(field.Required(path.Child("claimName"), fmt.Sprintf("the utility volume %q needs a PersistentVolumeClaim", shortened(v.Name))))
		}
	}
}

var utilityVolumesKeptRule = Rule{
	ID:     "hotplug-utility-volumes-kept",
	Title:  "A utility volume does not change",
	Remedy: "Unplug the utility volume, then plug it again.",
	Check:  utilityVolumesKept,
}

func utilityVolumesKept(s *Subject, found *Errors) {
	if !s.plugging() || len(s.VMI.Spec.UtilityVolumes) == 0 || !s.Facts.GateEnabled(gateUtilityVolumes) || !s.specChanged() {
		return
	}
	volumes := storageOf(&s.VMI.Spec).volumes
	permanent, old := permanentVolumes(s.OldVMI), utilityVolumesOf(&s.OldVMI.Spec)
	for i := range s.VMI.Spec.UtilityVolumes {
		v, path := &s.VMI.Spec.UtilityVolumes[i], s.Path.Child("utilityVolumes").Index(i)
		if permanent[v.Name] && volumes[v.Name] == nil && old[v.Name] == nil { // else it is a duplicate, or has been one
			found.Add(field.Invalid(path.Child("name"), v.Name, "the VMI started with a volume of this name"))
		}
		if before := old[v.Name]; before != nil && !equality.Semantic.DeepEqual(before, v) {
			found.Add(field.Invalid(path, v.Name, "a utility volume cannot be changed"))
		}
	}
}
