package webhooks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clonev1beta1 "kubevirt.io/api/clone/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/test/build"
)

func parsed(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	return object
}

// The sources of the copies: a VM with 1Gi, and the snapshot of a VM with 2Gi.
const (
	stored = `{apiVersion: kubevirt.io/v1, kind: VirtualMachine, metadata: {namespace: default, name: db, labels: {tier: web, keep/me: x}}, spec: {runStrategy: Always, template: {spec: {
		domain: {devices: {interfaces: [{name: default, masquerade: {}, macAddress: "02:00:00:00:00:01"}]}, firmware: {serial: a, uuid: 6a1a24a1-4061-4607-8bf4-a3963d0c5895}, memory: {guest: 1Gi}}, networks: [{name: default, pod: {}}]}}}}`
	snapshot = `{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshot, metadata: {namespace: default, name: nightly}, status: {virtualMachineSnapshotContentName: nightly-content}}`
	content  = `{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineSnapshotContent, metadata: {namespace: default, name: nightly-content}, spec: {source: {virtualMachine: {
		metadata: {name: db, labels: {tier: web}}, spec: {runStrategy: Always, template: {spec: {domain: {devices: {}, memory: {guest: 2Gi}}}}}}}}}`
)

// onlyJane allows more than 1Gi only to jane. The message is a secret that no response may contain.
const onlyJane = `{enforcement: Deny, validations: [{expression: "requester == 'jane' || quantity(vm.spec.domain.memory.guest).compareTo(quantity('1Gi')) <= 0", message: a secret}]}`

// neverARM denies arm64 to every user.
const neverARM = `{enforcement: Deny, validations: [{expression: "object.spec.template.spec.?architecture.orValue('') != 'arm64'", message: a secret, fieldPath: spec.template.spec.architecture}]}`

