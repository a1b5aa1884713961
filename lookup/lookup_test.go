package lookup_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/lookup"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func memory(t *testing.T, texts ...string) *lookup.Memory {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, text := range texts {
		all = append(all, object(t, text))
	}
	m, err := lookup.NewMemory("default", all...)
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
			warnings: []string{"spec.instancetype: there is no VirtualMachineClusterInstancetype it; the VM is judged without it", "spec.preference: there is no VirtualMachinePreference default/pf; the VM is judged without it"},
		},
		"a kind that does not exist": {
			vm:       `{"spec":{"preference":{"name":"pf","kind":"Taste"}}}`,
			warnings: []string{`spec.preference.kind: Unsupported value: "Taste": supported values: "VirtualMachineClusterPreference", "VirtualMachinePreference"; the VM is judged without it, and KubeVirt will not start it`},
		},
		"a revision that is missing is not replaced": {
			vm: `{"spec":{"instancetype":{"name":"it","revisionName":"r"}}}`, objects: []string{clusterIT},
			warnings: []string{"spec.instancetype: there is no ControllerRevision default/r; the VM is judged without it"},
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
			warnings: []string{"spec.instancetype.kind names a kind that does not exist; the VM is judged without it, and KubeVirt will not start it"},
		},
		"a revision of something else": {
			vm: `{"spec":{"instancetype":{"name":"it","revisionName":"r"}}}`, objects: []string{revision("r", `{}`, "VirtualMachinePreference", `{}`)},
			warnings: []string{`spec.instancetype: ControllerRevision r: VirtualMachinePreference "it" where a VirtualMachineInstancetype or VirtualMachineClusterInstancetype is expected; the VM is judged without it`},
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
			errors:  []string{`spec.instancetype.inferFromVolume: Invalid value: "root": DataVolume default/d cannot be read: cannot restore struct from: slice`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := lookup.References(t.Context(), memory(t, tc.objects...), virtualMachine(t, tc.vm))
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
			if diff := cmp.Diff(tc.warnings, found.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			var errs []string
			for _, err := range found.Errors {
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
	found, err := lookup.References(t.Context(), memory(t, clusterIT,
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
		want     *lookup.Architecture
		warnings []string
	}{
		"the first": {vm: two, objects: []string{source("a", `{"template.kubevirt.io/architecture":"arm64"}`, `{}`), source("b", `{"template.kubevirt.io/architecture":"s390x"}`, `{}`)}, want: &lookup.Architecture{Architecture: "arm64", Name: "a"}},
		"missing, unknown": {vm: two, objects: []string{source("b", `{"template.kubevirt.io/architecture":"mips"}`, `{}`)}, warnings: []string{
			"spec.dataVolumeTemplates[1].spec.sourceRef: there is no DataSource default/a, or none that it points at, to take the architecture from",
			`spec.dataVolumeTemplates[2].spec.sourceRef: DataSource b has the label template.kubevirt.io/architecture: "mips", which is no architecture that KubeVirt knows`,
		}},
		"one hop":  {vm: two, objects: []string{source("a", `{"template.kubevirt.io/architecture":"amd64"}`, `{"dataSource":{"name":"b","namespace":"default"}}`), source("b", `{"template.kubevirt.io/architecture":"s390x"}`, `{"dataSource":{"name":"a","namespace":"default"}}`)}, want: &lookup.Architecture{Architecture: "s390x", Name: "b"}},
		"explicit": {vm: `{"spec":{"template":{"spec":{"architecture":"amd64"}},"dataVolumeTemplates":[{"spec":{"sourceRef":{"kind":"DataSource","name":"a"}}}]}}`},
		"no VM":    {vm: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := lookup.DataSourceArchitecture(t.Context(), memory(t, tc.objects...), virtualMachine(t, tc.vm))
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

func TestPresets(t *testing.T) {
	preset := func(name, namespace, selector string) string {
		return `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstancePreset","metadata":{"name":"` + name + `","namespace":"` + namespace + `"},"spec":{"selector":` + selector + `,"domain":{"devices":{}}}}`
	}
	objects := memory(t, preset("b", "default", `{"matchLabels":{"os":"fedora"}}`), preset("a", "default", `{}`), preset("c", "default", `{"matchLabels":{"os":"windows"}}`),
		preset("d", "other", `{}`), preset("e", "default", `{"matchExpressions":[{"key":"a","operator":"Near"}]}`), preset("f", "default", `7`))
	found, warnings, err := lookup.Presets(t.Context(), objects, metav1.ObjectMeta{Namespace: "default", Labels: map[string]string{"os": "fedora"}})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range found {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{
		"VirtualMachineInstancePreset default/e has a selector that cannot be read: \"Near\" is not a valid label selector operator",
		"VirtualMachineInstancePreset default/f cannot be read: cannot restore struct from: float64",
	}, warnings); diff != "" {
		t.Error(diff)
	}
	excluded := metav1.ObjectMeta{Namespace: "default", Annotations: map[string]string{lookup.PresetExclusion: "true"}}
	if found, warnings, err := lookup.Presets(t.Context(), objects, excluded); found != nil || warnings != nil || err != nil {
		t.Errorf("an excluded VMI: got %v, %v, %v", found, warnings, err)
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
		if _, err := lookup.NewMemory("default", all...); err == nil || err.Error() != want {
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
	_, namedErr := lookup.References(t.Context(), down, named)
	_, inferErr := lookup.References(t.Context(), down, inferring)
	_, _, sourceErr := lookup.DataSourceArchitecture(t.Context(), down, sourced)
	_, _, presetErr := lookup.Presets(t.Context(), down, metav1.ObjectMeta{Namespace: "default"})
	for want, err := range map[string]error{
		"spec.instancetype: reading VirtualMachineClusterInstancetype it: connection refused": namedErr,
		"spec.preference.inferFromVolume: reading DataVolume default/d: connection refused":   inferErr,
		"spec.dataVolumeTemplates[0].spec.sourceRef: reading DataSources: connection refused": sourceErr,
		"listing VirtualMachineInstancePresets in default: connection refused":                presetErr,
	} {
		if err == nil || err.Error() != want || !errors.Is(err, down.err) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	unserved := broken{&meta.NoKindMatchError{}}
	found, err := lookup.References(t.Context(), unserved, named)
	if err != nil || len(found.Warnings) != 1 {
		t.Errorf("a kind that is not served is a missing object; got %v, %v", found, err)
	}
	if presets, warnings, err := lookup.Presets(t.Context(), unserved, metav1.ObjectMeta{}); presets != nil || warnings != nil || err != nil {
		t.Errorf("presets that are not served: got %v, %v, %v", presets, warnings, err)
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
		objects, err := lookup.NewMemory("default", obj)
		if err != nil {
			t.Skip()
		}
		if found, err := lookup.References(t.Context(), objects, vm); err != nil {
			t.Error(err)
		} else {
			found.ApplyTo(vm)
		}
		if _, _, err := lookup.DataSourceArchitecture(t.Context(), objects, vm); err != nil {
			t.Error(err)
		}
		if _, _, err := lookup.Presets(t.Context(), objects, vm.ObjectMeta); err != nil {
			t.Error(err)
		}
	})
}
