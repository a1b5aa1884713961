package convert_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies/convert"
	"github.com/virtward/virtward/provenance"
)

// mutating is a ClusterPolicy with one rule that changes VirtualMachines.
func mutating(t testing.TB, match, patch string) *unstructured.Unstructured {
	t.Helper()
	return parsed(t, `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: house}, spec: {rules: [{name: defaults, match: `+match+`, mutate: `+patch+`}]}}`)
}

func assigning(t testing.TB, match, location, parameters string) *unstructured.Unstructured {
	t.Helper()
	return parsed(t, `{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {name: house}, spec: {applyTo: [{groups: [kubevirt.io], kinds: [VirtualMachine], versions: [v1]}], match: `+match+`, location: `+location+`, parameters: `+parameters+`}}`)
}

func parsed(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return &unstructured.Unstructured{Object: object}
}

const (
	machines = `{any: [{resources: {kinds: [VirtualMachine]}}]}`
	absent   = `pathTests: [{subPath: spec.template.spec.evictionStrategy, condition: MustNotExist}]`
)

func merge(fields string) string {
	return `{patchStrategicMerge: {spec: {template: {spec: ` + fields + `}}}}`
}

// TestDefaults converts mutations that set defaults.
func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		name     string
		original *unstructured.Unstructured
		// want is the spec, or why there is none.
		want, problem string
	}{
		{"values", mutating(t, machines, merge(`{+(evictionStrategy): LiveMigrate, domain: {devices: {+(rng): {}}}, nodeSelector: {+(kubernetes.io/os): linux}, +(tolerations): [{key: a, operator: Exists}]}`)), `
template:
  evictionStrategy: LiveMigrate
  domain: {devices: {rng: {}}}
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{key: a, operator: Exists}]
match: {}
`, ""},
		{"namespaces", mutating(t, `{resources: {kinds: [VirtualMachine], namespaces: [a, b], namespaceSelector: {matchLabels: {env: prod}}}}`, merge(`{+(evictionStrategy): None}`)), `
template: {evictionStrategy: None}
match: {namespaceSelector: {matchLabels: {env: prod}, matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [a, b]}]}}
`, ""},
		{"Assign", assigning(t, `{namespaces: [a]}`, "spec.template.spec.evictionStrategy", `{assign: {value: None}, `+absent+`}`), `
template: {evictionStrategy: None}
match: {namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [a]}]}}
`, ""},
		{"an overwritten value", mutating(t, machines, merge(`{evictionStrategy: None}`)), "", "spec.template.spec.evictionStrategy overwrites what its author wrote"},
		{"an object", mutating(t, machines, merge(`{domain: {+(cpu): {cores: 2}}}`)), "", "spec.template.spec.domain.cpu is added as a whole"},
		{"a condition", mutating(t, machines, merge(`{(hostname): web, +(evictionStrategy): None}`)), "", "spec.template.spec.(hostname) has a condition"},
		{"another object", mutating(t, machines, `{patchStrategicMerge: {metadata: {labels: {+(app): x}}}}`), "", "metadata.labels.app is outside of spec.template.spec"},
		{"a variable", mutating(t, machines, merge(`{+(evictionStrategy): "{{ request.namespace }}"}`)), "", "spec.template.spec.evictionStrategy has a variable"},
		{"an unknown field", mutating(t, machines, merge(`{+(evictionStrateg): None}`)), "", "spec.template.evictionStrateg"},
		{"a field of one virtual machine", mutating(t, machines, merge(`{+(hostname): web}`)), "", "spec.template.hostname"},
		{"a value that fills nothing", mutating(t, machines, merge(`{+(tolerations): []}`)), "", "spec.template.tolerations"},
		{"nothing", mutating(t, machines, merge(`{}`)), "", "it sets nothing"},
		{"JSON patches", mutating(t, machines, `{patchesJson6902: "x"}`), "", "only patchStrategicMerge with +() sets defaults"},
		{"objects that exist", mutating(t, machines, `{targets: [{kind: VirtualMachine}], patchStrategicMerge: {spec: {}}}`), "", "only patchStrategicMerge with +() sets defaults"},
		{"labels", mutating(t, `{resources: {kinds: [VirtualMachine], selector: {matchLabels: {a: b}}}}`, merge(`{+(evictionStrategy): None}`)), "", "its match has labels of the virtual machine"},
		{"names", mutating(t, `{resources: {kinds: [VirtualMachine], names: [web-*]}}`, merge(`{+(evictionStrategy): None}`)), "", "its match has names, annotations or wildcards"},
		{"wildcards", mutating(t, `{resources: {kinds: [VirtualMachine], namespaces: [web-*]}}`, merge(`{+(evictionStrategy): None}`)), "", "its match has names of namespaces with wildcards"},
		{"users", mutating(t, `{any: [{resources: {kinds: [VirtualMachine]}, subjects: [{kind: User, name: ann}]}]}`, merge(`{+(evictionStrategy): None}`)), "", "its match has users"},
		{"updates", mutating(t, `{resources: {kinds: [VirtualMachine], operations: [UPDATE]}}`, merge(`{+(evictionStrategy): None}`)), "", "it does not match VirtualMachines at their creation"},
		{"two filters", mutating(t, `{any: [{resources: {kinds: [VirtualMachine]}}, {resources: {kinds: [VirtualMachine], namespaces: [a]}}]}`, merge(`{+(evictionStrategy): None}`)), "", "only a rule with one filter in its match"},
		{"Assign without a test", assigning(t, `{}`, "spec.template.spec.evictionStrategy", `{assign: {value: None}}`), "", "it overwrites what its author wrote"},
		{"Assign in a list", assigning(t, `{}`, `"spec.template.spec.volumes[name: a].name"`, `{assign: {value: None}}`), "", "is in a list"},
		{"Assign of metadata", assigning(t, `{}`, "spec.template.spec.evictionStrategy", `{assign: {fromMetadata: {field: name}}, `+absent+`}`), "", "its value depends on other values"},
		{"Assign of pools", renamed(t, assigning(t, `{}`, "spec.template.spec.evictionStrategy", `{assign: {value: None}, `+absent+`}`), "kinds", "VirtualMachinePool", "pool.kubevirt.io"), "", "its applyTo does not have VirtualMachines"},
		{"Assign of another version", renamed(t, assigning(t, `{}`, "spec.template.spec.evictionStrategy", `{assign: {value: None}, `+absent+`}`), "versions", "v9", "kubevirt.io"), "", "its applyTo does not have VirtualMachines"},
		{"Assign of other kinds", assigning(t, `{kinds: [{apiGroups: ["*"], kinds: [VirtualMachineInstance]}]}`, "spec.template.spec.evictionStrategy", `{assign: {value: None}, `+absent+`}`), "", "its match does not have VirtualMachines"},
		{"Assign of the cluster", assigning(t, `{scope: Cluster}`, "spec.template.spec.evictionStrategy", `{assign: {value: None}, `+absent+`}`), "", "its match does not have VirtualMachines"},
		{"Assign with another field", assigning(t, `{zone: a}`, "spec.template.spec.evictionStrategy", `{assign: {value: None}, `+absent+`}`), "", "zone is unknown"},
		{"Assign without some namespaces", assigning(t, `{excludedNamespaces: [a]}`, "spec.template.spec.evictionStrategy", `{assign: {value: None}, `+absent+`}`), "", "its match has names, excluded namespaces or a source"},
	} {
		t.Run(c.name, func(t *testing.T) {
			results := convert.Convert(environment(t), []*unstructured.Unstructured{c.original}, effective.AlwaysSet())
			if len(results) != 1 {
				t.Fatalf("%s", printed(t, results))
			}
			r := results[0]
			if c.want == "" {
				if r.Converted() || r.Complete() || r.Notes[0].Reason != convert.Mutation || !strings.Contains(r.Notes[0].Message, c.problem) {
					t.Errorf("%s", printed(t, results))
				}
				return
			}
			if r.Defaults == nil || !r.Complete() || r.Defaults.Name != "house" {
				t.Fatalf("%s", printed(t, results))
			}
			data, err := json.Marshal(r.Defaults.Spec)
			if err != nil {
				t.Fatal(err)
			}
			var got, want map[string]any
			if err := json.Unmarshal(data, &got); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if text := printed(t, results); !strings.Contains(r.Notes[0].Message, "the original also changes it at updates") || !strings.Contains(text, "kind: VirtualMachineDefaults") {
				t.Errorf("%s", text)
			}
		})
	}
}