func TestCopiesAreEvaluatedAsTheirAuthor(t *testing.T) {
	restore := func(spec string) string {
		return `{apiVersion: snapshot.kubevirt.io/v1beta1, kind: VirtualMachineRestore, metadata: {name: r, namespace: default}, spec: {target: {apiGroup: kubevirt.io, kind: VirtualMachine, name: ` + spec + `}}`
	}
	clone := func(spec string) string {
		return `{apiVersion: clone.kubevirt.io/v1beta1, kind: VirtualMachineClone, metadata: {name: c, namespace: default}, spec: {` + spec + `}}`
	}
	const arm = `'{"op": "add", "path": "/spec/template/spec/architecture", "value": "arm64"}'`
	deniedAt := func(field, rule, inner string) []string {
		kind := map[bool]string{true: "FieldValueForbidden", false: "FieldValueInvalid"}[inner == "spec"]
		what := map[bool]string{true: "Forbidden: ", false: "Invalid value: "}[inner == "spec"]
		return []string{fmt.Sprintf("%s %s: %sthe resulting virtual machine is denied at %s [virtward/policy/%s]", kind, field, what, inner, rule)}
	}
	byRequester, ofARM := func(field string) []string { return deniedAt(field, "a", "spec") }, func(field string) []string { return deniedAt(field, "b", "spec.template.spec.architecture") }
	notYet := func(field, why string) []string {
		return []string{"FieldValueInvalid " + field + ": Invalid value: the resulting virtual machine cannot be evaluated: " + why + " [virtward/copy-evaluated] Wait until the source is ready, or correct the field."}
	}
	for name, tc := range map[string]struct {
		object, user string
		want         []string
	}{
		"a restore":                            {restore("new}, virtualMachineSnapshotName: nightly"), "mallory", byRequester("spec.virtualMachineSnapshotName")},
		"by a user with the permission":        {restore("new}, virtualMachineSnapshotName: nightly"), "jane", nil},
		"by KubeVirt, for a clone":             {restore("new}, virtualMachineSnapshotName: nightly"), "system:serviceaccount:kubevirt:kubevirt-controller", nil},
		"in place":                             {restore("db}, virtualMachineSnapshotName: nightly"), "mallory", byRequester("spec.virtualMachineSnapshotName")},
		"in place, where patches do nothing":   {restore("db}, virtualMachineSnapshotName: nightly, patches: [" + arm + "]"), "jane", nil},
		"with patches":                         {restore("new}, virtualMachineSnapshotName: nightly, patches: [" + arm + "]"), "jane", ofARM("spec.patches")},
		"with patches that cannot be applied":  {restore("new}, virtualMachineSnapshotName: nightly, patches: ['{\"op\": \"remove\", \"path\": \"/nothing\"}']"), "jane", notYet("spec.patches", "the patches cannot be applied")},
		"with invalid patches":                 {restore("new}, virtualMachineSnapshotName: nightly, patches: ['{']"), "jane", notYet("spec.patches", "the patches are not a JSON patch")},
		"with a patch of everything":           {restore("new}, virtualMachineSnapshotName: nightly, patches: ['{\"op\": \"replace\", \"path\": \"\", \"value\": []}']"), "jane", []string{"FieldValueForbidden spec.patches: Forbidden: patches must not change the annotation restore.kubevirt.io/lastRestoreUID, by which KubeVirt finds the virtual machine of a restore [virtward/copy-evaluated] Wait until the source is ready, or correct the field."}},
		"of a snapshot that does not exist":    {restore("new}, virtualMachineSnapshotName: none"), "jane", notYet("spec.virtualMachineSnapshotName", "the snapshot does not exist, or is not ready")},
		"to something else":                    {strings.Replace(restore("new}, virtualMachineSnapshotName: nightly"), "kind: VirtualMachine,", "kind: Other,", 1), "mallory", nil},
		"a clone":                              {clone("source: {kind: VirtualMachine, name: db}"), "mallory", nil},
		"of a snapshot":                        {clone("source: {kind: VirtualMachineSnapshot, name: nightly}"), "mallory", byRequester("spec.source")},
		"with patches of its own":              {clone("source: {kind: VirtualMachine, name: db}, patches: [" + arm + "]"), "jane", ofARM("spec.patches")},
		"with operations smuggled in a serial": {clone(`source: {kind: VirtualMachine, name: db}, newSMBiosSerial: 'x"},{"op":"add","path":"/spec/template/spec/architecture","value":"arm64'`), "jane", ofARM("spec.source")},
		"with operations smuggled in a MAC":    {clone(`source: {kind: VirtualMachine, name: db}, newMacAddresses: {default: '"},{"op":"add","path":"/spec/template/spec/architecture","value":"arm64'}`), "jane", ofARM("spec.source")},
		"of a VM that does not exist":          {clone("source: {kind: VirtualMachine, name: none}"), "jane", notYet("spec.source", "its source does not exist")},
		"of something else":                    {clone("source: {kind: Other, name: none}"), "jane", notYet("spec.source", "its source is neither a VirtualMachine nor a VirtualMachineSnapshot")},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t, parsed(t, stored), parsed(t, snapshot), parsed(t, content))
			under(t, v, onlyJane, neverARM)
			object := parsed(t, tc.object)
			response := evaluated(t, v, reviewOf(t, object.GetKind(), object, func(r *admissionv1.AdmissionRequest) {
				r.Kind.Group, _, _ = strings.Cut(object.GetAPIVersion(), "/")
				r.UserInfo.Username = tc.user
			}))
			if diff := cmp.Diff(tc.want, complaints(response)); diff != "" || response.Allowed != (tc.want == nil) {
				t.Errorf("allowed %v (-want +got):\n%s", response.Allowed, diff)
			}
		})
	}
	t.Run("without a policy that reads the request, a copy that cannot be evaluated is a warning", func(t *testing.T) {
		v := newValidator(t)
		under(t, v, neverARM)
		object := parsed(t, restore("new}, virtualMachineSnapshotName: nightly"))
		response := evaluated(t, v, reviewOf(t, object.GetKind(), object, func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "snapshot.kubevirt.io" }))
		if got := complaints(response); !response.Allowed || len(got) != 1 || !strings.HasPrefix(got[0], "warning: ") {
			t.Errorf("allowed %v, %q", response.Allowed, got)
		}
	})
}

