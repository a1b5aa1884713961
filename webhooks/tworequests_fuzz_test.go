package webhooks

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
)

// object is an object as it is stored and sent.
type object = map[string]any

// choices reads the bytes of a fuzzer in order, and then zeros.
type choices struct {
	left []byte
	// large counts the objects that are too large. It is bounded, because each takes time.
	large int
}

func (c *choices) of(n int) int {
	if len(c.left) == 0 {
		return 0
	}
	chosen := int(c.left[0]) % n
	c.left = c.left[1:]
	return chosen
}

// edit changes an object. spec is the path of the VMI spec in it.
type edit func(c *choices, o object, spec []string)

func write(o object, value any, path ...string) { _ = unstructured.SetNestedField(o, value, path...) }

func put(o object, value any, spec []string, path ...string) {
	write(o, value, slices.Concat(spec, path)...)
}

// many returns n strings.
func many(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = fmt.Sprintf("mallory.example/%d", i)
	}
	return list
}

// sizes of lists. The last one exceeds the limit of an object. It is rare, because it takes time.
var sizes = []int{0, 1, 2, 3, 0, 1, 2, 31_000}

const maxLarge = 2

func (c *choices) size() int {
	chosen := sizes[c.of(len(sizes))]
	if chosen < slices.Max(sizes) {
		return chosen
	}
	if c.large++; c.large > maxLarge {
		return 1
	}
	return chosen
}

// inflations change fields that are not evaluated, or that may have any valid value.
var inflations = []edit{
	func(c *choices, o object, _ []string) {
		write(o, many(c.size()), "metadata", "finalizers")
	},
	func(c *choices, o object, _ []string) {
		write(o, fmt.Sprint("v", c.of(9)), "metadata", "labels", fmt.Sprint("l", c.of(9)))
	},
	func(c *choices, o object, _ []string) {
		write(o, strings.Repeat("x", 1+1000*c.of(200)), "metadata", "annotations", fmt.Sprint("a", c.of(9)))
	},
	func(c *choices, o object, _ []string) {
		for i := range c.size() {
			write(o, "v", "metadata", "annotations", fmt.Sprint("many-", i))
		}
	},
	func(c *choices, o object, _ []string) {
		owners := make([]any, c.size())
		for i := range owners {
			owners[i] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": fmt.Sprint(i)}
		}
		write(o, owners, "metadata", "ownerReferences")
	},
	func(c *choices, o object, _ []string) {
		write(o, []any{map[string]any{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": map[string]any{"f:x": many(c.size())}}}, "metadata", "managedFields")
	},
	func(c *choices, o object, _ []string) {
		conditions := make([]any, c.size())
		for i := range conditions {
			conditions[i] = map[string]any{"type": fmt.Sprint(i), "status": "True"}
		}
		write(o, conditions, "status", "conditions")
	},
	func(c *choices, o object, _ []string) {
		version, _, _ := unstructured.NestedString(o, "apiVersion")
		group, _, _ := strings.Cut(version, "/")
		write(o, group+"/"+[]string{"v1", "v1alpha3", "v1beta1", "v2"}[c.of(4)], "apiVersion")
	},
}

// faults set fields to values that are invalid, that cannot be read, or that are valid.
var faults = []edit{
	func(c *choices, o object, spec []string) {
		put(o, []any{"arm64", "amd64", "s390x", "mips"}[c.of(4)], spec, "architecture")
	},
	func(_ *choices, o object, spec []string) {
		put(o, map[string]any{"bios": map[string]any{}}, spec, "domain", "firmware", "bootloader")
	},
	func(c *choices, o object, spec []string) {
		put(o, []any{"1e99999999", "-1Gi", "4Gi", "1", "text", int64(7), []any{}, map[string]any{}}[c.of(8)], spec, "domain", "memory", "guest")
	},
	func(c *choices, o object, spec []string) {
		put(o, map[string]any{"cpu": []any{"1e99999999", "-1", "2"}[c.of(3)]}, spec, "domain", "resources", "requests")
	},
	func(c *choices, o object, spec []string) {
		put(o, []any{int64(1), int64(-1), "text", int64(1 << 40)}[c.of(4)], spec, "domain", "cpu", "cores")
	},
	func(c *choices, o object, spec []string) {
		volumes := make([]any, c.size())
		for i := range volumes {
			volumes[i] = map[string]any{}
		}
		put(o, volumes, spec, "volumes")
	},
	func(c *choices, o object, spec []string) {
		disks := make([]any, c.of(4))
		for i := range disks {
			disks[i] = map[string]any{"name": fmt.Sprint("d", c.of(3)), "disk": map[string]any{"bus": []any{"sata", "virtio", "floppy"}[c.of(3)]}}
		}
		put(o, disks, spec, "domain", "devices", "disks")
	},
	func(_ *choices, o object, spec []string) { unstructured.RemoveNestedField(o, spec...) },
	func(_ *choices, o object, _ []string) { write(o, "text", "spec") },
	func(c *choices, o object, _ []string) { // an instancetype
		write(o, []any{"1e99999999", "-1Gi", "4Gi", []any{}}[c.of(4)], "spec", "memory", "guest")
	},
	func(c *choices, o object, _ []string) {
		write(o, []any{int64(2), int64(-2), int64(0), "text"}[c.of(4)], "spec", "cpu", "guest")
	},
}

// played is a kind whose updates are tested.
type played struct {
	group, version, kind string
	spec                 []string
	object               func() any
}

func players() []played {
	template := []string{"spec", "template", "spec"}
	return []played{
		{"kubevirt.io", "v1", apikinds.VirtualMachine, template, func() any { return build.VM("db").Obj() }},
		{"pool.kubevirt.io", "v1beta1", "VirtualMachinePool", slices.Concat([]string{"spec", "virtualMachineTemplate"}, template), func() any {
			vm := build.VM("db").Obj()
			vm.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
			return object{"apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "metadata": object{"name": "db", "namespace": "default"}, "spec": object{
				"selector":               object{"matchLabels": object{"a": "b"}},
				"virtualMachineTemplate": object{"metadata": object{"labels": object{"a": "b"}}, "spec": vm.Spec},
			}}
		}},
		{"kubevirt.io", "v1", "VirtualMachineInstanceReplicaSet", template, func() any {
			return object{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet", "metadata": object{"name": "db", "namespace": "default"}, "spec": object{
				"selector": object{"matchLabels": object{"a": "b"}},
				"template": object{"metadata": object{"labels": object{"a": "b"}}, "spec": build.VMI("db").Obj().Spec},
			}}
		}},
		{"instancetype.kubevirt.io", "v1beta1", "VirtualMachineInstancetype", []string{"spec"}, func() any {
			return object{
				"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineInstancetype", "metadata": object{"name": "db", "namespace": "default"},
				"spec": object{"cpu": object{"guest": 2}, "memory": object{"guest": "4Gi"}},
			}
		}},
	}
}

func copied(t *testing.T, o any) object {
	t.Helper()
	data, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	fresh := object{}
	if err := json.Unmarshal(data, &fresh); err != nil {
		t.Fatal(err)
	}
	return fresh
}

// review returns the response to a user who is not an account of KubeVirt.
func (p *played) review(t *testing.T, v *Validator, o, old object) *admissionv1.AdmissionResponse {
	t.Helper()
	changes := []func(*admissionv1.AdmissionRequest){func(r *admissionv1.AdmissionRequest) {
		r.Kind = metav1.GroupVersionKind{Group: p.group, Version: p.version, Kind: p.kind}
		r.UserInfo = authenticationv1.UserInfo{Username: "mallory"}
	}}
	if old != nil {
		changes = append(changes, func(r *admissionv1.AdmissionRequest) {
			raw, err := json.Marshal(old)
			if err != nil {
				t.Fatal(err)
			}
			r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: raw}
		})
	}
	return evaluated(t, v, reviewOf(t, p.kind, o, changes...))
}

