package validators

import (
	"fmt"
	"slices"

	k8sv1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
)

// volumeRequestRules check status.volumeRequests of a VM: the requests of virtctl to plug and unplug volumes that KubeVirt
// has not done yet.
//
// virtctl writes these requests to the status, through virtualmachines/status. Virtward has no webhook there: it never
// denies updates of a status. So these rules apply if the VM itself is changed, or created with a status, while there
// are requests. Their remedies explain this.
func volumeRequestRules() Table {
	return Scoped(OnVM,
		volumeRequestKindsRule,
		volumeRequestsOnceRule,
		volumeRequestDisksRule,
		volumeRequestNamesRule,
		volumeRequestsFitRule,
		volumeRequestHugepagesRule,
		volumeRequestsFitInstanceRule,
		volumeRequestsWhileMigratingRule,
	)
}

// whenEvaluated ends the remedies of these rules.
const whenEvaluated = " Requests are evaluated only when the VM itself is changed: they are written into its status, which is never blocked."

// volumeRequests are those of a VM, and their path.
func (s *Subject) volumeRequests() (*field.Path, []v1.VirtualMachineVolumeRequest) {
	if s.VM == nil {
		return volumeRequestsPath, nil
	}
	return volumeRequestsPath, s.VM.Status.VolumeRequests
}

var volumeRequestsPath = field.NewPath("status", "volumeRequests")

// runningVMI is the VMI of a VM that is ready, as far as it is known.
func (s *Subject) runningVMI() *v1.VirtualMachineInstance {
	if s.VM == nil || s.Running == nil || !s.VM.Status.Ready || s.Running.DeletionTimestamp != nil {
		return nil
	}
	return s.Running
}

var volumeRequestKindsRule = Rule{
	ID:     "volume-request-one-kind",
	Title:  "A volume request adds a volume or removes one",
	Remedy: "Set exactly one of the two." + whenEvaluated,
	Check:  volumeRequestKinds,
}

func volumeRequestKinds(s *Subject, found *Errors) {
	path, requests := s.volumeRequests()
	for i := range found.Each(len(requests)) {
		switch add, remove := requests[i].AddVolumeOptions != nil, requests[i].RemoveVolumeOptions != nil; {
		case add && remove:
			found.Add(field.Invalid(path.Index(i), field.OmitValueType{}, "both addVolumeOptions and removeVolumeOptions are set"))
		case !add && !remove:
			found.Add(field.Invalid(path.Index(i), field.OmitValueType{}, "neither addVolumeOptions nor removeVolumeOptions is set"))
		}
	}
}

// added is the volume that a request adds; nil if it adds none, or is not clear about it.
func added(r *v1.VirtualMachineVolumeRequest) *v1.AddVolumeOptions {
	if r.RemoveVolumeOptions != nil {
		return nil
	}
	return r.AddVolumeOptions
}

// removed is the volume that a request removes; nil if it removes none, or is not clear about it.
func removed(r *v1.VirtualMachineVolumeRequest) *v1.RemoveVolumeOptions {
	if r.AddVolumeOptions != nil {
		return nil
	}
	return r.RemoveVolumeOptions
}

var volumeRequestsOnceRule = Rule{
	ID:     "volume-request-once",
	Title:  "A volume is requested once, and removed once",
	Remedy: "Wait until the earlier request is done." + whenEvaluated,
	Check:  volumeRequestsOnce,
}

func volumeRequestsOnce(s *Subject, found *Errors) {
	path, requests := s.volumeRequests()
	adds, removes := map[string]bool{}, map[string]bool{}
	for i := range found.Each(len(requests)) {
		if add := added(&requests[i]); add != nil {
			if adds[add.Name] {
				found.Add(field.Invalid(path.Index(i).Child("addVolumeOptions", "name"), add.Name, "an earlier request already adds this volume"))
			}
			adds[add.Name] = true
		}
		if remove := removed(&requests[i]); remove != nil {
			if removes[remove.Name] {
				found.Add(field.Invalid(path.Index(i).Child("removeVolumeOptions", "name"), remove.Name, "an earlier request already removes this volume"))
			}
			removes[remove.Name] = true
		}
	}
}

var volumeRequestDisksRule = Rule{
	ID:     "volume-request-disk",
	Title:  "A running guest supports the disk of a requested volume",
	Remedy: "Use a disk with bus scsi or virtio, or a lun with bus scsi." + whenEvaluated,
	Check:  volumeRequestDisks,
}

func volumeRequestDisks(s *Subject, found *Errors) {
	path, requests := s.volumeRequests()
	for i := range found.Each(len(requests)) {
		add := added(&requests[i])
		if add == nil {
			continue
		}
		disk := path.Index(i).Child("addVolumeOptions", "disk")
		if add.Disk == nil {
			found.Add(field.Invalid(disk, nil, fmt.Sprintf("the volume %q has no disk", shortened(add.Name))))
			continue
		}
		hotplugDisk(disk, add.Disk, found)
	}
}

