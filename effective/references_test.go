package effective_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/test/leaves"
)

// offered are instancetypes, preferences and presets for objects that know nothing of them. Between them
// they fill every kind of field: scalars, switches, whole structures, lists and the members of maps.
var (
	offeredInstancetypes = []string{
		`{cpu: {guest: 2}, memory: {guest: 4Gi}}`,
		`{cpu: {guest: 8, model: EPYC, maxSockets: 16, dedicatedCPUPlacement: true, isolateEmulatorThread: true, numa: {guestMappingPassthrough: {}}},
		  memory: {guest: 8Gi, hugepages: {pageSize: 2Mi}, maxGuest: 16Gi}, nodeSelector: {zone: a}, schedulerName: vm-scheduler,
		  annotations: {from: instancetype, both: instancetype}, ioThreadsPolicy: auto, launchSecurity: {sev: {}},
		  gpus: [{name: g, deviceName: vendor/g}], hostDevices: [{name: h, deviceName: vendor/h}]}`,
		`{cpu: {guest: 3}, memory: {guest: 1000M, overcommitPercent: 15}, ioThreads: {supplementalPoolThreadCount: 4}, ioThreadsPolicy: supplementalPool}`,
	}
	offeredPreferences = []string{
		`{}`,
		`{cpu: {preferredCPUTopology: cores, preferredCPUFeatures: [{name: vmx, policy: require}]},
		  devices: {preferredDiskBus: virtio, preferredDiskCache: none, preferredDiskIO: native, preferredDiskBlockSize: {matchVolume: {}}, preferredCdromBus: scsi,
		    preferredLunBus: scsi, preferredInputBus: usb, preferredInputType: tablet, preferredInterfaceModel: e1000, preferredInterfaceMasquerade: {},
		    preferredSoundModel: ac97, preferredRng: {}, preferredTPM: {}, preferredVideoType: virtio, preferredDisableHotplug: true,
		    preferredAutoattachGraphicsDevice: false, preferredAutoattachInputDevice: true, preferredAutoattachPodInterface: false, preferredBlockMultiQueue: true,
		    preferredDiskDedicatedIoThread: true, preferredPanicDeviceModel: hyperv},
		  features: {preferredAcpi: {enabled: false}, preferredApic: {endOfInterrupt: true}, preferredHyperv: {vpindex: {}, synic: {}, synictimer: {direct: {}}}, preferredKvm: {hidden: true}, preferredSmm: {}},
		  firmware: {preferredEfi: {persistent: true, secureBoot: false}}, machine: {preferredMachineType: pc-q35-9.2},
		  clock: {preferredClockOffset: {timezone: Europe/Prague}, preferredTimer: {hpet: {present: false}}},
		  preferredSubdomain: vms, preferredTerminationGracePeriodSeconds: 7, annotations: {from: preference, both: preference},
		  volumes: {preferredStorageClassName: fast}}`,
		`{preferredArchitecture: s390x, cpu: {preferredCPUTopology: spread, spreadOptions: {ratio: 2}}, firmware: {preferredUseBios: true, preferredUseBiosSerial: true},
		  clock: {preferredClockOffset: {utc: {offsetSeconds: 60}}}, devices: {preferredAutoattachMemBalloon: false}, machine: {preferredMachineType: virt-custom}}`,
		`{cpu: {preferredCPUTopology: threads}, firmware: {preferredUseEfi: true, preferredUseSecureBoot: true}, features: {preferredPvspinlock: {enabled: false}}}`,
	}
	offeredPresets = []string{
		`{domain: {cpu: {cores: 4, model: EPYC}, resources: {requests: {memory: 2Gi, cpu: "2"}}, firmware: {uuid: 5d307ca9-b3ef-428c-8861-06e72d69f223, bootloader: {efi: {}}}}}`,
		`{domain: {clock: {utc: {}, timer: {hpet: {present: false}}}, features: {acpi: {}, smm: {}}, devices: {watchdog: {name: dog, i6300esb: {}}}, ioThreadsPolicy: shared}}`,
		`{domain: {clock: {timer: {pit: {present: true}}}, features: {apic: {}}}}`,
		`{}`,
	}
)

// overwritten are the fields of a VM whose zero may be set or not, and that KubeVirt overwrites.
var overwritten = []string{
	"spec.template.spec.domain.cpu.maxSockets",
	"spec.template.spec.domain.features.acpi",
	"spec.template.spec.domain.devices.disableHotplug",
}

func read[T any](t testing.TB, text string) T {
	t.Helper()
	var into T
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "")), &into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return into
}