var (
	inBrackets = regexp.MustCompile(`\[virtward/([a-z0-9/-]+)\]`)
	indices    = regexp.MustCompile(`\[\d+\]`)
)

// findings returns the causes of a denial, each as rule and field, without the indices of lists.
func findings(response *admissionv1.AdmissionResponse) map[string]bool {
	found := map[string]bool{}
	if response.Allowed {
		return found
	}
	for _, cause := range response.Result.Details.Causes {
		rule := ""
		if match := inBrackets.FindStringSubmatch(cause.Message); match != nil {
			rule = match[1]
		}
		found[rule+" "+indices.ReplaceAllString(cause.Field, "[]")] = true
	}
	return found
}

func readable(found map[string]bool) bool {
	for finding := range found {
		if strings.HasPrefix(finding, validators.RuleReadable+" ") {
			return false
		}
	}
	return true
}

// bare returns a value without null, empty and zero values.
func bare(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, below := range v {
			if b := bare(below); b != nil {
				kept[name] = b
			}
		}
		if len(kept) > 0 {
			return kept
		}
		return nil
	case []any:
		if len(v) == 0 {
			return nil
		}
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = bare(v[i])
		}
		return kept
	case nil:
		return nil
	}
	if reflect.ValueOf(value).IsZero() {
		return nil
	}
	return value
}

func differs(a, b object, paths ...[]string) bool {
	for _, path := range paths {
		x, _, _ := unstructured.NestedFieldNoCopy(a, path...)
		y, _, _ := unstructured.NestedFieldNoCopy(b, path...)
		if !reflect.DeepEqual(bare(x), bare(y)) {
			return true
		}
	}
	return false
}

var evaluatedFields = [][]string{{"spec"}, {"metadata", "labels"}, {"metadata", "annotations"}}

