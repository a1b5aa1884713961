package effective_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/leaves"
)

// FuzzComplete holds the four promises of completing, for every hypervisor and architecture: no input makes
// it panic, completing twice is completing once, a field that has a value keeps it, and the provenance
// names exactly the fields that changed.
func FuzzComplete(f *testing.F) {
	for i, object := range writtenObjects(f) {
		if i%50 == 0 { // TestPromises takes them all
			f.Add([]byte(object), uint8(i/50))
		}
	}
	p := pipeline(f)
	f.Fuzz(func(t *testing.T, object []byte, choice uint8) {
		checkPromises(t, p, object, choice)
	})
}

// TestPromises holds the promises of FuzzComplete for every object of the conformance cases.
func TestPromises(t *testing.T) {
	p := pipeline(t)
	for i, object := range writtenObjects(t) {
		checkPromises(t, p, []byte(object), uint8(i%256))
	}
}

func checkPromises(t *testing.T, p *effective.Pipeline, object []byte, choice uint8) {
	t.Helper()
	facts := factsOf(t, choice)
	if decode.Object(object, reflect.TypeFor[v1.VirtualMachineInstance]()) != nil || decode.Object(object, reflect.TypeFor[v1.VirtualMachine]()) != nil {
		return // no caller decodes these
	}
	var vmi v1.VirtualMachineInstance
	if err := json.Unmarshal(object, &vmi); err != nil {
		return
	}
	site := sitesOf(t)[int(choice)%3]
	checkVMI(t, p, facts, site, &vmi)

	var vm v1.VirtualMachine
	if err := json.Unmarshal(object, &vm); err != nil {
		return
	}
	checkVM(t, p, facts, site, &vm)
}

// factsOf makes facts of a number: every hypervisor, both rollout strategies, several default architectures.
func factsOf(t *testing.T, choice uint8) *platform.Facts {
	t.Helper()
	names := platform.HypervisorNames()
	h, err := platform.HypervisorByName(names[int(choice)%len(names)])
	if err != nil {
		t.Fatal(err)
	}
	facts := *platform.Defaults(platform.Settings{}).WithHypervisor(h)
	facts.DefaultArchitecture = []string{"amd64", "arm64", "s390x", "riscv64"}[int(choice/4)%4]
	facts.LiveUpdate = choice&16 == 0
	facts.MaxHotplugRatio = uint32(choice / 32)
	return &facts
}

func checkVMI(t *testing.T, p *effective.Pipeline, facts *platform.Facts, site []mutators.SiteDefaults, vmi *v1.VirtualMachineInstance) {
	t.Helper()
	first, err := p.Decide(effective.Input{VMI: vmi, Facts: facts, Site: site})
	if err != nil {
		t.Fatal(err)
	}
	second, err := p.Decide(effective.Input{VMI: first.VMI, Facts: facts, Site: site})
	if err != nil {
		t.Fatal(err)
	}
	if len(second.Changes) != 0 {
		t.Errorf("completing what is complete changed %v", second.Changes)
	}
	written, complete := leavesOf(t, vmi), leavesOf(t, first.VMI)
	if lost := leaves.Lost(written, complete); !allUnset(written, lost) {
		t.Errorf("fields that had a value were changed: %v", lost)
	}
	for _, path := range leaves.Changed(written, complete) {
		if !recorded(first, path) {
			t.Errorf("%s changed, but the provenance does not say so", path)
		}
	}
	for _, c := range first.Changes {
		if !anyBelow(complete, c.Path) && !isEmpty(c.Value) {
			t.Errorf("the provenance names %s, which is not there", c.Path)
		}
		if value, was := written[c.Path]; was && !unset(c.Path, value) {
			t.Errorf("the provenance says that %s was filled, but it was %v already", c.Path, value)
		}
	}
}