// requestedVolume is the volume that a request means, as the user wrote it.
func requestedVolume(add *v1.AddVolumeOptions) v1.Volume {
	volume := v1.Volume{Name: add.Name}
	switch source := add.VolumeSource; {
	case source == nil:
	case source.PersistentVolumeClaim != nil:
		volume.PersistentVolumeClaim = source.PersistentVolumeClaim.DeepCopy()
	case source.DataVolume != nil:
		volume.DataVolume = source.DataVolume.DeepCopy()
	}
	return volume
}

var volumeRequestNamesRule = Rule{
	ID:     "volume-request-name-free",
	Title:  "A requested volume does not have the name of another volume",
	Remedy: "Choose a name that no volume of the VM has." + whenEvaluated,
	Check:  volumeRequestNames,
}

// volumeRequestNames lets a volume be requested that is there already and the same.
func volumeRequestNames(s *Subject, found *Errors) {
	path, requests := s.volumeRequests()
	if len(requests) == 0 {
		return
	}
	inTemplate, running := storageOf(s.Spec), storage{}
	if vmi := s.runningVMI(); vmi != nil {
		running = storageOf(&vmi.Spec)
	}
	for i := range found.Each(len(requests)) {
		add := added(&requests[i])
		if add == nil {
			continue
		}
		name, volume := path.Index(i).Child("addVolumeOptions", "name"), requestedVolume(add)
		if inTemplate.volumes[add.Name] != nil && !inTemplate.has(&volume) {
			found.Add(field.Invalid(name, add.Name, "the template of the VM has another volume of this name"))
		} else if running.volumes[add.Name] != nil && !running.has(&volume) {
			found.Add(field.Invalid(name, add.Name, "the running VMI has another volume of this name"))
		}
	}
}

var volumeRequestsFitRule = Rule{
	ID:     "volume-request-fits",
	Title:  "The VM is also valid with the requested volumes",
	Remedy: "Change the request so that its volume and disk fit those of the VM." + whenEvaluated,
	Check:  volumeRequestsFit,
}

// volumeRequestsFit evaluates the VM's template as it will be once KubeVirt has done what is requested. The paths
// are those in that template. KubeVirt looks at it as written, without instancetype and defaults, so that it
// rejects requests for VMs which it otherwise takes. Of a request that is wrong in itself, the other rules
// speak.
func volumeRequestsFit(s *Subject, found *Errors) {
	if s.VM == nil || s.VM.Spec.Template == nil || !s.clearVolumeRequests() {
		return
	}
	s.withRequestsDone(rulesOfSpec(), &s.VM.Spec.Template.Spec, "in the template as written, with the volumes of status.volumeRequests: ", found)
}

var volumeRequestsFitInstanceRule = Rule{
	ID:     "volume-requests-fit-instance",
	Title:  "The running VMI is also valid with the requested volumes",
	Remedy: "Remove the request, or correct what the message names and restart the VM." + whenEvaluated,
	Check:  volumeRequestsFitInstance,
}

// volumeRequestsFitInstance evaluates the running VMI as it will be, at the paths of the template. KubeVirt checks
// all of it again before it plugs a volume.
func volumeRequestsFitInstance(s *Subject, found *Errors) {
	vmi := s.runningVMI()
	if vmi == nil || !s.clearVolumeRequests() {
		return
	}
	table := rulesOfSpec()
	if vmi.Spec.Architecture == "" {
		table = append(table, withoutArchitecture()...)
	}
	s.withRequestsDone(table, &vmi.Spec, "in the running VMI, with the volumes of status.volumeRequests: ", found)
}

// rulesOfSpec are the rules of all areas of a spec.
func rulesOfSpec() Table {
	return slices.Concat(
		cpuRules(), memoryRules(), ioThreadRules(), diskRules(), volumeRules(), networkRules(), dnsRules(), machineRules(), firmwareRules(), featureRules(),
		launchSecurityRules(), deviceRules(), hostDeviceRules(), draRules(), cloudInitRules(), credentialRules(), probeRules(), lifecycleRules(), schedulingRules(), valueRules(),
	)
}

// withoutArchitecture are rules about what KubeVirt knows to work on some architectures only, and so rejects for an
// instance that names none, as very old ones do.
func withoutArchitecture() Table {
	var table Table
	for _, rule := range slices.Concat(ForArchitecture(architectures.ARM64), ForArchitecture(architectures.S390X)) {
		if rule.ID == "cpu-dedicated-threads-arm64" || rule.ID == "device-panic-architecture" {
			table = append(table, rule)
		}
	}
	return table
}

// clearVolumeRequests reports whether there are requests, and none that is wrong in itself.
func (s *Subject) clearVolumeRequests() bool {
	if _, requests := s.volumeRequests(); len(requests) == 0 {
		return false
	}
	for _, check := range []func(*Subject, *Errors){volumeRequestKinds, volumeRequestsOnce, volumeRequestDisks, volumeRequestNames} {
		found := Errors{limit: 1}
		if check(s, &found); found.full() {
			return false
		}
	}
	return true
}