func TestClonePatches(t *testing.T) {
	vm := copyOf(parsed(t, stored).Object, "")
	if vm.GetGenerateName() != "db-clone-" {
		t.Errorf("it is named %q", vm.GetGenerateName())
	}
	for name, tc := range map[string]struct {
		filters []string
		want    map[string]string
	}{
		"no filters":                    {nil, map[string]string{"tier": "web", "keep/me": "x"}},
		"none that matches":             {[]string{"other"}, nil},
		"a part of a key":               {[]string{"tie"}, map[string]string{"tier": "web"}},
		"a star":                        {[]string{"*", "!keep/.*"}, map[string]string{"tier": "web"}},
		"a negation has precedence":     {[]string{"!tier", ".*"}, map[string]string{"keep/me": "x"}},
		"a bad pattern matches nothing": {[]string{"(", "tier"}, map[string]string{"tier": "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			patches, err := patchesOf(&clonev1beta1.VirtualMachineCloneSpec{LabelFilters: tc.filters}, vm)
			if err != nil {
				t.Fatal(err)
			}
			patched, err := patchedVM(vm, patches)
			if err != nil {
				t.Fatal(err)
			}
			labels := patched.GetLabels()
			if len(labels) == 0 {
				labels = nil
			}
			if diff := cmp.Diff(tc.want, labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			mac, _, _ := unstructured.NestedSlice(patched.Object, "spec", "template", "spec", "domain", "devices", "interfaces")
			if mac[0].(map[string]any)["macAddress"] != "" {
				t.Errorf("interfaces %v", mac)
			}
		})
	}
}

// TestPatchesAreBounded verifies the limits, because short patches can create a VM of gigabytes.
func TestPatchesAreBounded(t *testing.T) {
	vm := copyOf(parsed(t, stored).Object, "a")
	double := `{"op":"copy","from":"/spec","path":"/spec/again"}`
	for name, patches := range map[string][]string{
		"too many":        strings.Split(strings.Repeat(`{"op":"test","path":"/kind","value":"VirtualMachine"} `, maxPatches+1), " ")[:maxPatches+1],
		"too long":        {`{"op":"add","path":"/spec/x","value":"` + strings.Repeat("x", maxPatchBytes) + `"}`},
		"too many in one": {strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"VirtualMachine"},`, maxPatches+1), ",")},
		"too many copies": {strings.TrimSuffix(strings.Repeat(double+",", maxCopies+1), ",")},
	} {
		if _, err := patchedVM(vm, patches); err == nil {
			t.Errorf("%s: they are applied", name)
		}
	}
	large := vm.DeepCopy()
	large.SetAnnotations(map[string]string{"a": strings.Repeat("x", 100<<10)})
	if _, err := patchedVM(large, []string{double}); err == nil {
		t.Error("a large VM is copied into itself")
	}
	if _, err := patchedVM(vm, []string{strings.TrimSuffix(strings.Repeat(double+",", maxCopies), ",")}); err != nil {
		t.Error(err)
	}
}

func TestScale(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	vmi := build.VMI("db").Label("app", "db")
	pool := &poolv1beta1.VirtualMachinePool{
		TypeMeta:   metav1.TypeMeta{APIVersion: "pool.kubevirt.io/v1beta1", Kind: "VirtualMachinePool"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", UID: "7"},
		Spec:       poolv1beta1.VirtualMachinePoolSpec{Selector: selector, VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{Spec: build.VMOf(vmi).Obj().Spec}},
	}
	pool.Spec.VirtualMachineTemplate.ObjectMeta.Labels = selector.MatchLabels
	raw, err := json.Marshal(pool)
	if err != nil {
		t.Fatal(err)
	}
	v := newValidator(t, parsed(t, string(raw)))
	under(t, v, `{enforcement: Deny, match: {kinds: [VirtualMachinePool]}, validations: [{expression: "object.spec.replicas <= 3", message: three at most, fieldPath: spec.replicas}]}`)
	for name, tc := range map[string]struct {
		from, to int32
		uid      string
		name     string
		code     int32
		want     []string
	}{
		"up, within":          {1, 3, "7", "db", 200, nil},
		"up, beyond":          {1, 4, "7", "db", 422, []string{"FieldValueInvalid spec.replicas: Invalid value: 4: three at most [virtward/policy/a]"}},
		"beyond, to more":     {4, 5, "7", "db", 422, []string{"FieldValueInvalid spec.replicas: Invalid value: 5: three at most [virtward/policy/a]"}},
		"down, to beyond":     {9, 8, "7", "db", 200, nil},
		"of another one":      {1, 2, "8", "db", 409, nil},
		"of one that is gone": {1, 9, "7", "gone", 200, nil},
		"without a uid":       {1, 9, "", "db", 422, []string{"FieldValueInvalid spec.replicas: Invalid value: 9: three at most [virtward/policy/a]"}},
	} {
		t.Run(name, func(t *testing.T) {
			scale := func(replicas int32) *autoscalingv1.Scale {
				s := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
				s.Name, s.UID = tc.name, "7"
				if tc.uid != "7" {
					s.UID = metav1.ObjectMeta{}.UID
					if tc.uid != "" {
						s.UID = "8"
					}
				}
				return s
			}
			response := evaluated(t, v, reviewOf(t, "Scale", scale(tc.to), update(t, scale(tc.from)), func(r *admissionv1.AdmissionRequest) {
				r.Kind, r.SubResource, r.Name = metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}, "scale", tc.name
				r.Resource = metav1.GroupVersionResource{Group: "pool.kubevirt.io", Version: "v1beta1", Resource: "virtualmachinepools"}
			}))
			code := int32(200)
			if !response.Allowed {
				code = response.Result.Code
			}
			if diff := cmp.Diff(tc.want, complaints(response)); diff != "" || code != tc.code {
				t.Errorf("code %d (-want +got):\n%s", code, diff)
			}
		})
	}
	t.Run("a set of anything else", func(t *testing.T) {
		response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), func(r *admissionv1.AdmissionRequest) { r.SubResource = "scale" }))
		if !response.Allowed {
			t.Errorf("denied: %q", complaints(response))
		}
	})
}

// TestPoliciesOfPools verifies policies that read the request. KubeVirt creates the VMs of a pool, so its author is known only here.
func TestPoliciesOfPools(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	pool := func(memory string) *poolv1beta1.VirtualMachinePool {
		p := &poolv1beta1.VirtualMachinePool{Spec: poolv1beta1.VirtualMachinePoolSpec{
			Selector: selector, VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{Spec: build.VMOf(build.VMI("db").Memory(memory).Label("app", "db")).Obj().Spec},
		}}
		p.Spec.VirtualMachineTemplate.ObjectMeta.Labels = selector.MatchLabels
		return p
	}
	v := newValidator(t)
	under(t, v, onlyJane)
	as := func(user string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) { r.Kind.Group, r.UserInfo.Username = "pool.kubevirt.io", user }
	}
	denied := []string{"FieldValueForbidden spec.virtualMachineTemplate.spec: Forbidden: a secret [virtward/policy/a]"}
	for name, tc := range map[string]struct {
		body []byte
		want []string
	}{
		"of another user":          {reviewOf(t, "VirtualMachinePool", pool("2Gi"), as("mallory")), denied},
		"a small one":              {reviewOf(t, "VirtualMachinePool", pool("1Gi"), as("mallory")), nil},
		"of a user with the right": {reviewOf(t, "VirtualMachinePool", pool("2Gi"), as("jane")), nil},
		"that grows":               {reviewOf(t, "VirtualMachinePool", pool("2Gi"), as("mallory"), update(t, pool("1Gi"))), denied},
		"whose template stays so":  {reviewOf(t, "VirtualMachinePool", pool("2Gi"), as("mallory"), update(t, pool("2Gi"))), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, complaints(evaluated(t, v, tc.body))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