// sitesOf are a cluster without defaults, one with a few, and one whose defaults are about much of a spec.
func sitesOf(t testing.TB) [][]mutators.SiteDefaults {
	t.Helper()
	return [][]mutators.SiteDefaults{
		nil, siteOf(t, `{evictionStrategy: LiveMigrate, nodeSelector: {"1": a}}`), siteOf(t, everything,
			`{nodeSelector: {pool: other, zone: b}, tolerations: [{key: other}], domain: {cpu: {maxSockets: 3, features: [{name: vmx}]}, memory: {maxGuest: 3Gi, hugepages: {pageSize: 2Mi}}, features: {smm: {}, hyperv: {evmcs: {}}}, firmware: {bootloader: {efi: {}}}, clock: {utc: {}, timer: {hpet: {}}}}}`,
			`{architecture: arm64, livenessProbe: {tcpSocket: {port: 22}}, networks: [{name: a, pod: {}}], volumes: [{name: x, emptyDisk: {capacity: 1Gi}}, {name: z, containerDisk: {image: i}}],
		  domain: {resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: "1", "example.com/x": "1"}}, devices: {interfaces: [{name: a, masquerade: {}}], disks: [{name: x}], inputs: [{name: i, type: tablet}], tpm: {}, watchdog: {name: w, i6300esb: {}}, rng: {}}}}`),
	}
}

// checkVM checks what is persisted in a VM: it never replaces a value, it never causes a finding, and a second completion
// persists nothing.
func checkVM(t *testing.T, p *effective.Pipeline, facts *platform.Facts, site []mutators.SiteDefaults, vm *v1.VirtualMachine) {
	t.Helper()
	vm.ResourceVersion = ""
	before := vm.DeepCopy()
	in := effective.Input{VM: vm, Facts: facts, Site: site}
	verdict, err := p.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(before, vm) {
		t.Error("the input was changed")
	}
	written, complete := leavesOf(t, vm), leavesOf(t, verdict.VM)
	if lost := leaves.Lost(written, complete); !allUnset(written, lost) {
		t.Errorf("fields of the VM that had a value were changed: %v", lost)
	}
	for _, c := range verdict.Persist {
		if value, was := written[c.Path]; was && !unset(c.Path, value) {
			t.Errorf("%s persists %s, which was %v already", c.Layer, c.Path, value)
		}
	}
	if vm.Spec.Template == nil { // there is nothing to persist in it
		return
	}
	in.VM = verdict.VM
	again, err := p.Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	if left := ofSite(again.Persist); len(left) > 0 {
		t.Errorf("completing twice persists %v", left)
	}
	without, err := p.Complete(effective.Input{VM: vm, Facts: facts})
	if err != nil {
		t.Fatal(err)
	}
	if len(verdict.Conflicts) > len(without.Conflicts) {
		t.Errorf("the site is in conflict: %v, without it %v", verdict.Conflicts, without.Conflicts)
	}
}

func leavesOf(t *testing.T, vmi any) map[string]any {
	t.Helper()
	all, err := leaves.Of("", vmi)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func recorded(v *effective.Verdict, path string) bool {
	for _, c := range v.Changes {
		if leaves.Covers(c.Path, path) {
			return true
		}
	}
	return false
}

func anyBelow(all map[string]any, path string) bool {
	for p := range all {
		if leaves.Covers(path, p) {
			return true
		}
	}
	return false
}

func isEmpty(value any) bool {
	data, err := json.Marshal(value)
	return err == nil && (string(data) == "{}" || string(data) == "0" || string(data) == `""`)
}

func zero(value any) bool { return value == "" || value == 0.0 || value == false }

// unset tells the values that mean "not set" where there is no pointer: zeroes, and in probes whatever is
// below their minimum of 1.
func unset(path string, value any) bool {
	number, ok := value.(float64)
	return zero(value) || ok && number < 1 && strings.Contains(path, "Probe.")
}

func allUnset(written map[string]any, lost []string) bool {
	for _, path := range lost {
		if !unset(path, written[path]) {
			return false
		}
	}
	return true
}

// writtenObjects are the objects of the conformance cases; in short runs, each fourth.
func writtenObjects(t testing.TB) []string {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "conformance", "testdata", "admission.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var objects []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var c struct{ Object json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, string(c.Object))
	}
	if len(objects) < 1000 {
		t.Fatalf("only %d cases: %v", len(objects), lines.Err())
	}
	if !testing.Short() {
		return objects
	}
	var some []string
	for i := 0; i < len(objects); i += 4 {
		some = append(some, objects[i])
	}
	return some
}