// withRequestsDone is what a table says of a spec after the requests, and does not say of the VM anyway.
func (s *Subject) withRequestsDone(table Table, spec *v1.VirtualMachineInstanceSpec, where string, found *Errors) {
	_, requests := s.volumeRequests()
	after := *s
	after.Spec = withVolumeRequests(spec, requests)
	type fault struct {
		kind  field.ErrorType
		field string
	}
	known := map[fault]bool{}
	for _, f := range table.Check(s, OnSpec) {
		known[fault{f.Error.Type, f.Error.Field}] = true
	}
	findings := table.Check(&after, OnSpec)
	for i := range found.Each(len(findings)) {
		f := findings[i]
		if f.Severity == Warn || f.AtStart || known[fault{f.Error.Type, f.Error.Field}] {
			continue
		}
		err := *f.Error
		err.Detail = where + err.Detail
		found.Add(&err)
	}
}

// withVolumeRequests is the spec that KubeVirt will make of one by what is requested.
func withVolumeRequests(spec *v1.VirtualMachineInstanceSpec, requests []v1.VirtualMachineVolumeRequest) *v1.VirtualMachineInstanceSpec {
	spec = spec.DeepCopy()
	volumes, disks := spec.Volumes, spec.Domain.Devices.Disks
	// How often a name is used, and how many of these, from the first, are removed.
	present, gone := map[string]int{}, map[string]int{}
	presentDisks, goneDisks := map[string]int{}, map[string]int{}
	for i := range volumes {
		present[volumes[i].Name]++
	}
	for i := range disks {
		presentDisks[disks[i].Name]++
	}
	for i := range requests {
		if remove := removed(&requests[i]); remove != nil {
			gone[remove.Name], goneDisks[remove.Name] = present[remove.Name], presentDisks[remove.Name]
		}
		add := added(&requests[i])
		if add == nil || present[add.Name] > gone[add.Name] {
			continue
		}
		volumes, present[add.Name] = append(volumes, pluggedVolume(add)), present[add.Name]+1
		if add.Disk != nil {
			disk := add.Disk.DeepCopy()
			disk.Name = add.Name
			disks, presentDisks[add.Name] = append(disks, *disk), presentDisks[add.Name]+1
		}
	}
	spec.Volumes = slices.DeleteFunc(volumes, func(v v1.Volume) bool { return takeOne(gone, v.Name) })
	spec.Domain.Devices.Disks = slices.DeleteFunc(disks, func(d v1.Disk) bool { return takeOne(goneDisks, d.Name) })
	return spec
}

func takeOne(counts map[string]int, name string) bool {
	if counts[name] == 0 {
		return false
	}
	counts[name]--
	return true
}

// pluggedVolume is the volume that KubeVirt makes of a request.
func pluggedVolume(add *v1.AddVolumeOptions) v1.Volume {
	volume := requestedVolume(add)
	if volume.PersistentVolumeClaim != nil {
		volume.PersistentVolumeClaim.Hotpluggable = true
	}
	if volume.DataVolume != nil {
		volume.DataVolume.Hotpluggable = true
	}
	return volume
}

var volumeRequestHugepagesRule = Rule{
	ID:     "volume-request-hugepages",
	Title:  "A VM with hugepages and volume requests sets its memory in the template",
	Remedy: "Set memory.guest in the template, or add the volume to the VM." + whenEvaluated,
	Check:  volumeRequestHugepages,
}

// volumeRequestHugepages rejects what KubeVirt's own admission fails on: it looks for the memory of such a
// template, where no instancetype or default counts, without seeing whether there is any.
func volumeRequestHugepages(s *Subject, found *Errors) {
	if _, requests := s.volumeRequests(); len(requests) == 0 || s.VM.Spec.Template == nil {
		return
	}
	domain := &s.VM.Spec.Template.Spec.Domain
	if domain.Memory == nil || domain.Memory.Hugepages == nil || domain.Memory.Guest != nil {
		return
	}
	if _, requested := domain.Resources.Requests[k8sv1.ResourceMemory]; requested {
		return
	}
	found.Add(field.Required(s.Domain().Child("memory", "guest"), "KubeVirt rejects volume requests if a template with hugepages does not set the memory"))
}

var volumeRequestsWhileMigratingRule = Rule{
	ID:     "volume-request-not-migrating",
	Title:  "Volumes are not plugged while the VM migrates",
	Remedy: "Wait until the migration has ended." + whenEvaluated,
	Check:  volumeRequestsWhileMigrating,
}

func volumeRequestsWhileMigrating(s *Subject, found *Errors) {
	path, requests := s.volumeRequests()
	vmi := s.runningVMI()
	if len(requests) == 0 || vmi == nil || vmi.Status.MigrationState == nil {
		return
	}
	if state := vmi.Status.MigrationState; state.StartTimestamp == nil || state.EndTimestamp != nil {
		return
	}
	found.Add(unsupportedChange(path, "volumes cannot be plugged or unplugged while the VM migrates"))
}