// FuzzTwoRequests tests attempts to bypass a denial with several updates: to inflate an object and then change it, to
// grow fields that are not evaluated, to delete an object with a finalizer and then change it, and to change an
// unreadable object. An object that is denied at creation is also denied as an update. There are two exceptions: the old
// object had the same finding and is readable, or no evaluated field changes. Of an object that is being deleted, only
// the spec is evaluated.
func FuzzTwoRequests(f *testing.F) {
	for seed := range 24 {
		data := make([]byte, 60)
		for i := range data {
			data[i] = byte((seed*31 + i*i*7 + i*seed) % 256)
		}
		f.Add(data)
	}
	f.Add([]byte{0, 0, 0, 0, 7, 1, 1, 0, 1, 2, 0, 1, 1, 1}) // finalizers, then an unreadable quantity
	validator := newValidator(f)
	kinds := players()
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{left: data[:min(len(data), 80)]}
		p := &kinds[c.of(len(kinds))]
		state := copied(t, p.object())
		if !p.review(t, validator, state, nil).Allowed {
			t.Fatalf("%s is rejected as it is: %v", p.kind, complaints(p.review(t, validator, state, nil)))
		}
		for step := 0; step < 6 && len(c.left) > 0; step++ {
			next := copied(t, state)
			for range 1 + c.of(3) {
				edits := [][]edit{inflations, faults}[c.of(2)]
				edits[c.of(len(edits))](c, next, p.spec)
			}
			next = copied(t, next)
			if c.of(4) == 0 { // a client sets it, and the API server drops it
				write(next, "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
				withTimestamp := p.review(t, validator, next, nil)
				unstructured.RemoveNestedField(next, "metadata", "deletionTimestamp")
				if without := p.review(t, validator, next, nil); !reflect.DeepEqual(findings(without), findings(withTimestamp)) {
					t.Fatalf("a deletionTimestamp at creation changes the verdict from %v to %v", findings(without), findings(withTimestamp))
				}
			}
			if deleted, ok, _ := unstructured.NestedString(state, "metadata", "deletionTimestamp"); ok {
				write(next, deleted, "metadata", "deletionTimestamp")
			}
			switch {
			case !differs(state, next, evaluatedFields...): // no webhook is called
				state = next
			case c.of(5) == 0: // it is older than the installation
				state = next
			default:
				response := p.review(t, validator, next, state)
				if response.Allowed {
					p.hold(t, validator, next, state)
					state = next
				}
			}
			if _, held, _ := unstructured.NestedSlice(state, "metadata", "finalizers"); held && c.of(6) == 0 {
				write(state, "2026-01-01T00:00:00Z", "metadata", "deletionTimestamp")
			}
		}
	})
}

// hold verifies an allowed update.
func (p *played) hold(t *testing.T, v *Validator, o, old object) {
	t.Helper()
	if _, deleting, _ := unstructured.NestedString(old, "metadata", "deletionTimestamp"); deleting && !differs(old, o, []string{"spec"}) {
		return
	}
	now := findings(p.review(t, v, o, nil))
	if len(now) == 0 {
		return
	}
	before := findings(p.review(t, v, old, nil))
	for finding := range now {
		if !before[finding] || !readable(before) {
			t.Fatalf("the update of a %s is allowed, and its creation is rejected by %q; the object before is rejected by %v", p.kind, finding, before)
		}
	}
}

// FuzzTwoRequestsOfAnInstance verifies that users cannot change an unreadable VMI, even if it was unreadable before.
func FuzzTwoRequestsOfAnInstance(f *testing.F) {
	f.Add([]byte{0, 2, 1, 2, 0})
	f.Add([]byte{3, 2, 2, 1, 5, 2})
	validator := newValidator(f)
	p := &played{"kubevirt.io", "v1", apikinds.VirtualMachineInstance, []string{"spec"}, func() any { return build.VMI("db").Obj() }}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &choices{left: data[:min(len(data), 80)]}
		old := copied(t, p.object())
		for range 1 + c.of(3) {
			inflations[c.of(len(inflations))](c, old, p.spec)
		}
		if c.of(2) == 0 {
			faults[c.of(len(faults))](c, old, p.spec)
		}
		next := copied(t, old)
		for range 1 + c.of(3) {
			edits := [][]edit{inflations, faults}[c.of(2)]
			edits[c.of(len(edits))](c, next, p.spec)
		}
		old, next = copied(t, old), copied(t, next)
		raw, err := json.Marshal(next)
		if err != nil {
			t.Fatal(err)
		}
		if evaluator.DecodeStored(raw, &v1.VirtualMachineInstance{}) == nil || !differs(old, next, evaluatedFields...) {
			return
		}
		if p.review(t, validator, next, old).Allowed {
			t.Fatalf("a change of an unreadable object is allowed: %.300s", raw)
		}
	})
}