// renamed returns an Assign that applies to another group, and has another value of a field there.
func renamed(t testing.TB, assign *unstructured.Unstructured, field, value, group string) *unstructured.Unstructured {
	t.Helper()
	to := []any{map[string]any{"groups": []any{group}, "kinds": []any{"VirtualMachine"}, "versions": []any{"v1"}}}
	to[0].(map[string]any)[field] = []any{value}
	if err := unstructured.SetNestedSlice(assign.Object, to, "spec", "applyTo"); err != nil {
		t.Fatal(err)
	}
	return assign
}

// TestDefaultsFill: random virtual machines get what +() adds, which is the value of each field that they do not have.
func TestDefaultsFill(t *testing.T) {
	const adds = `{+(evictionStrategy): External, +(terminationGracePeriodSeconds): 77, nodeSelector: {+(zone): z9, +(pool): p}, +(tolerations): [{key: a, operator: Exists}],
		domain: {devices: {+(rng): {}, +(autoattachGraphicsDevice): true}, cpu: {+(model): max}}}`
	results := convert.Convert(environment(t), []*unstructured.Unstructured{mutating(t, machines, merge(adds))}, effective.AlwaysSet())
	if len(results) != 1 || results[0].Defaults == nil {
		t.Fatalf("%s", printed(t, results))
	}
	site, errs := mutators.NewSiteDefaults(results[0].Defaults)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	patch := map[string]any{}
	if err := yaml.Unmarshal([]byte(adds), &patch); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 8)) //nolint:gosec // reproducible
	top, changed := grammar(), 0
	for range 500 {
		made := top.object(random).(map[string]any)
		made["apiVersion"], made["kind"] = "kubevirt.io/v1", "VirtualMachine"
		vm, normal := machine(t, made)
		spec := normal["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		if addAbsent(spec, patch) {
			changed++
		}
		mutators.FillSite([]mutators.SiteDefaults{*site}, mutators.SiteFill{Facts: platform.Defaults(platform.Settings{}), Spec: &vm.Spec.Template.Spec, Recorder: &provenance.Recorder{}})
		_, got := machine(t, asObject(t, vm))
		_, want := machine(t, normal) // in canonical form
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-Kyverno +here):\n%s", diff)
		}
	}
	if changed < 250 {
		t.Errorf("%d of 500 have other values", changed)
	}
}

func asObject(t testing.TB, vm *v1.VirtualMachine) map[string]any {
	t.Helper()
	data, err := json.Marshal(vm)
	if err != nil {
		t.Fatal(err)
	}
	object := map[string]any{}
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// addAbsent is what the anchor +() means.
func addAbsent(into, patch map[string]any) (changed bool) {
	for key, value := range patch {
		name, adds := strings.CutPrefix(key, "+(")
		if name = strings.TrimSuffix(name, ")"); adds {
			if _, has := into[name]; !has {
				into[name], changed = value, true
			}
			continue
		}
		below, ok := into[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			into[name] = below
		}
		changed = addAbsent(below, value.(map[string]any)) || changed
	}
	return changed
}
