package rollouts

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/provenance"
)

// template is the path of the spec of an instance in its VM.
const template = "spec.template.spec."

// planner plans one change.
type planner struct {
	in    *Input
	facts *platform.Facts
	// started, wanted and running are the specs of the instance at its start, as desired, and as it runs. The first two are
	// expanded. The first and the last are nil if they are unknown.
	started, wanted, running *v1.VirtualMachineInstanceSpec
	// written is the desired spec as it is written, with the requested volumes.
	written         *v1.VirtualMachineInstanceSpec
	startedMetadata metav1.ObjectMeta
	// wantedUUID of the firmware: KubeVirt writes one that it derives from the name of the VM if there is none.
	wantedUUID string
	// conflicts are the fields for which the instancetype and the preference cannot be applied to the desired VM.
	conflicts field.ErrorList
	// lost is set if KubeVirt cannot compare with the start of the instance.
	lost bool

	// wantedVolumes and runningVolumes find volumes by their names.
	wantedVolumes, runningVolumes index[v1.Volume]
	// patched is the result of patchedInterfaces.
	patched  *v1.VirtualMachineInstanceSpec
	found    []difference
	kubevirt prediction
	// dropped is the number of differences beyond maxFound.
	dropped int
	// coldFields counts the differences that need a restart in any case, and coldField is the path of the first one.
	coldFields int
	coldField  string
	// coldOtherwise is whether the template differs without the interfaces, once it is known.
	coldOtherwise *bool
}

// Plan lists what the guest does not have of the desired VM, and when it gets it: the differences from what runs, the
// changes that KubeVirt has written to the running instance and that have not reached the guest, and at what KubeVirt fails.
func Plan(in *Input) Result {
	if in.Desired == nil || in.Desired.Spec.Template == nil {
		return Result{Changes: []Change{}}
	}
	return newPlanner(in).plan()
}

func (p *planner) plan() Result {
	p.findDifferences()
	p.predict()
	p.reattachments()
	p.vanishings()
	return p.result()
}

func newPlanner(in *Input) *planner {
	p := &planner{in: in, facts: in.Facts}
	if p.facts == nil {
		p.facts = platform.Defaults(platform.Settings{})
	}
	if in.Running != nil {
		p.running = &in.Running.Spec
	}
	p.written = &in.Desired.Spec.Template.Spec
	p.expand()
	p.requestVolumes()
	p.indexVolumes()
	if p.wantedUUID = uuidOf(p.wanted); p.wantedUUID == "" {
		p.wantedUUID = DerivedUUID(in.Desired.Name)
	}
	return p
}

// expand applies the instancetypes and preferences. If those of the desired VM are missing, both specs stay as they are
// written.
func (p *planner) expand() {
	p.wanted = p.written
	missing := p.in.DesiredKinds.missing()
	if !missing {
		p.wanted, p.conflicts = expanded(p.written, &p.in.Desired.Spec.Template.ObjectMeta, p.in.DesiredKinds)
	}
	last := p.in.LastStarted
	if last == nil || last.Template == nil {
		p.lost = true
		return
	}
	p.started, p.startedMetadata = &last.Template.Spec, last.Template.ObjectMeta
	if missing || len(p.conflicts) > 0 {
		return
	}
	var conflicts field.ErrorList
	p.started, conflicts = expanded(p.started, &p.startedMetadata, p.in.StartedKinds)
	// The controller deletes the revision of an instancetype that it writes into the VM.
	unknown := len(conflicts) > 0 || p.in.StartedKinds.missing()
	p.lost = unknown || p.expandsAll() && (last.Instancetype != nil || last.Preference != nil)
	if unknown {
		p.started = nil
	}
}

// expandsAll reports whether KubeVirt replaces instancetypes in VMs by their content.
func (p *planner) expandsAll() bool {
	c := p.facts.Configuration
	return c != nil && c.Instancetype != nil && c.Instancetype.ReferencePolicy != nil && *c.Instancetype.ReferencePolicy == v1.ExpandAll
}