// offer makes references of a number: every combination comes by.
func offer(t testing.TB, choice uint16) effective.References {
	t.Helper()
	take := func(n int) int {
		taken := int(choice) % n
		choice /= uint16(n) //nolint:gosec // a handful
		return taken
	}
	var refs effective.References
	if i := take(len(offeredInstancetypes) + 1); i < len(offeredInstancetypes) {
		refs.Instancetype = &instancetypes.Instancetype{
			Kind: apikinds.VirtualMachineClusterInstancetype, Name: fmt.Sprintf("i%d", i),
			Spec: read[instancetypev1beta1.VirtualMachineInstancetypeSpec](t, offeredInstancetypes[i]),
		}
	}
	if i := take(len(offeredPreferences) + 1); i < len(offeredPreferences) {
		refs.Preference = &instancetypes.Preference{
			Kind: apikinds.VirtualMachineClusterPreference, Name: fmt.Sprintf("p%d", i),
			Spec: read[instancetypev1beta1.VirtualMachinePreferenceSpec](t, offeredPreferences[i]),
		}
	}
	if a := []string{"", "amd64", "arm64", "s390x"}[take(4)]; a != "" {
		refs.Architecture = &effective.DataSourceArchitecture{DataSource: "images/golden", Architecture: a}
	}
	for i, text := range offeredPresets {
		if take(2) == 1 {
			refs.Presets = append(refs.Presets, v1.VirtualMachineInstancePreset{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("preset%d", i)},
				Spec:       read[v1.VirtualMachineInstancePresetSpec](t, text),
			})
		}
	}
	return refs
}

// FuzzReferences holds the promises of completing for objects with presets, and with an instancetype, a
// preference and a golden image.
func FuzzReferences(f *testing.F) {
	for i, object := range writtenObjects(f) {
		if i%50 == 0 { // TestPromisesWithReferences takes them all
			f.Add([]byte(object), uint8(i/50), uint16(i*37))
		}
	}
	p := pipeline(f)
	f.Fuzz(func(t *testing.T, object []byte, choice uint8, offered uint16) {
		checkReferencePromises(t, p, object, choice, offered)
	})
}

// TestPromisesWithReferences holds the promises of FuzzReferences for every object of the conformance cases,
// as it is and with what an instancetype determines taken out, so that there are no conflicts.
func TestPromisesWithReferences(t *testing.T) {
	p := pipeline(t)
	objects, expanded := writtenObjects(t), 0
	for i, object := range objects {
		choice, offered := uint8(i%256), uint16(i*37%65536)
		expanded += checkReferencePromises(t, p, []byte(object), choice, offered)
		if t.Failed() {
			t.Fatalf("object %d with choice %d and offer %d:\n%s", i, choice, offered, object)
		}
	}
	if expanded < len(objects)/5 {
		t.Errorf("only %d VMs were expanded without conflicts: the promises are hardly tested", expanded)
	}
}

// checkReferencePromises returns to how many VMs an instancetype or a preference was applied.
func checkReferencePromises(t *testing.T, p *effective.Pipeline, object []byte, choice uint8, offered uint16) int {
	t.Helper()
	if decode.Object(object, reflect.TypeFor[v1.VirtualMachineInstance]()) != nil || decode.Object(object, reflect.TypeFor[v1.VirtualMachine]()) != nil {
		return 0 // no caller decodes these
	}
	refs := offer(t, offered)
	var vmi v1.VirtualMachineInstance
	if json.Unmarshal(object, &vmi) == nil {
		checkPresets(t, p, effective.Input{VMI: &vmi, Facts: factsOf(t, choice), References: effective.References{Presets: refs.Presets}})
	}
	var vm v1.VirtualMachine
	if json.Unmarshal(object, &vm) != nil {
		return 0
	}
	if vm.Spec.Template == nil { // a VMI makes a template too
		if json.Unmarshal(object, &vmi) != nil {
			return 0
		}
		vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: vmi.Annotations}, Spec: vmi.Spec}
	}
	refs.Presets = nil
	expanded := checkExpansion(t, p, effective.Input{VM: &vm, Facts: factsOf(t, choice), References: refs})
	if bare := vm.DeepCopy(); refs.Instancetype != nil {
		bare.Spec.Template.Spec.Domain.CPU, bare.Spec.Template.Spec.Domain.Memory = nil, nil
		expanded += checkExpansion(t, p, effective.Input{VM: bare, Facts: factsOf(t, choice), References: refs})
	}
	return expanded
}

func checkPresets(t *testing.T, p *effective.Pipeline, in effective.Input) {
	t.Helper()
	before, presets := in.VMI.DeepCopy(), copies(in.Presets)
	verdict, err := p.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, in.VMI) + cmp.Diff(presets, in.Presets); diff != "" {
		t.Errorf("the input was changed:\n%s", diff)
	}
	again, err := p.Decide(effective.Input{VMI: verdict.VMI, Facts: in.Facts})
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Changes) != 0 {
		t.Errorf("completing what is complete changed %v", again.Changes)
	}
	checkProvenance(t, verdict, leavesUnder(t, "", in.VMI), leavesUnder(t, "", verdict.VMI))
	checkPersist(t, verdict)
}

func copies(presets []v1.VirtualMachineInstancePreset) []v1.VirtualMachineInstancePreset {
	copied := slices.Clone(presets)
	for i := range copied {
		copied[i] = *presets[i].DeepCopy()
	}
	return copied
}

