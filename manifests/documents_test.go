package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"empty documents do not count", "---\n# only a comment\n---\nkind: A\n---\n---\nkind: B\n", []string{"f: document 1 A", "f: document 2 B"}},
		{"comment on the separator", "kind: A\n--- # next\nkind: B", []string{"f: document 1 A", "f: document 2 B"}},
		{"JSON objects", `{"kind":"A"}{"kind":"B"} {"kind":"C"}`, []string{"f: document 1 A", "f: document 2 B", "f: document 3 C"}},
		{"YAML that begins with a brace", "{kind: A}\n---\n{kind: B}\n", []string{"f: document 1 A", "f: document 2 B"}},
		{"lists are taken apart", "kind: VirtualMachineList\nitems: [{kind: A}, {kind: B}]\n---\nkind: C\n", []string{"f: document 1 A", "f: document 1 B", "f: document 2 C"}},
		{"items of something else", "kind: Shopping\nitems: [{kind: A}]\n", []string{"f: document 1 Shopping"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			read, err := Read("f", strings.NewReader(c.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range read {
				got = append(got, d.Location()+" "+d.Object.GetKind())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"kind: A\n---\n3\n", "f: document 2: is the number 3 where an object is expected"},
		{"kind: List\nitems: [a]\n", "f: document 1: items[0]: is a text where an object is expected"},
		{`{"kind":"A","kind":"B"}`, `f: document 1: line 1: kind is already set in line 1`},
		{`{"kind":"A"`, "f: document 1: line 1: did not find expected ',' or '}'"},
		{"kind: A\nspec:\n- {a: 1,\n   a.b: 1, a.b: 2}\n", "f: document 1: line 4: spec[0][a.b] is already set in line 4"},
		{"a: *b\n", "f: document 1: unknown anchor 'b' referenced"},
	} {
		if _, err := Read("f", strings.NewReader(c.text)); err == nil || err.Error() != c.want {
			t.Errorf("%q: got %v, want %s", c.text, err, c.want)
		}
	}
}

// TestDecode reads KubeVirt's types, of which VirtualMachineInstanceSpec decodes itself.
func TestDecode(t *testing.T) {
	for _, c := range []struct {
		name, text string
		warnings   []string
		err        string
	}{
		{name: "known fields", text: "metadata: {labels: {a.b/c: d}, creationTimestamp: null}\nspec: {template: {spec: {domain: {resources: {requests: {memory: 1, cpu: 500m}}}, networks: [{name: net, pod: {}}]}}}"},
		{
			name: "unknown fields", text: "bogus: 1\nmetadata: {nam: a}\nspec: {template: {spec: {Domain: {}, domain: {cpuu: 1, devices: {disks: [{name: a}, {nam: b}]}}}}}",
			warnings: []string{"unknown field bogus", "unknown field metadata.nam", "unknown field spec.template.spec.Domain", "unknown field spec.template.spec.domain.cpuu", "unknown field spec.template.spec.domain.devices.disks[1].nam"},
		},
		{
			name: "embedded fields", text: "spec: {template: {spec: {volumes: [{name: a, persistentVolumeClaim: {claimName: b, hotpluggable: true, oops: 1}}]}}}",
			warnings: []string{"unknown field spec.template.spec.volumes[0].persistentVolumeClaim.oops"},
		},
		{name: "an object where a list is expected", text: "spec: {template: {spec: {volumes: {name: a}}}}", err: "spec.template.spec.volumes: is an object where a list is expected"},
		{name: "a text where an object is expected", text: "spec: {template: {spec: {domain: big}}}", err: "spec.template.spec.domain: is a text where an object is expected"},
		{name: "a fraction", text: "spec: {template: {spec: {domain: {cpu: {cores: 1.5}}}}}", err: "spec.template.spec.domain.cpu.cores: is the number 1.5 where a whole number from 0 up is expected"},
		{name: "a list where true or false is expected", text: "spec: {running: []}", err: "spec.running: is a list where true or false is expected"},
		{name: "a quantity in a map", text: "spec: {template: {spec: {domain: {resources: {requests: {memory: lots}}}}}}", err: `spec.template.spec.domain.resources.requests.memory: "lots" is not a quantity such as 500m or 4Gi`},
		{name: "a quantity of many digits", text: "spec: {template: {spec: {domain: {memory: {guest: '" + strings.Repeat("9", 101) + "'}}}}}", err: `spec.template.spec.domain.memory.guest: Invalid value: "` + strings.Repeat("9", 40) + `… (101 characters)": a quantity with too many digits or too large an exponent`},
		{name: "a small exponent", text: "spec: {template: {spec: {domain: {memory: {guest: '1e-99999'}}}}}", err: `spec.template.spec.domain.memory.guest: Invalid value: "1e-99999": a quantity with too many digits or too large an exponent`},
		{name: "a huge quantity in a field that is dropped", text: "spec: {template: {spec: {domain: {Memory: {guest: '1e99999'}}}}}", warnings: []string{"unknown field spec.template.spec.domain.Memory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(c.text), &object); err != nil {
				t.Fatal(err)
			}
			warnings, err := Decode(object, &v1.VirtualMachine{})
			if diff := cmp.Diff(c.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if got := fmt.Sprint(err); got != c.err && (c.err != "" || err != nil) {
				t.Errorf("error: got %s, want %s", got, c.err)
			}
		})
	}
}

// TestUnknownFieldsAreDropped shows that what the API server would drop has no effect here either.
func TestUnknownFieldsAreDropped(t *testing.T) {
	object := map[string]any{"spec": map[string]any{"Architecture": "arm64"}}
	vmi := &v1.VirtualMachineInstance{}
	if _, err := Decode(object, vmi); err != nil {
		t.Fatal(err)
	}
	if vmi.Spec.Architecture != "" {
		t.Errorf("architecture is %q", vmi.Spec.Architecture)
	}
	if _, kept := object["spec"].(map[string]any)["Architecture"]; !kept {
		t.Error("the object itself was changed")
	}
}