func expanded(spec *v1.VirtualMachineInstanceSpec, metadata *metav1.ObjectMeta, kinds Kinds) (*v1.VirtualMachineInstanceSpec, field.ErrorList) {
	if kinds.Instancetype == nil && kinds.Preference == nil {
		return spec, nil
	}
	template := field.NewPath("spec", "template")
	target := instancetypes.Target{
		Spec: spec.DeepCopy(), Annotations: metadata.Annotations,
		SpecPath: template.Child("spec"), MetadataPath: template.Child("metadata"),
		InstancetypePath: field.NewPath("spec", "instancetype"), PreferencePath: field.NewPath("spec", "preference"),
	}
	_, conflicts := instancetypes.Expand(target, kinds.Instancetype, kinds.Preference, &provenance.Recorder{})
	return target.Spec, conflicts
}

// requestVolumes applies the requests of the subresources addvolume and removevolume, which KubeVirt is about to write.
func (p *planner) requestVolumes() {
	requests := p.in.Desired.Status.VolumeRequests
	if len(requests) == 0 {
		return
	}
	wanted := p.wanted.DeepCopy()
	for i := range requests {
		switch add, remove := requests[i].AddVolumeOptions, requests[i].RemoveVolumeOptions; {
		case add != nil && add.Disk != nil && add.VolumeSource != nil:
			addVolume(wanted, add)
		case remove != nil:
			removeVolume(wanted, remove.Name)
		}
	}
	p.wanted = wanted
}

func addVolume(spec *v1.VirtualMachineInstanceSpec, options *v1.AddVolumeOptions) {
	volumes := indexed(spec.Volumes, volumeName)
	if volumes.find(options.Name) != nil {
		return
	}
	volume := v1.Volume{Name: options.Name}
	if claim := options.VolumeSource.PersistentVolumeClaim; claim != nil {
		volume.PersistentVolumeClaim = claim.DeepCopy()
		volume.PersistentVolumeClaim.Hotpluggable = true
	} else if dataVolume := options.VolumeSource.DataVolume; dataVolume != nil {
		volume.DataVolume = dataVolume.DeepCopy()
		volume.DataVolume.Hotpluggable = true
	}
	disk := options.Disk.DeepCopy()
	disk.Name = options.Name
	spec.Volumes = append(spec.Volumes, volume)
	spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, *disk)
}

func removeVolume(spec *v1.VirtualMachineInstanceSpec, name string) {
	volumes, disks := spec.Volumes, spec.Domain.Devices.Disks
	spec.Volumes, spec.Domain.Devices.Disks = nil, nil
	for i := range volumes {
		if volumes[i].Name != name {
			spec.Volumes = append(spec.Volumes, volumes[i])
		}
	}
	for i := range disks {
		if disks[i].Name != name {
			spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, disks[i])
		}
	}
}

func (p *planner) indexVolumes() {
	p.wantedVolumes = indexed(p.wanted.Volumes, volumeName)
	if p.running != nil {
		p.runningVolumes = indexed(p.running.Volumes, volumeName)
	}
}

// uuidSpace is the name space of the UUIDs that KubeVirt derives from the names of VMs.
var uuidSpace = uuid.MustParse("6a1a24a1-4061-4607-8bf4-a3963d0c5895")

// DerivedUUID is the firmware UUID that KubeVirt writes into a VM without one.
func DerivedUUID(name string) string { return uuid.NewSHA1(uuidSpace, []byte(name)).String() }

// podInterface is the name that KubeVirt gives the interface of a secondary network in the pod.
func podInterface(network string) string {
	sum := sha256.Sum256([]byte(network))
	return "pod" + hex.EncodeToString(sum[:])[:11]
}

