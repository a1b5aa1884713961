package instancetypes_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/conformance"
	"github.com/virtward/virtward/fieldpath"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/provenance"
)

func instancetype(t *testing.T, spec string) *instancetypes.Instancetype {
	t.Helper()
	in := &instancetypes.Instancetype{Kind: apikinds.VirtualMachineClusterInstancetype, Name: "u1.medium"}
	if err := json.Unmarshal([]byte(spec), &in.Spec); err != nil {
		t.Fatal(err)
	}
	return in
}

func preference(t *testing.T, spec string) *instancetypes.Preference {
	t.Helper()
	pref := &instancetypes.Preference{Kind: apikinds.VirtualMachineClusterPreference, Name: "fedora"}
	if err := json.Unmarshal([]byte(spec), &pref.Spec); err != nil {
		t.Fatal(err)
	}
	return pref
}

func virtualMachine(t *testing.T, spec string) *v1.VirtualMachine {
	t.Helper()
	vm := &v1.VirtualMachine{}
	vm.Spec.Template = &v1.VirtualMachineInstanceTemplateSpec{}
	if err := json.Unmarshal([]byte(spec), &vm.Spec.Template.Spec); err != nil {
		t.Fatal(err)
	}
	return vm
}

func TestExpandRecordsWhoFilledWhat(t *testing.T) {
	vm := virtualMachine(t, `{"domain":{"cpu":{"maxSockets":2,"features":[{"name":"a"}]},"devices":{"disks":[{"name":"root"}]}}}`)
	in := instancetype(t, `{"cpu":{"guest":4,"maxSockets":8},"memory":{"guest":"2Gi","overcommitPercent":50},"annotations":{"x/size":"medium","x/taken":"v"}}`)
	pref := preference(t, `{"annotations":{"x/os":"fedora"},"cpu":{"preferredCPUTopology":"cores","preferredCPUFeatures":[{"name":"a"},{"name":"b"}]},
		"devices":{"preferredDiskBus":"virtio","preferredTPM":{}},"firmware":{"preferredEfi":{"secureBoot":true}}}`)
	vm.Spec.Template.ObjectMeta.Annotations = map[string]string{"x/taken": "v"}
	rec := provenance.NewRecorder("spec.template.spec")
	added, errs := instancetypes.Expand(instancetypes.TemplateOf(vm), in, pref, rec)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff(map[string]string{"x/size": "medium", "x/os": "fedora"}, added); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	var got []string
	for _, c := range rec.Changes() {
		value, err := json.Marshal(c.Value)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s=%s", c.Layer, c.Path, value))
	}
	want := []string{
		`instancetype/u1.medium spec.template.spec.domain.cpu.maxSockets=8`,
		`instancetype/u1.medium spec.template.spec.domain.cpu.sockets=1`,
		`instancetype/u1.medium spec.template.spec.domain.cpu.cores=4`,
		`instancetype/u1.medium spec.template.spec.domain.cpu.threads=1`,
		`instancetype/u1.medium spec.template.spec.domain.memory.guest="2Gi"`,
		`instancetype/u1.medium spec.template.spec.domain.resources.requests[memory]="1Gi"`,
		`instancetype/u1.medium spec.template.metadata.annotations[x/size]="medium"`,
		`preference/fedora spec.template.spec.domain.cpu.features[1]={"name":"b"}`,
		`preference/fedora spec.template.spec.domain.devices.tpm={}`,
		`preference/fedora spec.template.spec.domain.devices.disks[0].disk.bus="virtio"`,
		`preference/fedora spec.template.spec.domain.firmware.bootloader.efi={"secureBoot":true}`,
		`preference/fedora spec.template.metadata.annotations[x/os]="fedora"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestExpandConflicts(t *testing.T) {
	small := `{"cpu":{"guest":2},"memory":{"guest":"2Gi"}}`
	for name, tc := range map[string]struct {
		vm, in, pref string
		annotations  map[string]string
		want         []string
	}{
		"every field the instancetype determines": {
			vm: `{"schedulerName":"s","nodeSelector":{},"domain":{"cpu":{"sockets":1,"dedicatedCpuPlacement":true},"memory":{"guest":"1Gi"},"devices":{},
				"ioThreads":{"supplementalPoolThreadCount":1}}}`,
			in: `{"cpu":{"guest":2,"dedicatedCPUPlacement":false},"memory":{"guest":"2Gi"},"schedulerName":"t","nodeSelector":{"a":"b"},
				"ioThreads":{"supplementalPoolThreadCount":2},"annotations":{"k":"v"}}`,
			annotations: map[string]string{"k": "w"},
			want: []string{
				`spec.template.spec.nodeSelector: Invalid value: must not be set: instancetype "u1.medium" determines it`,
				`spec.template.spec.schedulerName: Invalid value: must not be set: instancetype "u1.medium" determines it`,
				`spec.template.spec.domain.cpu.sockets: Invalid value: must not be set: instancetype "u1.medium" determines it`,
				`spec.template.spec.domain.cpu.dedicatedCpuPlacement: Invalid value: must not be set: instancetype "u1.medium" determines it`,
				`spec.template.spec.domain.memory.guest: Invalid value: must not be set: instancetype "u1.medium" determines it`,
				`spec.template.spec.domain.ioThreads.supplementalPoolThreadCount: Invalid value: must not be set: instancetype "u1.medium" determines it`,
				`spec.template.metadata.annotations[k]: Invalid value: "w": instancetype "u1.medium" gives it the value "v"`,
			},
		},
		"a spread ratio of 0": {
			vm: `{"domain":{"devices":{}}}`, in: small, pref: `{"cpu":{"preferredCPUTopology":"spread","spreadOptions":{"ratio":0}}}`,
			want: []string{`spec.preference: Invalid value: "fedora": its spec.cpu.spreadOptions.ratio is 0, but vCPUs are divided by it: it must be 1 or more`},
		},
		"CPU features without a CPU": {
			vm: `{"domain":{"devices":{}}}`, pref: `{"cpu":{"preferredCPUFeatures":[{"name":"a"}]}}`,
			want: []string{`spec.template.spec.domain.cpu: Required value: preference "fedora" adds CPU features, which KubeVirt can do only to a VM that has domain.cpu or an instancetype`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			vm := virtualMachine(t, tc.vm)
			vm.Spec.Template.ObjectMeta.Annotations = tc.annotations
			before := vm.DeepCopy()
			var in *instancetypes.Instancetype
			if tc.in != "" {
				in = instancetype(t, tc.in)
			}
			var pref *instancetypes.Preference
			if tc.pref != "" {
				pref = preference(t, tc.pref)
			}
			rec := provenance.NewRecorder("spec.template.spec")
			added, errs := instancetypes.Expand(instancetypes.TemplateOf(vm), in, pref, rec)
			if diff := cmp.Diff(tc.want, messages(errs)); diff != "" {
				t.Errorf("conflicts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, vm); diff != "" || len(added) > 0 || len(rec.Changes()) > 0 {
				t.Errorf("something was applied despite conflicts: %v, %v, %s", added, rec.Changes(), diff)
			}
		})
	}
}

func messages(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func TestExpandWithNothing(t *testing.T) {
	vm := virtualMachine(t, `{"domain":{"devices":{}}}`)
	before := vm.DeepCopy()
	rec := provenance.NewRecorder("spec.template.spec")
	if added, errs := instancetypes.Expand(instancetypes.TemplateOf(vm), nil, nil, rec); added != nil || errs != nil {
		t.Errorf("got %v, %v", added, errs)
	}
	if diff := cmp.Diff(before, vm); diff != "" {
		t.Error(diff)
	}
}

func TestExpandOfAVMWithoutATemplate(t *testing.T) {
	vm := &v1.VirtualMachine{}
	if _, errs := instancetypes.Expand(instancetypes.TemplateOf(vm), instancetype(t, `{"cpu":{"guest":2}}`), nil, provenance.NewRecorder("")); len(errs) > 0 || vm.Spec.Template != nil {
		t.Errorf("got %v, template %v", errs, vm.Spec.Template)
	}
}

func TestExpandKeepsItsArguments(t *testing.T) {
	in := instancetype(t, `{"cpu":{"guest":2,"numa":{"guestMappingPassthrough":{}}},"memory":{"guest":"2Gi"},"nodeSelector":{"a":"b"},"gpus":[{"name":"g","deviceName":"a/b"}]}`)
	pref := preference(t, `{"devices":{"preferredPanicDeviceModel":"isa"},"features":{"preferredAcpi":{"enabled":true}}}`)
	vm := virtualMachine(t, `{"domain":{"devices":{}}}`)
	if _, errs := instancetypes.Expand(instancetypes.TemplateOf(vm), in, pref, provenance.NewRecorder("")); len(errs) > 0 {
		t.Fatal(errs)
	}
	spec := &vm.Spec.Template.Spec
	spec.NodeSelector["a"] = "c"
	spec.Domain.Devices.GPUs[0].Name = "h"
	*spec.Domain.Devices.PanicDevices[0].Model = "pvpanic"
	*spec.Domain.Features.ACPI.Enabled = false
	if in.Spec.NodeSelector["a"] != "b" || in.Spec.GPUs[0].Name != "g" || *pref.Spec.Devices.PreferredPanicDeviceModel != "isa" || !*pref.Spec.Features.PreferredAcpi.Enabled {
		t.Error("the expanded spec shares memory with the instancetype or the preference")
	}
}

func TestCheckSpread(t *testing.T) {
	spread := func(options string) string {
		return `{"cpu":{"preferredCPUTopology":"preferSpread","spreadOptions":` + options + `}}`
	}
	for name, tc := range map[string]struct {
		vCPUs uint32
		pref  string
		want  string
	}{
		"even":                  {4, spread(`{}`), ""},
		"odd":                   {5, spread(`{}`), `spec.instancetype: Invalid value: "u1.medium": its 5 vCPUs cannot be divided into sockets of 2 cores, as preference "fedora" wants`},
		"the deprecated ratio":  {8, `{"preferSpreadSocketToCoreRatio":3,"cpu":{"preferredCPUTopology":"spread"}}`, `spec.instancetype: Invalid value: "u1.medium": its 8 vCPUs cannot be divided into sockets of 3 cores, as preference "fedora" wants`},
		"threads":               {5, spread(`{"across":"CoresThreads"}`), `spec.instancetype: Invalid value: "u1.medium": its 5 vCPUs cannot be divided into cores of 2 threads, as preference "fedora" wants`},
		"all three":             {6, spread(`{"across":"SocketsCoresThreads"}`), `spec.instancetype: Invalid value: "u1.medium": its 6 vCPUs cannot be divided into sockets of 2 cores with 2 threads, as preference "fedora" wants`},
		"ratio 0":               {4, spread(`{"ratio":0}`), `spec.preference: Invalid value: "fedora": its spec.cpu.spreadOptions.ratio is 0, but vCPUs are divided by it: it must be 1 or more`},
		"ratio 0, unused":       {4, `{"cpu":{"preferredCPUTopology":"cores","spreadOptions":{"ratio":0}}}`, ""},
		"across something else": {5, spread(`{"across":"Racks","ratio":0}`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := instancetype(t, fmt.Sprintf(`{"cpu":{"guest":%d},"memory":{"guest":"1Gi"}}`, tc.vCPUs))
			got := ""
			if err := instancetypes.CheckSpread(instancetypes.TemplateOf(virtualMachine(t, `{}`)), in, preference(t, tc.pref)); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("want %s\ngot  %s", tc.want, got)
			}
		})
	}
	if err := instancetypes.CheckSpread(instancetypes.TemplateOf(virtualMachine(t, `{}`)), nil, preference(t, spread(`{"ratio":0}`))); err != nil {
		t.Errorf("without an instancetype: %v", err)
	}
}

func TestRequirements(t *testing.T) {
	demanding := `{"requirements":{"cpu":{"guest":4},"memory":{"guest":"4Gi"},"architecture":"arm64"},"cpu":{"preferredCPUTopology":"any"}}`
	for name, tc := range map[string]struct {
		vm, in, pref string
		want         []string
	}{
		"all are reported, for an instancetype": {
			vm: `{"architecture":"amd64"}`, in: `{"cpu":{"guest":2},"memory":{"guest":"2Gi"}}`, pref: demanding,
			want: []string{
				`spec.instancetype: Not found: "u1.medium": preference "fedora" requires 4 vCPUs, the instancetype provides 2`,
				`spec.instancetype: Not found: "u1.medium": preference "fedora" requires 4Gi of memory, the instancetype provides 2Gi`,
				`spec.template.spec.architecture: Not found: "amd64": preference "fedora" requires the architecture "arm64"`,
			},
		},
		"the VM's own resources": {
			vm: `{"architecture":"arm64","domain":{"cpu":{"sockets":2,"cores":1,"threads":1},"memory":{"hugepages":{"pageSize":"2Mi"}}}}`, pref: demanding,
			want: []string{
				`spec.template.spec.domain.cpu.cores: Not found: 1: preference "fedora" requires 4 vCPUs as cores, sockets and threads, the VM provides 2`,
				`spec.template.spec.domain.cpu.sockets: Not found: 2: preference "fedora" requires 4 vCPUs as cores, sockets and threads, the VM provides 2`,
				`spec.template.spec.domain.cpu.threads: Not found: 1: preference "fedora" requires 4 vCPUs as cores, sockets and threads, the VM provides 2`,
				`spec.template.spec.domain.memory: Not found: "0": preference "fedora" requires 4Gi of memory`,
			},
		},
		"no CPU at all": {
			vm: `{}`, pref: `{"requirements":{"cpu":{"guest":1}}}`,
			want: []string{`spec.template.spec.domain.cpu: Not found: 0: preference "fedora" requires 1 vCPUs, the VM names none`},
		},
		"a product beyond 64 bits": {
			vm: `{"domain":{"cpu":{"sockets":4294967295,"cores":4294967295,"threads":4294967295}}}`, pref: `{"requirements":{"cpu":{"guest":4}},"cpu":{"preferredCPUTopology":"any"}}`,
		},
		"an unknown topology requires nothing": {
			vm: `{"domain":{"cpu":{"sockets":1}}}`, pref: `{"requirements":{"cpu":{"guest":4}},"cpu":{"preferredCPUTopology":"diagonal"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var in *instancetypes.Instancetype
			if tc.in != "" {
				in = instancetype(t, tc.in)
			}
			got := messages(instancetypes.Requirements(instancetypes.TemplateOf(virtualMachine(t, tc.vm)), in, preference(t, tc.pref)))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyToVM(t *testing.T) {
	vm := &v1.VirtualMachine{}
	if err := json.Unmarshal([]byte(`{"spec":{"template":{"spec":{"domain":{"devices":{}}}},"dataVolumeTemplates":[
		{"metadata":{"name":"a"},"spec":{"storage":{}}},{"metadata":{"name":"b"},"spec":{"pvc":{}}},{"metadata":{"name":"c"},"spec":{"storage":{"storageClassName":"slow"}}}]}}`), vm); err != nil {
		t.Fatal(err)
	}
	rec := provenance.NewRecorder("spec.template.spec")
	instancetypes.ApplyToVM(vm, preference(t, `{"volumes":{"preferredStorageClassName":"fast"},"preferredArchitecture":"arm64","machine":{"preferredMachineType":"virt"}}`), rec)
	var got []string
	for _, c := range rec.Changes() {
		value, _ := json.Marshal(c.Value)
		got = append(got, c.Layer+" "+c.Path+"="+string(value))
	}
	want := []string{
		`preference/fedora spec.dataVolumeTemplates[0].spec.storage.storageClassName="fast"`,
		`preference/fedora spec.dataVolumeTemplates[1].spec.pvc.storageClassName="fast"`,
		`preference/fedora spec.template.spec.architecture="arm64"`,
		`preference/fedora spec.template.spec.domain.machine.type="virt"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	instancetypes.ApplyToVM(&v1.VirtualMachine{}, preference(t, `{"preferredArchitecture":"arm64"}`), rec) // no template
	instancetypes.ApplyToVM(vm, nil, rec)
}

// checkProvenance asserts that the recorded changes are exactly what changed: nothing else differs, and
// every recorded path leads to a difference or to a value that was not there.
func checkProvenance(t *testing.T, before, after any, rec *provenance.Recorder) {
	t.Helper()
	changed := map[string]bool{}
	old, now := leaves(t, before), leaves(t, after)
	for path, value := range now {
		if was, ok := old[path]; (!ok || was != value) && !emptyParent(value) {
			changed[path] = true
		}
	}
	for path, value := range old {
		if _, ok := now[path]; !ok && !emptyParent(value) {
			changed[path] = true
		}
	}
	recorded := map[string]bool{}
	for _, c := range rec.Changes() {
		if strings.HasPrefix(c.Path, "spec.template.metadata") {
			continue
		}
		recorded[c.Path] = true
	}
	for path := range changed {
		if !covered(path, recorded) {
			t.Errorf("%s changed from %s to %s and was not recorded", path, old[path], now[path])
		}
	}
	for path := range recorded {
		found := false
		for leaf := range changed {
			found = found || below(leaf, path)
		}
		for leaf, value := range now {
			if _, was := old[leaf]; emptyParent(value) && !was {
				found = found || below(leaf, path)
			}
		}
		if !found {
			t.Errorf("%s was recorded and did not change", path)
		}
	}
}

func emptyParent(value string) bool { return value == "{}" }

func below(leaf, path string) bool {
	rest, ok := strings.CutPrefix(leaf, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func covered(leaf string, recorded map[string]bool) bool {
	for path := range recorded {
		if below(leaf, path) {
			return true
		}
	}
	return false
}

func leaves(t *testing.T, object any) map[string]string {
	t.Helper()
	value, err := conformance.ToJSON(object)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	collect("", value, all)
	return all
}

func collect(path string, value any, into map[string]string) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			into[path] = "{}"
		}
		for name, below := range v {
			if strings.HasSuffix(path, "requests") || strings.HasSuffix(path, "annotations") {
				collect(fieldpath.Keyed(path, name), below, into)
				continue
			}
			collect(strings.TrimPrefix(path+"."+name, "."), below, into)
		}
	case []any:
		for i, below := range v {
			collect(fmt.Sprintf("%s[%d]", path, i), below, into)
		}
	default:
		into[path] = fmt.Sprintf("%v", v)
	}
}

func recordedCases(t testing.TB) []conformance.InstancetypeCase {
	t.Helper()
	file, err := os.Open("../conformance/testdata/instancetype.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cases, err := conformance.ReadInstancetypeCases(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	return cases
}

// TestProvenanceIsExact lays the instancetypes and preferences of the recorded cases over each other's VMs.
func TestProvenanceIsExact(t *testing.T) {
	cases := recordedCases(t)
	expanded := 0
	for i := range cases {
		for j := range 24 {
			in, pref := cases[(i*7+j*11)%len(cases)].Instancetype, cases[(i*5+j*17)%len(cases)].Preference
			if expandRecorded(t, in, pref, cases[i].VMI.DeepCopy()) {
				expanded++
			}
		}
	}
	if expanded < 1000 {
		t.Errorf("only %d combinations had no conflict", expanded)
	}
}

// expandRecorded expands, asserts that the provenance is exact, and reports whether there was no conflict.
func expandRecorded(t *testing.T, inSpec *instancetypev1beta1.VirtualMachineInstancetypeSpec, prefSpec *instancetypev1beta1.VirtualMachinePreferenceSpec, spec *v1.VirtualMachineInstanceSpec) bool {
	t.Helper()
	vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: *spec}}}
	var in *instancetypes.Instancetype
	if inSpec != nil {
		in = &instancetypes.Instancetype{Name: "it", Spec: *inSpec}
	}
	var pref *instancetypes.Preference
	if prefSpec != nil {
		pref = &instancetypes.Preference{Name: "pf", Spec: *prefSpec}
	}
	target := instancetypes.TemplateOf(vm)
	before := target.Spec.DeepCopy()
	rec := provenance.NewRecorder("")
	_, errs := instancetypes.Expand(target, in, pref, rec)
	if len(errs) > 0 && len(rec.Changes()) > 0 {
		t.Errorf("conflicts %v, and yet changes %v", errs, rec.Changes())
	}
	checkProvenance(t, before, target.Spec, rec)
	_ = instancetypes.CheckSpread(target, in, pref)
	instancetypes.Requirements(target, in, pref)
	instancetypes.Requirements(target, nil, pref)
	instancetypes.ApplyToVM(vm, pref, rec)
	return len(errs) == 0
}

func FuzzExpand(f *testing.F) {
	for _, c := range recordedCases(f) {
		in, _ := json.Marshal(c.Instancetype)
		pref, _ := json.Marshal(c.Preference)
		vmi, _ := json.Marshal(c.VMI)
		f.Add(in, pref, vmi)
	}
	f.Add([]byte(`{"cpu":{"guest":2},"memory":{"guest":"2Gi"}}`), []byte(`{"cpu":{"preferredCPUTopology":"spread","spreadOptions":{"ratio":0}}}`), []byte(`{}`))
	f.Add([]byte(`null`), []byte(`{"cpu":{"preferredCPUFeatures":[{"name":"a"}]}}`), []byte(`{}`))
	f.Add([]byte(`{"cpu":{"guest":1,"maxSockets":0},"memory":{"guest":"9E","overcommitPercent":2147483647}}`), []byte(`{"devices":{"preferredDisableHotplug":false},"features":{"preferredAcpi":{}}}`),
		[]byte(`{"domain":{"cpu":{"maxSockets":3},"devices":{"disableHotplug":true},"features":{"acpi":{"enabled":false}}}}`))
	f.Fuzz(func(t *testing.T, inJSON, prefJSON, vmiJSON []byte) {
		var inSpec *instancetypev1beta1.VirtualMachineInstancetypeSpec
		var prefSpec *instancetypev1beta1.VirtualMachinePreferenceSpec
		var spec v1.VirtualMachineInstanceSpec
		if json.Unmarshal(inJSON, &inSpec) != nil || json.Unmarshal(prefJSON, &prefSpec) != nil || json.Unmarshal(vmiJSON, &spec) != nil {
			t.Skip()
		}
		expandRecorded(t, inSpec, prefSpec, &spec)
	})
}

func BenchmarkExpand(b *testing.B) {
	vmi := &v1.VirtualMachineInstanceSpec{}
	vmi.Domain.Devices.Disks = []v1.Disk{{Name: "root"}, {Name: "data"}, {Name: "more"}}
	in := &instancetypes.Instancetype{Name: "u1.medium"}
	in.Spec.CPU.Guest, in.Spec.Memory.Guest = 4, resource.MustParse("4Gi")
	pref := &instancetypes.Preference{Name: "fedora"}
	pref.Spec.Devices = &instancetypev1beta1.DevicePreferences{PreferredDiskBus: v1.DiskBusVirtio, PreferredInterfaceModel: "virtio"}
	b.ReportAllocs()
	for b.Loop() {
		vm := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{Template: &v1.VirtualMachineInstanceTemplateSpec{Spec: *vmi}}}
		vm.Spec.Template.Spec.Domain.Devices.Disks = append([]v1.Disk(nil), vmi.Domain.Devices.Disks...)
		instancetypes.Expand(instancetypes.TemplateOf(vm), in, pref, provenance.NewRecorder("spec.template.spec"))
	}
}