// checkExpansion returns 1 if an instancetype or a preference was applied to the VM.
func checkExpansion(t *testing.T, p *effective.Pipeline, in effective.Input) int {
	t.Helper()
	before, instancetype, preference := in.VM.DeepCopy(), copyOf(in.Instancetype), copyOf(in.Preference)
	verdict, err := p.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, in.VM) + cmp.Diff(instancetype, copyOf(in.Instancetype)) + cmp.Diff(preference, copyOf(in.Preference)); diff != "" {
		t.Errorf("the input was changed:\n%s", diff)
	}

	// What is complete stays as it is, without the objects that completed it.
	complete := in.VM.DeepCopy()
	complete.Spec.Template.Spec = *verdict.Spec.DeepCopy()
	again, err := p.Decide(effective.Input{VM: complete, Facts: in.Facts})
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Changes) != 0 {
		t.Errorf("completing what is complete changed %v", again.Changes)
	}

	written := leavesUnder(t, "spec.template.spec", in.VM.Spec.Template.Spec)
	checkProvenance(t, verdict, written, leavesUnder(t, "spec.template.spec", verdict.Spec), overwritten...)
	checkPersist(t, verdict)
	checkPersisted(t, verdict, written)
	layers := effective.Layers(verdict.Changes)
	if in.Instancetype != nil && slices.Contains(layers, in.Instancetype.Layer()) || in.Preference != nil && slices.Contains(layers, in.Preference.Layer()) {
		return 1
	}
	return 0
}

// checkPersisted holds that a VM is persisted as it was written, but for what Persist lists, and for what a
// preference says of its DataVolume templates, which are not part of the template.
func checkPersisted(t *testing.T, verdict *effective.Verdict, written map[string]any) {
	t.Helper()
	persisted := leavesUnder(t, "spec.template.spec", verdict.VM.Spec.Template.Spec)
	for _, path := range append(leaves.Changed(written, persisted), leaves.Lost(written, persisted)...) {
		if !covered(verdict.Persist, path) {
			t.Errorf("the persisted VM differs in %s, which Persist does not list", path)
		}
	}
}

// checkPersist holds that what is persisted is among the changes, in their order.
func checkPersist(t *testing.T, verdict *effective.Verdict) {
	t.Helper()
	rest := verdict.Changes
	for _, c := range verdict.Persist {
		at := slices.IndexFunc(rest, func(o provenance.Change) bool {
			return o.Path == c.Path && o.Layer == c.Layer && reflect.DeepEqual(o.Value, c.Value)
		})
		if at < 0 {
			t.Errorf("%s is persisted, but not among the changes, or not in their order", c.Path)
			return
		}
		rest = rest[at+1:]
	}
}

// checkProvenance holds that the changes name exactly the leaves that changed, and that nothing that had a
// value has another one, except below the given paths.
func checkProvenance(t *testing.T, verdict *effective.Verdict, written, complete map[string]any, except ...string) {
	t.Helper()
	for _, path := range leaves.Lost(written, complete) {
		excused := slices.ContainsFunc(except, func(above string) bool { return leaves.Covers(above, path) })
		if !excused && !unset(path, written[path]) {
			t.Errorf("%s was %v and is %v now", path, written[path], complete[path])
		}
		if excused && !covered(verdict.Changes, path) {
			t.Errorf("%s was overwritten, but the provenance does not say so", path)
		}
	}
	for _, path := range leaves.Changed(written, complete) {
		if !covered(verdict.Changes, path) {
			t.Errorf("%s changed, but the provenance does not say so", path)
		}
	}
	for _, c := range verdict.Changes {
		inSpec := strings.HasPrefix(c.Path, "spec.template.spec.") || !strings.HasPrefix(c.Path, "spec.template.") && !strings.HasPrefix(c.Path, "spec.dataVolumeTemplates")
		if inSpec && !anyBelow(complete, c.Path) && !hollow(c.Value) {
			t.Errorf("the provenance names %s, which is not there", c.Path)
		}
		if c.Layer == "" {
			t.Errorf("the provenance does not say who filled %s", c.Path)
		}
	}
}

func covered(changes []provenance.Change, path string) bool {
	return slices.ContainsFunc(changes, func(c provenance.Change) bool { return leaves.Covers(c.Path, path) })
}

// hollow tells values that have no leaves: structures that are a statement by being there, zeroes, and lists of them.
func hollow(value any) bool {
	all, err := leaves.Of("", value)
	return err == nil && !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(v any) bool { return !zero(v) })
}

func leavesUnder(t *testing.T, root string, value any) map[string]any {
	t.Helper()
	all, err := leaves.Of(root, value)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// copyOf copies what has no DeepCopy of its own, through JSON.
func copyOf[T any](value *T) *T {
	if value == nil {
		return nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil
	}
	copied := new(T)
	if json.Unmarshal(data, copied) != nil {
		return nil
	}
	return copied
}