func guestOf(spec *v1.VirtualMachineInstanceSpec) *resource.Quantity {
	if spec == nil || spec.Domain.Memory == nil {
		return nil
	}
	return spec.Domain.Memory.Guest
}

func equalQuantities(a, b *resource.Quantity) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Cmp(*b) == 0
}

// Annotations and labels that KubeVirt copies to the running instance.
const (
	skipBackupHooks = "kubevirt.io/skip-backup-hooks"
	evictPod        = "descheduler.alpha.kubernetes.io/evict"
	preferNoEvict   = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
)

func (p *planner) syncsLabel(key string) bool { return matchesAny(p.facts.SyncedLabels, key) }

func (p *planner) syncsAnnotation(key string) bool {
	return key == evictPod || key == preferNoEvict || matchesAny(p.facts.SyncedAnnotations, key)
}

// matchesAny reports whether a key is in a list. A pattern that ends with * is a prefix, which may not be empty.
func matchesAny(patterns []string, key string) bool {
	for _, pattern := range patterns {
		prefix, wild := strings.CutSuffix(pattern, "*")
		if pattern == key || wild && prefix != "" && strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// result applies the rules to the differences. Of each rule, the changes in progress come first.
func (p *planner) result() Result {
	result := Result{Changes: []Change{}, RestartRequired: p.kubevirt.restart, Failure: p.kubevirt.failure, Omitted: p.dropped}
	byRule := make([][]int, len(rules))
	for i := range p.found {
		r := p.ruleOf(&p.found[i])
		byRule[r] = append(byRule[r], i)
	}
	written := p.inProgress()
	for r := range byRule {
		for i := range written {
			if written[i].Rule == rules[r].id {
				result.add(written[i])
			}
		}
		for _, i := range byRule[r] {
			if len(result.Changes) == MaxChanges {
				result.Omitted++
				continue
			}
			result.add(p.change(&rules[r], &p.found[i]))
		}
	}
	if p.failsUnnamed(&result) {
		if len(result.Changes) == MaxChanges {
			result.Changes, result.Omitted = result.Changes[:MaxChanges-1], result.Omitted+1
		}
		result.Changes = slices.Insert(result.Changes, 0, p.failing())
	}
	return result
}

// add adds a change, or counts it if there are too many.
func (r *Result) add(c Change) {
	if len(r.Changes) == MaxChanges {
		r.Omitted++
		return
	}
	r.Changes = append(r.Changes, c)
}

func (p *planner) change(r *rule, d *difference) Change {
	v := r.decide(p, d)
	c := Change{
		Field: d.path, Old: show(d.name, d.old), New: show(d.name, d.wants), Rule: r.id,
		Takes: v.takes, Patched: v.patched, Reattached: v.reattached, Announced: v.announced, Reason: v.reason, WayOut: v.wayOut,
	}
	if !d.outside {
		c.Field, c.Layer = template+d.path, p.layer(d)
	}
	return c
}

// layer is the instancetype or the preference that determines a field which the VM does not write. Of a value that is gone,
// it is the one of the start.
func (p *planner) layer(d *difference) string {
	kinds, written := p.in.DesiredKinds, p.written
	if d.event == removed && p.in.LastStarted != nil && p.in.LastStarted.Template != nil {
		kinds, written = p.in.StartedKinds, &p.in.LastStarted.Template.Spec
	}
	if kinds.Instancetype == nil && kinds.Preference == nil || len(p.conflicts) > 0 || p.in.DesiredKinds.missing() {
		return ""
	}
	if value := valueAt(reflect.ValueOf(written).Elem(), nodeOf(d.path)); value.IsValid() && !value.IsZero() {
		return ""
	}
	switch {
	case kinds.Instancetype != nil && instancetypes.InstancetypeDetermines(d.path):
		return kinds.Instancetype.Layer()
	case kinds.Preference != nil && instancetypes.PreferenceDetermines(d.path):
		return kinds.Preference.Layer()
	}
	return ""
}
