package references_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func memory(t *testing.T, texts ...string) *references.Memory {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, text := range texts {
		all = append(all, object(t, text))
	}
	m, err := references.NewMemory("default", all...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func virtualMachine(t *testing.T, spec string) *v1.VirtualMachine {
	t.Helper()
	vm := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
	if err := json.Unmarshal([]byte(spec), vm); err != nil {
		t.Fatal(err)
	}
	return vm
}

const (
	clusterIT = `{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachineClusterInstancetype","metadata":{"name":"it"},"spec":{"cpu":{"guest":2},"memory":{"guest":"2Gi"}}}`
	clusterPF = `{"apiVersion":"instancetype.kubevirt.io/v1","kind":"VirtualMachineClusterPreference","metadata":{"name":"pf"},"spec":{"machine":{"preferredMachineType":"live"}}}`
)

func revision(name, labels, kind, spec string) string {
	return `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"` + name + `","namespace":"default","labels":` + labels + `},"data":{"apiVersion":"instancetype.kubevirt.io/v1beta1","kind":"` + kind + `","metadata":{"name":"it"},"spec":` + spec + `}}`
}

func TestReferences(t *testing.T) {
	ofIT := `{"instancetype.kubevirt.io/object-name":"it"}`
	eight := `{"cpu":{"guest":8},"memory":{"guest":"2Gi"}}`
	for name, tc := range map[string]struct {
		vm       string
		objects  []string
		vCPUs    uint32 // 0: no instancetype
		pref     string
		warnings []string
		errors   []string
	}{
		"nothing named": {vm: `{}`},
		"both":          {vm: `{"spec":{"instancetype":{"name":"it"},"preference":{"name":"pf"}}}`, objects: []string{clusterIT, clusterPF}, vCPUs: 2, pref: "pf"},
		"both missing": {
			vm:       `{"spec":{"instancetype":{"name":"it"},"preference":{"name":"pf","kind":"VirtualMachinePreference"}}}`,
			warnings: []string{"spec.instancetype: there is no VirtualMachineClusterInstancetype it; the VM is evaluated without it, and what it determines is checked when the VM starts", "spec.preference: there is no VirtualMachinePreference default/pf; the VM is evaluated without it, and what it determines is checked when the VM starts"},
		},
		"a kind that does not exist": {
			vm:       `{"spec":{"preference":{"name":"pf","kind":"Taste"}}}`,
			warnings: []string{`spec.preference.kind: Unsupported value: "Taste": supported values: "VirtualMachineClusterPreference", "VirtualMachinePreference"; the VM is evaluated without it, and KubeVirt will not start it`},
		},
		"a revision that is missing is not replaced": {
			vm: `{"spec":{"instancetype":{"name":"it","revisionName":"r"}}}`, objects: []string{clusterIT},
			warnings: []string{"spec.instancetype: there is no ControllerRevision default/r; the VM is evaluated without it, and what it determines is checked when the VM starts"},
		},
		"a revision comes first": {
			vm:      `{"spec":{"instancetype":{"name":"it","revisionName":"r"}},"status":{"instancetypeRef":{"controllerRevisionRef":{"name":"s"}}}}`,
			objects: []string{clusterIT, revision("r", `{}`, "VirtualMachineClusterInstancetype", eight)}, vCPUs: 8,
		},
		"then the status": {
			vm:      `{"spec":{"instancetype":{"name":"it"}},"status":{"instancetypeRef":{"controllerRevisionRef":{"name":"r"}}}}`,
			objects: []string{clusterIT, revision("r", ofIT, "VirtualMachineClusterInstancetype", eight)}, vCPUs: 8,
		},
		"but not of another instancetype": {
			vm:      `{"spec":{"instancetype":{"name":"it"}},"status":{"instancetypeRef":{"controllerRevisionRef":{"name":"r"}}}}`,
			objects: []string{clusterIT, revision("r", `{"instancetype.kubevirt.io/object-name":"other"}`, "VirtualMachineClusterInstancetype", eight)}, vCPUs: 2,
		},
		"nor for a kind that does not exist": {
			vm:       `{"spec":{"instancetype":{"name":"it","kind":"Size"}},"status":{"instancetypeRef":{"controllerRevisionRef":{"name":"r"}}}}`,
			objects:  []string{revision("r", `{}`, "VirtualMachineClusterInstancetype", eight)},
			warnings: []string{"spec.instancetype.kind names a kind that does not exist; the VM is evaluated without it, and KubeVirt will not start it"},
		},
		"a revision of something else": {
			vm: `{"spec":{"instancetype":{"name":"it","revisionName":"r"}}}`, objects: []string{revision("r", `{}`, "VirtualMachinePreference", `{}`)},
			warnings: []string{`spec.instancetype: ControllerRevision r: VirtualMachinePreference "it" where a VirtualMachineInstancetype or VirtualMachineClusterInstancetype is expected; the VM is evaluated without it`},
		},
		"contradicting matchers": {
			vm: `{"spec":{"instancetype":{"name":"it","inferFromVolume":"root"},"preference":{"name":"pf"}}}`, objects: []string{clusterIT, clusterPF},
			errors: []string{`spec.instancetype.name: Unsupported value: "it": must not be set together with inferFromVolume, which determines it`},
		},
		"no volume of the name": {
			vm:     `{"spec":{"instancetype":{"inferFromVolume":"root","inferFromVolumeFailurePolicy":"Ignore"}}}`,
			errors: []string{`spec.instancetype.inferFromVolume: Invalid value: "root": the VM has no volume of this name`},
		},
		"a volume without labels": {
			vm:      `{"spec":{"instancetype":{"inferFromVolume":"root"},"template":{"spec":{"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"c"}}]}}}}`,
			objects: []string{`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"}}`},
			errors:  []string{`spec.instancetype.inferFromVolume: Invalid value: "root": PersistentVolumeClaim default/c has no label instancetype.kubevirt.io/default-instancetype`},
		},
		"which may be ignored": {
			vm:       `{"spec":{"preference":{"inferFromVolume":"root","inferFromVolumeFailurePolicy":"Ignore"},"template":{"spec":{"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"c"}}]}}}}`,
			objects:  []string{`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"}}`},
			warnings: []string{`spec.preference: nothing was inferred from volume "root", so it is left out: PersistentVolumeClaim default/c has no label instancetype.kubevirt.io/default-preference`},
		},
		"in another namespace too": {
			vm: `{"spec":{"preference":{"inferFromVolume":"root","inferFromVolumeFailurePolicy":"Ignore"},"dataVolumeTemplates":[{"metadata":{"name":"d"},"spec":{"source":{"pvc":{"name":"c","namespace":"other"}}}}],
				"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"d"}}]}}}}`,
			objects:  []string{`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","namespace":"other"}}`},
			warnings: []string{`spec.preference: nothing was inferred from volume "root", so it is left out: nothing can be inferred from PersistentVolumeClaim other/c`},
		},
		"a DataSource of a snapshot": {
			vm: `{"spec":{"instancetype":{"inferFromVolume":"root"},"dataVolumeTemplates":[{"metadata":{"name":"d"},"spec":{"sourceRef":{"kind":"DataSource","name":"fedora","namespace":"images"}}}],
				"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"d"}}]}}}}`,
			objects: []string{
				clusterIT, `{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"name":"fedora","namespace":"images"},"spec":{"source":{"snapshot":{"name":"s","namespace":"images"}}}}`,
				`{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshot","metadata":{"name":"s","namespace":"images","labels":{"instancetype.kubevirt.io/default-instancetype":"it"}}}`,
			}, vCPUs: 2,
		},
		"a source without a namespace": {
			vm: `{"spec":{"instancetype":{"inferFromVolume":"root"},"dataVolumeTemplates":[{"metadata":{"name":"d"},"spec":{"source":{"pvc":{"name":"c","namespace":""}}}}],
				"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"d"}}]}}}}`,
			errors: []string{`spec.instancetype.inferFromVolume: Invalid value: "root": the PersistentVolumeClaim that it comes from needs a name and a namespace`},
		},
		"a DataVolume that cannot be read": {
			vm:      `{"spec":{"instancetype":{"inferFromVolume":"root"},"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"d"}}]}}}}`,
			objects: []string{`{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataVolume","metadata":{"name":"d"},"spec":{"source":[]}}`},
			errors:  []string{`spec.instancetype.inferFromVolume: Invalid value: "root": DataVolume default/d cannot be read`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, warnings, err := references.References(t.Context(), memory(t, tc.objects...), virtualMachine(t, tc.vm))
			if err != nil {
				t.Fatal(err)
			}
			var vCPUs uint32
			if found.Instancetype != nil {
				vCPUs = found.Instancetype.Spec.CPU.Guest
			}
			pref := ""
			if found.Preference != nil {
				pref = found.Preference.Name
			}
			if vCPUs != tc.vCPUs || pref != tc.pref {
				t.Errorf("want %d vCPUs and preference %q, got %d and %q", tc.vCPUs, tc.pref, vCPUs, pref)
			}
			if diff := cmp.Diff(tc.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			var errs []string
			for _, err := range found.Conflicts {
				errs = append(errs, err.Error())
			}
			if diff := cmp.Diff(tc.errors, errs); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInferredUnderIgnoreClearsMemory(t *testing.T) {
	vm := virtualMachine(t, `{"spec":{"instancetype":{"inferFromVolume":"root","inferFromVolumeFailurePolicy":"Ignore"},
		"template":{"spec":{"domain":{"memory":{"guest":"1Gi"},"devices":{}},"volumes":[{"name":"root","persistentVolumeClaim":{"claimName":"c"}}]}}}}`)
	before := vm.DeepCopy()
	found, _, err := references.References(t.Context(), memory(t, clusterIT,
		`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c","labels":{"instancetype.kubevirt.io/default-instancetype":"it","instancetype.kubevirt.io/default-instancetype-kind":"virtualmachineclusterinstancetype"}}}`), vm)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, vm); diff != "" {
		t.Errorf("looking up changed the VM: %s", diff)
	}
	found.ApplyTo(vm)
	if diff := cmp.Diff(&v1.InstancetypeMatcher{Name: "it", Kind: "virtualmachineclusterinstancetype"}, vm.Spec.Instancetype); diff != "" {
		t.Error(diff)
	}
	if vm.Spec.Template.Spec.Domain.Memory != nil || !found.Inferred || found.Instancetype == nil {
		t.Errorf("got memory %v, %+v", vm.Spec.Template.Spec.Domain.Memory, found)
	}
}

func TestDataSourceArchitecture(t *testing.T) {
	source := func(name, labels, source string) string {
		return `{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"name":"` + name + `","labels":` + labels + `},"spec":{"source":` + source + `}}`
	}
	two := `{"spec":{"template":{"spec":{}},"dataVolumeTemplates":[{"spec":{"source":{"blank":{}}}},{"spec":{"sourceRef":{"kind":"datasource","name":"a","namespace":""}}},{"spec":{"sourceRef":{"kind":"DataSource","name":"b"}}}]}}`
	for name, tc := range map[string]struct {
		vm       string
		objects  []string
		want     *effective.DataSourceArchitecture
		warnings []string
	}{
		"the first": {vm: two, objects: []string{source("a", `{"template.kubevirt.io/architecture":"arm64"}`, `{}`), source("b", `{"template.kubevirt.io/architecture":"s390x"}`, `{}`)}, want: &effective.DataSourceArchitecture{Template: 1, Architecture: "arm64", DataSource: "default/a"}},
		"missing, unknown": {vm: two, objects: []string{source("b", `{"template.kubevirt.io/architecture":"mips"}`, `{}`)}, warnings: []string{
			"spec.dataVolumeTemplates[1].spec.sourceRef: DataSource default/a does not exist, so there is no architecture to take from it",
			`spec.dataVolumeTemplates[2].spec.sourceRef: DataSource default/b has a label template.kubevirt.io/architecture that is no architecture which KubeVirt knows`,
		}},
		"one hop": {vm: two, objects: []string{source("a", `{"template.kubevirt.io/architecture":"amd64"}`, `{"dataSource":{"name":"b","namespace":"default"}}`), source("b", `{"template.kubevirt.io/architecture":"s390x"}`, `{"dataSource":{"name":"a","namespace":"default"}}`)}, want: &effective.DataSourceArchitecture{Template: 1, Architecture: "s390x", DataSource: "default/a"}},
		"points nowhere": {vm: two, objects: []string{source("a", `{}`, `{"dataSource":{"name":"c","namespace":"default"}}`), source("b", `{}`, `{}`)}, warnings: []string{
			"spec.dataVolumeTemplates[1].spec.sourceRef: the DataSource behind DataSource default/a does not exist, so there is no architecture to take from it",
		}},
		"explicit": {vm: `{"spec":{"template":{"spec":{"architecture":"amd64"}},"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"DataSource","name":"a"}}}]}}`},
		"no VM":    {vm: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := references.DataSourceArchitecture(t.Context(), memory(t, tc.objects...), virtualMachine(t, tc.vm))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOtherNamespaces: no message discloses whether an object in another namespace exists, or what it points at; only what
// can be inferred from it.
func TestOtherNamespaces(t *testing.T) {
	const (
		fromClaim    = `{"source":{"pvc":{"name":"x","namespace":"other"}}}`
		fromSnapshot = `{"source":{"snapshot":{"name":"x","namespace":"other"}}}`
		fromSource   = `{"sourceRef":{"kind":"DataSource","name":"x","namespace":"other"}}`
		fromOwn      = `{"sourceRef":{"kind":"DataSource","name":"local"}}`
	)
	source := func(namespace, name, spec string) string {
		return `{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"name":"` + name + `","namespace":"` + namespace + `","labels":{"template.kubevirt.io/architecture":"mips"}},"spec":` + spec + `}`
	}
	local := source("default", "local", `{"source":{"pvc":{"name":"x","namespace":"other"}}}`)
	claim := `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"x","namespace":"other"}}`
	snapshot := `{"apiVersion":"snapshot.storage.k8s.io/v1","kind":"VolumeSnapshot","metadata":{"name":"x","namespace":"other"}}`
	for name, tc := range map[string]struct {
		spec    string
		objects []string
		why     string
	}{
		"no claim":                        {fromClaim, nil, "PersistentVolumeClaim other/x"},
		"a claim without labels":          {fromClaim, []string{claim}, "PersistentVolumeClaim other/x"},
		"no snapshot":                     {fromSnapshot, nil, "VolumeSnapshot other/x"},
		"a snapshot without labels":       {fromSnapshot, []string{snapshot}, "VolumeSnapshot other/x"},
		"no DataSource":                   {fromSource, nil, "DataSource other/x"},
		"a DataSource that is empty":      {fromSource, []string{source("other", "x", `{"source":{}}`)}, "DataSource other/x"},
		"a DataSource of nothing":         {fromSource, []string{source("other", "x", `{"source":{"pvc":{"name":"","namespace":""}}}`)}, "DataSource other/x"},
		"a DataSource of a missing claim": {fromSource, []string{source("other", "x", `{"source":{"pvc":{"name":"hidden","namespace":"other"}}}`)}, "DataSource other/x"},
		"a DataSource of a local claim":   {fromSource, []string{source("other", "x", `{"source":{"pvc":{"name":"hidden","namespace":"default"}}}`)}, "DataSource other/x"},
		"a DataSource that is unreadable": {fromSource, []string{source("other", "x", `{"source":[]}`)}, "DataSource other/x"},
		"no claim, by our DataSource":     {fromOwn, []string{local}, "the object behind the volume"},
		"a claim, by our DataSource":      {fromOwn, []string{local, claim}, "the object behind the volume"},
	} {
		t.Run(name, func(t *testing.T) {
			vm := virtualMachine(t, `{"spec":{"instancetype":{"inferFromVolume":"root"},"dataVolumeTemplates":[{"metadata":{"name":"d"},"spec":`+tc.spec+`}],
				"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"d"}}]}}}}`)
			objects := memory(t, tc.objects...)
			found, warnings, err := references.References(t.Context(), objects, vm)
			if err != nil || len(found.Conflicts) != 1 || warnings != nil {
				t.Fatalf("got conflicts %v, warnings %q, error %v", found.Conflicts, warnings, err)
			}
			want := `spec.instancetype.inferFromVolume: Invalid value: "root": nothing can be inferred from ` + tc.why
			if got := found.Conflicts[0].Error(); got != want {
				t.Errorf("got %s\nwant %s", got, want)
			}
			if tc.spec != fromSource {
				return
			}
			if architecture, warnings, err := references.DataSourceArchitecture(t.Context(), objects, vm); architecture != nil || warnings != nil || err != nil {
				t.Errorf("architecture: got %v, %q, %v", architecture, warnings, err)
			}
		})
	}
}

// TestPointerToAnotherNamespace: a DataSource of the VM's namespace is no way around it.
func TestPointerToAnotherNamespace(t *testing.T) {
	vm := virtualMachine(t, `{"spec":{"template":{"spec":{}},"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"DataSource","name":"local"}}}]}}`)
	local := `{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"name":"local"},"spec":{"source":{"dataSource":{"name":"x","namespace":"other"}}}}`
	labelled := func(architecture string) string {
		return `{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"name":"x","namespace":"other","labels":{"template.kubevirt.io/architecture":"` + architecture + `"}}}`
	}
	for name, tc := range map[string]struct {
		objects []string
		want    *effective.DataSourceArchitecture
	}{
		"missing": {objects: []string{local}},
		"unknown": {objects: []string{local, labelled("mips")}},
		"known":   {objects: []string{local, labelled("arm64")}, want: &effective.DataSourceArchitecture{DataSource: "default/local", Architecture: "arm64"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := references.DataSourceArchitecture(t.Context(), memory(t, tc.objects...), vm)
			if err != nil || warnings != nil {
				t.Errorf("got %q, %v", warnings, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// counting counts the questions.
type counting struct {
	references.Objects
	gets int
}

func (c *counting) Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	c.gets++
	return c.Objects.Get(ctx, kind, namespace, name)
}

func TestManyDataSources(t *testing.T) {
	vm := virtualMachine(t, `{"spec":{"template":{"spec":{}}}}`)
	blank := v1.DataVolumeTemplateSpec{}
	source := v1.DataVolumeTemplateSpec{Spec: cdiv1beta1.DataVolumeSpec{SourceRef: &cdiv1beta1.DataVolumeSourceRef{Kind: "DataSource", Name: "golden"}}}
	vm.Spec.DataVolumeTemplates = append(vm.Spec.DataVolumeTemplates, blank)
	for range 50_000 {
		vm.Spec.DataVolumeTemplates = append(vm.Spec.DataVolumeTemplates, source)
	}
	objects := &counting{Objects: memory(t, `{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"name":"golden"}}`)}
	got, warnings, err := references.DataSourceArchitecture(t.Context(), objects, vm)
	if got != nil || err != nil || objects.gets != 20 {
		t.Errorf("got %v and %v after %d questions", got, err, objects.gets)
	}
	want := []string{"spec.dataVolumeTemplates[21].spec.sourceRef: none of the 20 DataSources before it says an architecture; it and those after it are not looked at"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func presetObject(name, namespace, selector, domain string) string {
	return `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstancePreset","metadata":{"name":"` + name + `","namespace":"` + namespace + `"},"spec":{"selector":` + selector + `,"domain":` + domain + `}}`
}

func TestPresets(t *testing.T) {
	const (
		fedora  = `{"matchLabels":{"os":"fedora"}}`
		windows = `{"matchLabels":{"os":"windows"}}`
		plain   = `{"devices":{}}`
	)
	many := func(count int, selector, domain string) []string {
		var all []string
		for i := range count {
			all = append(all, presetObject(fmt.Sprintf("p%03d", i), "default", selector, domain))
		}
		return all
	}
	for name, tc := range map[string]struct {
		objects []string
		want    []string
		err     string
	}{
		"those that select it": {
			objects: []string{presetObject("b", "default", fedora, plain), presetObject("a", "default", `{}`, plain), presetObject("c", "default", windows, plain), presetObject("d", "other", `{}`, plain)},
			want:    []string{"a", "b"},
		},
		"others do not count":           {objects: append(many(1000, windows, `[]`), presetObject("z", "default", fedora, plain)), want: []string{"z"}},
		"others are not read":           {objects: []string{presetObject("c", "default", windows, `{"memory":{"guest":"1e99999999"}}`)}},
		"too many":                      {objects: many(51, fedora, plain), err: "there are too many VirtualMachineInstancePresets in namespace default: more than 50 select the instance"},
		"a selector of another form":    {objects: []string{presetObject("f", "default", `7`, plain)}, err: "VirtualMachineInstancePreset default/f has a selector that cannot be read: cannot restore struct from: float64"},
		"an operator that is unknown":   {objects: []string{presetObject("e", "default", `{"matchExpressions":[{"key":"a","operator":"Near"}]}`, plain)}, err: `VirtualMachineInstancePreset default/e has a selector that cannot be read: "Near" is not a valid label selector operator`},
		"unreadable":                    {objects: []string{presetObject("g", "default", fedora, `[]`), presetObject("h", "default", fedora, `[]`)}, err: "VirtualMachineInstancePreset default/g, which selects the VMI, cannot be read: cannot restore struct from: slice"},
		"a quantity without proportion": {objects: []string{presetObject("g", "default", fedora, `{"memory":{"guest":"1e99999999"}}`)}, err: `VirtualMachineInstancePreset default/g, which selects the VMI, cannot be read: spec.domain.memory.guest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := references.Presets(t.Context(), memory(t, tc.objects...), metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"os": "fedora"}})
			if tc.err != "" {
				if err == nil || err.Error() != tc.err || found != nil {
					t.Errorf("got %d presets and error %v\nwant %s", len(found), err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, p := range found {
				names = append(names, p.Name)
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	most := memory(t, many(50, fedora, plain)...)
	if found, err := references.Presets(t.Context(), most, metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"os": "fedora"}}); err != nil || len(found) != 50 {
		t.Errorf("the most there can be: got %d, %v", len(found), err)
	}
	excluded := metav1.ObjectMeta{Namespace: "default", Annotations: map[string]string{references.PresetExclusion: "true"}}
	if found, err := references.Presets(t.Context(), memory(t, presetObject("f", "default", `7`, plain)), excluded); found != nil || err != nil {
		t.Errorf("an excluded VMI: got %v, %v", found, err)
	}
}

func TestNewMemory(t *testing.T) {
	list := `{"apiVersion":"v1","kind":"List","items":[` + clusterIT + `,{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"}}]}`
	m := memory(t, list)
	if _, err := m.Get(t.Context(), schema.GroupVersionKind{Group: "instancetype.kubevirt.io", Version: "v1beta1", Kind: "VirtualMachineClusterInstancetype"}, "", "it"); err != nil {
		t.Error(err)
	}
	if _, err := m.Get(t.Context(), schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolumeClaim"}, "default", "c"); err != nil {
		t.Error(err)
	}
	for want, texts := range map[string][]string{
		"VirtualMachineClusterInstancetype it is given twice":                                 {clusterIT, clusterIT},
		`an object needs apiVersion, kind and metadata.name; this one is kind "Pod", name ""`: {`{"apiVersion":"v1","kind":"Pod"}`},
	} {
		var all []*unstructured.Unstructured
		for _, text := range texts {
			all = append(all, object(t, text))
		}
		if _, err := references.NewMemory("default", all...); err == nil || err.Error() != want {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// broken is a cluster that answers every question with one error.
type broken struct{ err error }

func (b broken) Get(context.Context, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	return nil, b.err
}

func (b broken) List(context.Context, schema.GroupVersionKind, string) ([]*unstructured.Unstructured, error) {
	return nil, b.err
}

func TestClusterThatCannotBeAsked(t *testing.T) {
	down := broken{errors.New("connection refused")}
	named := virtualMachine(t, `{"spec":{"instancetype":{"name":"it"}}}`)
	inferring := virtualMachine(t, `{"spec":{"preference":{"inferFromVolume":"root"},"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"d"}}]}}}}`)
	sourced := virtualMachine(t, `{"spec":{"template":{"spec":{}},"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"DataSource","name":"a"}}}]}}`)
	_, _, namedErr := references.References(t.Context(), down, named)
	_, _, inferErr := references.References(t.Context(), down, inferring)
	_, _, sourceErr := references.DataSourceArchitecture(t.Context(), down, sourced)
	_, presetErr := references.Presets(t.Context(), down, metav1.ObjectMeta{Namespace: "default"})
	for want, err := range map[string]error{
		"spec.instancetype: reading VirtualMachineClusterInstancetype it: connection refused": namedErr,
		"spec.preference.inferFromVolume: reading DataVolume default/d: connection refused":   inferErr,
		"spec.dataVolumeTemplates[0].spec.sourceRef: reading DataSources failed":              sourceErr,
		"listing VirtualMachineInstancePresets in default: connection refused":                presetErr,
	} {
		if err == nil || err.Error() != want || !errors.Is(err, down.err) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	unserved := broken{&meta.NoKindMatchError{}}
	found, warnings, err := references.References(t.Context(), unserved, named)
	if err != nil || len(warnings) != 1 {
		t.Errorf("a kind that is not served is a missing object; got %v, %v, %v", found, warnings, err)
	}
	if presets, err := references.Presets(t.Context(), unserved, metav1.ObjectMeta{}); presets != nil || err != nil {
		t.Errorf("presets that are not served: got %v, %v", presets, err)
	}
}

func FuzzReferences(f *testing.F) {
	f.Add([]byte(`{"spec":{"instancetype":{"inferFromVolume":"root"},"dataVolumeTemplates":[{"metadata":{"name":"d"},"spec":{"sourceRef":{"kind":"DataSource","name":"a"}}}],"template":{"spec":{"volumes":[{"name":"root","dataVolume":{"name":"d"}}]}}}}`),
		[]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataSource","metadata":{"name":"a","namespace":"default"},"spec":{"source":{"pvc":{"name":"c","namespace":"default"}}}}]}`))
	f.Add([]byte(`{"spec":{"preference":{"name":"pf","revisionName":"r"}}}`), []byte(`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"data":[]}`))
	f.Add([]byte(`{"metadata":{"labels":{"a":"b"}}}`), []byte(`{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstancePreset","metadata":{"name":"p"},"spec":{"selector":{"matchLabels":{"a":"b"}}}}`))
	f.Fuzz(func(t *testing.T, vmJSON, objectJSON []byte) {
		vm := &v1.VirtualMachine{}
		obj := &unstructured.Unstructured{}
		if json.Unmarshal(vmJSON, vm) != nil || json.Unmarshal(objectJSON, &obj.Object) != nil {
			t.Skip()
		}
		vm.Namespace = "default"
		objects, err := references.NewMemory("default", obj)
		if err != nil {
			t.Skip()
		}
		if found, _, err := references.References(t.Context(), objects, vm); err != nil {
			t.Error(err)
		} else {
			found.ApplyTo(vm)
		}
		if _, _, err := references.DataSourceArchitecture(t.Context(), objects, vm); err != nil {
			t.Error(err)
		}
		// Presets may be at fault: what counts is that an error comes without presets, and nothing panics.
		if found, err := references.Presets(t.Context(), objects, vm.ObjectMeta); err != nil && found != nil {
			t.Errorf("%v, and %d presets", err, len(found))
		}
	})
}

// tooLarge is a cluster in which every object is.
type tooLarge struct{}

func (tooLarge) Get(context.Context, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	return nil, platform.ErrTooLarge
}

func (tooLarge) List(context.Context, schema.GroupVersionKind, string) ([]*unstructured.Unstructured, error) {
	return nil, platform.ErrTooLarge
}

// TestWhatIsTooLargeToBeRead: size is enforced where objects are read, since they may be older than the bound.
func TestWhatIsTooLargeToBeRead(t *testing.T) {
	vm := build.VM("db").Instancetype("huge").Preference("huge").Obj()
	found, _, err := references.References(t.Context(), tooLarge{}, vm)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, conflict := range found.Conflicts {
		got = append(got, conflict.Error())
	}
	want := []string{
		"spec.instancetype: Too long: VirtualMachineClusterInstancetype huge is too large to be read: what is evaluated of one may have 65536 bytes",
		"spec.preference: Too long: VirtualMachineClusterPreference huge is too large to be read: what is evaluated of one may have 65536 bytes",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
	if _, err := references.Presets(t.Context(), tooLarge{}, vm.ObjectMeta); !errors.Is(err, references.ErrPresets) {
		t.Errorf("presets: %v", err)
	}
}
