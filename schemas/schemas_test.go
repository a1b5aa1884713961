package schemas

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
)

// virtualMachines returns the schema of VirtualMachines of a minor version.
func virtualMachines(t testing.TB, minor string) *Schema {
	t.Helper()
	return of(t, minor, apikinds.VirtualMachines.GroupVersionKind)
}

func of(t testing.TB, minor string, kind schema.GroupVersionKind) *Schema {
	t.Helper()
	s, err := Of(minor).For(kind)
	if err != nil {
		t.Fatal(err)
	}
	if s == nil {
		t.Fatalf("there is no schema of %s of KubeVirt %s", kind, minor)
	}
	return s
}

func object(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(data, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

// inTemplate returns a VM with a spec in its template.
func inTemplate(t testing.TB, spec string) map[string]any {
	t.Helper()
	return object(t, "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: a}\nspec: {runStrategy: Always, template: {spec: "+spec+"}}")
}

func TestEveryKindOfEachMinorVersionIsEmbedded(t *testing.T) {
	for _, minor := range Minors() {
		for _, kind := range []apikinds.Resource{
			apikinds.VirtualMachines, apikinds.VirtualMachineInstances, apikinds.ReplicaSets, apikinds.Presets, apikinds.Pools,
			apikinds.Instancetypes, apikinds.ClusterInstancetypes, apikinds.Preferences, apikinds.ClusterPreferences, apikinds.Templates,
		} {
			of(t, minor, kind.GroupVersionKind)
		}
	}
	unknown, err := Of(Newest()).For(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	if unknown != nil || err != nil {
		t.Errorf("a kind that is not embedded: %v, %v", unknown, err)
	}
}

func TestMinorOf(t *testing.T) {
	for text, want := range map[string]string{
		"v1.8.2": "1.8 true", "1.9": "1.9 true", "v1.9.0-rc.1": "1.9 true", "v1.5.1": "1.5 false", "devel": " false", "": " false",
	} {
		minor, known := MinorOf(text)
		if got := fmt.Sprint(minor, " ", known); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"none", "spec: {template: {spec: {domain: {cpu: {cores: 1}, devices: {}}}}}", nil},
		{"misspelt", "spec: {template: {spec: {domain: {cpu: {coers: 1}}}}}", []string{"spec.template.spec.domain.cpu.coers: cores"}},
		{"other case", "spec: {RunStrategy: Always}", []string{"spec.RunStrategy: runStrategy"}},
		{"of a level above", "spec: {template: {spec: {runStrategy: Always}}}", []string{"spec.template.spec.runStrategy: spec.runStrategy"}},
		{"of a level below", "spec: {domain: {cpu: {cores: 1}}}", []string{"spec.domain: spec.template.spec.domain"}},
		{"below an object that exists", "spec: {template: {spec: {domain: {devices: {disks: [{name: a, bus: sata, lun: {}}]}}}}}", []string{"spec.template.spec.domain.devices.disks[0].bus: spec.template.spec.domain.devices.disks[0].lun.bus"}},
		{"below an object that is null", "spec: {template: {spec: {domain: {devices: {disks: [{name: a, disk: null, bus: virtio}]}}}}}", []string{"spec.template.spec.domain.devices.disks[0].bus: spec.template.spec.domain.devices.disks[0].disk.bus"}},
		{"below one of several objects, none of which exists", "spec: {template: {spec: {domain: {devices: {disks: [{name: a, bus: virtio}]}}}}}", []string{"spec.template.spec.domain.devices.disks[0].bus: "}},
		{"a value below an absent object", "spec: {template: {spec: {domain: {cores: 2}}}}", []string{"spec.template.spec.domain.cores: spec.template.spec.domain.cpu.cores"}},
		{"a value far below", "spec: {template: {spec: {domain: {}, version: v1}}}", []string{"spec.template.spec.version: "}},
		{"a value far below, in objects that exist", "spec: {template: {spec: {domain: {cpu: {}}, cores: 1}}}", []string{"spec.template.spec.cores: spec.template.spec.domain.cpu.cores"}},
		{"a list far below", "spec: {disks: []}", []string{"spec.disks: spec.template.spec.domain.devices.disks"}},
		{"a value where an object is", "spec: {template: {spec: {domain: {}, memory: 4Gi}}}", []string{"spec.template.spec.memory: "}},
		{"a field that the object has", "apiVersion: kubevirt.io/v1\nversion: v1\nspec: {template: {spec: {}}}", []string{"version: "}},
		{"a field that the object above has", "spec: {template: {spec: {hostname: a, domain: {hostname: b}}}}", []string{"spec.template.spec.domain.hostname: "}},
		{"a name that is hardly similar", "spec: {template: {spec: {domain: {devices: {disks: [{name: a, nut: {}}]}}}}}", []string{"spec.template.spec.domain.devices.disks[0].nut: "}},
		{"the end of a name", "spec: {template: {spec: {volumes: [{name: a, containerDisk: {image: b, pullPolicy: Always}}]}}}", []string{"spec.template.spec.volumes[0].containerDisk.pullPolicy: imagePullPolicy"}},
		{"beside no similar one", "spec: {template: {spec: {zzzzzzzz: 1}}}", []string{"spec.template.spec.zzzzzzzz: "}},
		{"at the top", "extra: 1", []string{"extra: "}},
		{"in the metadata", "metadata: {lables: {a: b}}", []string{"metadata.lables: labels"}},
		{"keys of a map", "metadata: {labels: {a.b/c: d}}\nspec: {template: {spec: {nodeSelector: {a.b/c: d}}}}", nil},
		{"preserved", "spec: {template: {metadata: {anything: {at: all}}}}", nil},
		{"a name with dots", "spec: {a.b: 1}", []string{"spec[a.b]: "}},
		{"two", "spec: {a1: 1, template: {spec: {b1: 1}}}", []string{"spec.a1: ", "spec.template.spec.b1: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, u := range virtualMachines(t, "1.9").Unknown(object(t, c.text)) {
				got = append(got, u.Path+": "+u.Meant)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownIsBounded(t *testing.T) {
	spec := map[string]any{strings.Repeat("é", 5000): 1}
	// A suggestion for each of these fields would take minutes.
	for i := range 2_000 * MaxUnknown {
		spec[fmt.Sprintf("field%d", i)] = int64(i)
	}
	found := virtualMachines(t, "1.9").Unknown(map[string]any{"spec": spec, "metadata": spec})
	if len(found) != MaxUnknown {
		t.Errorf("found %d", len(found))
	}
	for _, u := range found {
		if len(u.Path) > 2*maxStep {
			t.Errorf("a path of %d bytes", len(u.Path))
		}
	}
}

func TestHasFindsAFieldOfAnotherMinorVersion(t *testing.T) {
	vm := inTemplate(t, "{domain: {devices: {}}, utilityVolumes: [{name: a}]}")
	older, newer := virtualMachines(t, "1.6"), virtualMachines(t, "1.9")
	if found := newer.Unknown(vm); len(found) != 0 {
		t.Fatalf("KubeVirt 1.9 lacks %v", found)
	}
	found := older.Unknown(vm)
	if len(found) != 1 || found[0].Path != "spec.template.spec.utilityVolumes" {
		t.Fatalf("KubeVirt 1.6 lacks %v", found)
	}
	if !newer.Has(found[0]) || older.Has(found[0]) {
		t.Error("only KubeVirt 1.9 has the field")
	}
}

// problems returns errors as texts.
func problems(errs field.ErrorList) []string {
	var lines []string
	for _, err := range errs {
		lines = append(lines, string(err.Type)+" "+err.Field)
	}
	return lines
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		want       []string
	}{
		{"valid", "{domain: {devices: {disks: [{name: a, disk: {bus: virtio}}]}}, volumes: [{name: a, containerDisk: {image: b}}]}", nil},
		{"a required text", "{domain: {devices: {disks: [{disk: {}}]}}}", []string{"FieldValueRequired spec.template.spec.domain.devices.disks[0].name"}},
		{"a required object", "{domain: {}}", []string{"FieldValueRequired spec.template.spec.domain.devices"}},
		{"a wrong type", "{domain: {devices: {}, cpu: {cores: two}}}", []string{"FieldValueTypeInvalid spec.template.spec.domain.cpu.cores"}},
		{"a quantity", "{domain: {devices: {}, memory: {guest: lots}}}", []string{"FieldValueInvalid spec.template.spec.domain.memory.guest"}},
		{"null is as absent", "{domain: {devices: {}, cpu: null}}", nil},
		{"twice the same key of a list", "{domain: {devices: {}}, topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}", []string{"FieldValueDuplicate spec.template.spec.topologySpreadConstraints[1]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs, err := virtualMachines(t, "1.9").Validate(t.Context(), inTemplate(t, c.spec), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, problems(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissing leaves out what KubeVirt's types fill with zero values.
func TestMissing(t *testing.T) {
	for spec, want := range map[string][]string{
		"{domain: {devices: {disks: [{disk: {}}]}}}": nil,
		"{domain: {}}":              {"spec.template.spec.domain.devices"},
		"{}":                        {"spec.template.spec.domain"},
		"{domain: {devices: null}}": {"spec.template.spec.domain.devices"},
		"{domain: {devices: {}}, volumes: [{name: a, emptyDisk: {}}]}":                                            {"spec.template.spec.volumes[0].emptyDisk.capacity"},
		"{domain: {devices: {}}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}}": {"spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"},
	} {
		got := virtualMachines(t, "1.9").Missing(inTemplate(t, spec))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", spec, diff)
		}
	}
}

// TestErrorsNameTheirField covers errors of the validator that have the field only in the text.
func TestErrorsNameTheirField(t *testing.T) {
	for spec, want := range map[string]string{
		"{domain: {devices: {}, cpu: {cores: 99999999999}}}": "spec.template.spec.domain.cpu.cores: Invalid value: Checked value must be of type integer with format int32",
		"{domain: {devices: {}}, hostname: 12}":              "spec.template.spec.hostname: Invalid value: \"integer\": must be of type string: \"integer\"",
	} {
		errs, err := virtualMachines(t, "1.9").Validate(t.Context(), inTemplate(t, spec), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("%s: %v, want %s", spec, errs, want)
		}
	}
}

var sorted = cmp.Transformer("sorted", func(in []string) map[string]int {
	counts := map[string]int{}
	for _, s := range in {
		counts[s]++
	}
	return counts
})

func TestValidateMetadata(t *testing.T) {
	for metadata, want := range map[string][]string{
		"{name: db}":                                     nil,
		"{generateName: db-}":                            nil,
		"{}":                                             {"FieldValueRequired metadata.name"},
		"{name: My_VM}":                                  {"FieldValueInvalid metadata.name"},
		"{name: a, labels: {'a b': c}}":                  {"FieldValueInvalid metadata.labels"},
		"{name: a, labels: {a: 'b c'}}":                  {"FieldValueInvalid metadata.labels"},
		"{name: a, annotations: {'a b': c}}":             {"FieldValueInvalid metadata.annotations"},
		"{name: a, labels: {a: 1}}":                      {"FieldValueInvalid metadata"},
		"{name: a, namespace: 'no such'}":                {"FieldValueInvalid metadata.namespace"},
		"{name: a, finalizers: [a b]}":                   {"FieldValueInvalid metadata.finalizers"},
		"{name: " + strings.Repeat("a", 254) + "}":       {"FieldValueInvalid metadata.name"},
		"{name: a, creationTimestamp: null}":             nil,
		"{name: a, ownerReferences: [{name: b}]}":        {"FieldValueRequired metadata.ownerReferences[0].apiVersion", "FieldValueRequired metadata.ownerReferences[0].kind", "FieldValueRequired metadata.ownerReferences[0].uid"},
		"{generateName: " + strings.Repeat("A", 3) + "}": {"FieldValueInvalid metadata.generateName", "FieldValueInvalid metadata.name"},
	} {
		errs := virtualMachines(t, "1.9").ValidateMetadata(object(t, "metadata: "+metadata), "default")
		if diff := cmp.Diff(want, problems(errs), sorted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", metadata, diff)
		}
	}
}

// TestRulesOfTheSchema covers the CEL rules: those of one object always, and those that compare two only with an old one.
func TestRulesOfTheSchema(t *testing.T) {
	request := of(t, Newest(), schema.GroupVersionKind{Group: "template.kubevirt.io", Version: "v1beta1", Kind: "VirtualMachineTemplateRequest"})
	vm, old := "apiVersion: template.kubevirt.io/v1beta1\nkind: VirtualMachineTemplateRequest\nspec: {virtualMachineRef: {namespace: a, name: b}}", map[string]any(nil)
	for _, c := range []struct {
		name        string
		of          *Schema
		object, old map[string]any
		want        []string
	}{
		{"a path", virtualMachines(t, "1.9"), inTemplate(t, "{domain: {devices: {}}, volumes: [{name: a, containerPath: {path: etc}}]}"), old, []string{"FieldValueInvalid spec.template.spec.volumes[0].containerPath.path"}},
		{"a minor version without the rule", virtualMachines(t, "1.7"), inTemplate(t, "{domain: {devices: {}}, volumes: [{name: a, containerPath: {path: etc}}]}"), old, nil},
		{"skipped beside a missing field", virtualMachines(t, "1.9"), inTemplate(t, "{domain: {}, volumes: [{name: a, containerPath: {path: etc}}]}"), old, []string{"FieldValueRequired spec.template.spec.domain.devices"}},
		{"a transition at create", request, object(t, vm), old, nil},
		{"a transition that changes nothing", request, object(t, vm), object(t, vm), nil},
		{"a transition", request, object(t, vm), object(t, strings.ReplaceAll(vm, "name: b", "name: c")), []string{"FieldValueInvalid spec"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs, err := c.of.Validate(t.Context(), c.object, c.old)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, problems(errs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestObjectsWithTooManyValuesAreNotValidated: each of these elements lacks a name.
func TestObjectsWithTooManyValuesAreNotValidated(t *testing.T) {
	vm := inTemplate(t, "{domain: {devices: {disks: []}}}")
	devices := vm["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["domain"].(map[string]any)["devices"].(map[string]any)
	for n, want := range map[int]string{10: "spec.template.spec.domain.devices.disks[0].name", MaxValues: ""} {
		disks := make([]any, n)
		for i := range disks {
			disks[i] = map[string]any{}
		}
		devices["disks"] = disks
		errs, err := virtualMachines(t, "1.9").Validate(t.Context(), vm, nil)
		if err != nil || len(errs) == 0 || len(errs) > maxErrors || errs[0].Field != want {
			t.Errorf("%d disks: %d errors, %v", n, len(errs), err)
		}
	}
}

func TestReplicas(t *testing.T) {
	set := of(t, Newest(), apikinds.ReplicaSets.GroupVersionKind)
	for replicas, want := range map[string][]string{"1": nil, "-1": {"FieldValueInvalid spec.replicas"}} {
		errs, err := set.Validate(t.Context(), object(t, "spec: {replicas: "+replicas+", selector: {}, template: {}}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, problems(errs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", replicas, diff)
		}
	}
}

// FuzzUnknown compares the search with the API server's pruning.
func FuzzUnknown(f *testing.F) {
	for _, seed := range []string{`{"spec":{"a":1,"template":{"spec":{"domain":{"x":[{"y":1}]}}}}}`, `{"spec":[{"a":{}}],"metadata":{"a":1},"status":{"b":{"c":1}}}`, `{"spec":{"template":{"metadata":{"x":1},"spec":{"nodeSelector":{"a":{"b":1}},"volumes":[{"cloudInitNoCloud":{"userdata":"x"}}]}}}}`} {
		f.Add([]byte(seed))
	}
	s := virtualMachines(f, Newest())
	f.Fuzz(func(t *testing.T, data []byte) {
		var fields map[string]any
		if sigsjson.UnmarshalCaseSensitivePreserveInts(data, &fields) != nil || fields == nil {
			t.Skip()
		}
		delete(fields, "metadata") // no schema describes it
		got := map[string]bool{}
		for _, u := range s.Unknown(fields) {
			got[strings.NewReplacer("[", ".", "]", "").Replace(u.Path)] = true
		}
		pruned := runtime.DeepCopyJSON(fields)
		want := pruning.PruneWithOptions(pruned, s.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
		if (len(got) > 0) != (len(want) > 0) {
			t.Fatalf("found %v, but the API server drops %v", got, want)
		}
		if !strings.ContainsAny(string(data), "\\.[ ") && len(want) < MaxUnknown {
			for _, path := range want {
				if !got[strings.NewReplacer("[", ".", "]", "").Replace(path)] {
					t.Fatalf("found %v, but not %s", got, path)
				}
			}
		}
		if errs, err := s.Validate(context.Background(), fields, nil); err != nil || len(errs) > maxErrors {
			t.Fatalf("%d errors, %v", len(errs), err)
		}
		s.Missing(fields)
	})
}

// FuzzMetadata shows that no metadata makes the validation panic.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","labels":{"a":"b"},"ownerReferences":[{}],"managedFields":[{}]}}`))
	s := virtualMachines(f, Newest())
	f.Fuzz(func(t *testing.T, data []byte) {
		var fields map[string]any
		if sigsjson.UnmarshalCaseSensitivePreserveInts(data, &fields) != nil || fields == nil {
			t.Skip()
		}
		s.ValidateMetadata(fields, "default")
		s.Unknown(fields)
	})
}
