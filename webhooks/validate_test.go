package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	poolv1beta1 "kubevirt.io/api/pool/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/isolated"
	"github.com/virtward/virtward/validators"
)

func newValidator(t testing.TB, objects ...*unstructured.Unstructured) *Validator {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, func() platform.CacheStats { return platform.CacheStats{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	memory, err := references.NewMemory("default", objects...)
	if err != nil {
		t.Fatal(err)
	}
	facts := platform.Defaults(platform.Settings{})
	return NewValidator(Validator{
		Evaluator: evaluator.New(effective.NewPipeline(registry), memory, &evaluator.Live{GetFacts: func() *platform.Facts { return facts }}), Rules: registry.Rules(),
		Metrics: metrics, Log: logr.Discard(), Clock: clock.RealClock{},
	})
}

// live returns the sources of an evaluator of these tests.
func live(e *evaluator.Evaluator) *evaluator.Live {
	return e.Configuration.(*evaluator.Live)
}

func evaluated(t testing.TB, v *Validator, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	data, err := v.Review(context.Background(), body)
	if err != nil {
		t.Fatal(err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(data, &review); err != nil {
		t.Fatal(err)
	}
	if review.Response.UID != "1" || review.Response.Patch != nil {
		t.Fatalf("answer %s", data)
	}
	return review.Response
}

// complaints returns the causes of a denial, then the warnings.
func complaints(response *admissionv1.AdmissionResponse) []string {
	var all []string
	if response.Result != nil && response.Result.Details != nil {
		for _, c := range response.Result.Details.Causes {
			all = append(all, fmt.Sprintf("%s %s: %s", c.Type, c.Field, c.Message))
		}
	}
	for _, w := range response.Warnings {
		all = append(all, "warning: "+w)
	}
	return all
}

// update turns a request into an update of old.
func update(t testing.TB, old any) func(*admissionv1.AdmissionRequest) {
	t.Helper()
	raw, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	return func(r *admissionv1.AdmissionRequest) {
		r.Operation, r.OldObject = admissionv1.Update, runtime.RawExtension{Raw: raw}
	}
}

// arm64VM has a BIOS and a SATA disk, which arm64 does not support.
func arm64VM() *v1.VirtualMachine {
	vm := build.VMOf(build.VMI("db").Disk("root", v1.DiskBusSATA).Architecture("arm64")).Obj()
	vm.Spec.Template.Spec.Domain.Firmware = &v1.Firmware{Bootloader: &v1.Bootloader{BIOS: &v1.BIOS{}}}
	return vm
}

const (
	biosCause = "FieldValueNotSupported spec.template.spec.domain.firmware.bootloader.bios: "
	sataCause = "FieldValueNotSupported spec.template.spec.domain.devices.disks[0].disk.bus: "
)

func TestRejectionHasAllCauses(t *testing.T) {
	v := newValidator(t)
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, arm64VM()))
	got := complaints(response)
	if response.Allowed || len(got) != 2 || !strings.HasPrefix(got[0], sataCause) || !strings.HasPrefix(got[1], biosCause) {
		t.Fatalf("allowed %v, causes %q", response.Allowed, got)
	}
	for i, rule := range []string{"[virtward/arm64-disk-bus] ", "[virtward/arm64-bios] "} {
		if !strings.Contains(got[i], rule) {
			t.Errorf("%q does not name its rule, %s, and a remedy", got[i], rule)
		}
	}
	result := response.Result
	if result.Code != 422 || result.Reason != metav1.StatusReasonInvalid || result.Details.Kind != apikinds.VirtualMachine || result.Details.Group != "kubevirt.io" || result.Details.Name != "db" {
		t.Errorf("result %+v", result)
	}
	for _, part := range []string{"spec.template.spec.domain.firmware.bootloader.bios: ", "spec.template.spec.domain.devices.disks[0].disk.bus: "} {
		if !strings.Contains(result.Message, "\n* "+part) {
			t.Errorf("the message lacks %q: %s", part, result.Message)
		}
	}
	if want := "arm64-bios,arm64-disk-bus"; response.AuditAnnotations["findings"] != want {
		t.Errorf("audit annotations %v, want findings %s", response.AuditAnnotations, want)
	}
	if got := testutil.ToFloat64(v.Metrics.findings.WithLabelValues("arm64-bios", apikinds.VirtualMachine, "Deny")); got != 1 {
		t.Errorf("arm64-bios counted %v times", got)
	}
	if got := testutil.ToFloat64(v.Metrics.requests.WithLabelValues("validate", apikinds.VirtualMachine, "CREATE", verdictDenied)); got != 1 {
		t.Errorf("the rejection counted %v times", got)
	}
}

func TestValidVMIsAllowedWithoutWarnings(t *testing.T) {
	v := newValidator(t)
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.Typical("db")).Obj()))
	if got := complaints(response); !response.Allowed || got != nil || response.AuditAnnotations != nil {
		t.Errorf("allowed %v, %q, %v", response.Allowed, got, response.AuditAnnotations)
	}
}

func TestCauseFromAPreference(t *testing.T) {
	preference := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": "VirtualMachineClusterPreference", "metadata": map[string]any{"name": "old"},
		"spec": map[string]any{"devices": map[string]any{"preferredDiskBus": "sata"}, "firmware": map[string]any{"preferredUseBios": true}},
	}}
	vm := build.VMOf(build.VMI("db").Disk("root", "").Architecture("arm64")).Preference("old").Obj()
	v := newValidator(t, preference)
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, vm))
	got := complaints(response)
	want := []string{"arm64-bios", "arm64-disk-bus"}
	if response.Allowed || len(got) != len(want) {
		t.Fatalf("allowed %v, causes %q", response.Allowed, got)
	}
	behind := []string{
		"(VirtualMachineClusterPreference old sets domain.firmware.bootloader.bios by its spec.firmware.preferredUseBios)",
		"(VirtualMachineClusterPreference old sets domain.devices.disks[0].disk.bus by its spec.devices.preferredDiskBus)",
	}
	for i := range want {
		if !strings.HasPrefix(got[i], "FieldValueNotSupported spec.preference.name: ") || !strings.Contains(got[i], "[virtward/"+want[i]+"]") || !strings.Contains(got[i], behind[i]) {
			t.Errorf("cause %q: want rule %s at spec.preference.name, with %s", got[i], want[i], behind[i])
		}
	}
}

func TestMissingInstancetypeIsAWarning(t *testing.T) {
	v := newValidator(t)
	vm := build.VM("db").Instancetype("u1.small").Obj()
	vm.Spec.Template.Spec.Domain.Memory = nil
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, vm))
	if !response.Allowed || len(response.Warnings) == 0 || !strings.Contains(response.Warnings[0], "u1.small") {
		t.Errorf("allowed %v, %q", response.Allowed, complaints(response))
	}
}

func TestPreExistingErrors(t *testing.T) {
	bad := arm64VM()
	two := func(change func(*v1.VirtualMachine)) *v1.VirtualMachine {
		vm := bad.DeepCopy()
		change(vm)
		return vm
	}
	disk := func(name string, bus v1.DiskBus) v1.Disk {
		return v1.Disk{Name: name, DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{Bus: bus}}}
	}
	volume := func(name string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "fedora"}}}
	}
	for name, tc := range map[string]struct {
		vm      *v1.VirtualMachine
		denied  []string
		warned  int
		dropped bool
	}{
		"a pre-existing error is not changed": {
			vm: two(func(vm *v1.VirtualMachine) {
				vm.Spec.Template.Spec.Domain.Memory.Guest.Add(*vm.Spec.Template.Spec.Domain.Memory.Guest)
			}),
			warned: 2,
		},
		"a fault moves": {
			vm: two(func(vm *v1.VirtualMachine) {
				spec := &vm.Spec.Template.Spec
				spec.Domain.Devices.Disks = append([]v1.Disk{disk("data", v1.DiskBusVirtio)}, spec.Domain.Devices.Disks...)
				spec.Volumes = append(spec.Volumes, volume("data"))
			}),
			warned: 2,
		},
		"one is mended": {
			vm:     two(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.Firmware = nil }),
			warned: 1,
		},
		"a fault is added": {
			vm: two(func(vm *v1.VirtualMachine) {
				spec := &vm.Spec.Template.Spec
				spec.Domain.Devices.Disks = append(spec.Domain.Devices.Disks, disk("data", v1.DiskBusSATA))
				spec.Volumes = append(spec.Volumes, volume("data"))
			}),
			denied: []string{"spec.template.spec.domain.devices.disks[1].disk.bus"},
			warned: 2,
		},
		"a fault takes the place of another": {
			vm:     two(func(vm *v1.VirtualMachine) { vm.Spec.Template.Spec.Domain.Devices.Disks[0].Disk.Bus = v1.DiskBusUSB }),
			denied: []string{"spec.template.spec.domain.devices.disks[0].disk.bus"},
			warned: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, tc.vm, update(t, bad)))
			var denied []string
			if response.Result != nil {
				for _, c := range response.Result.Details.Causes {
					denied = append(denied, c.Field)
				}
			}
			if diff := cmp.Diff(tc.denied, denied); diff != "" || response.Allowed != (len(tc.denied) == 0) || len(response.Warnings) != tc.warned {
				t.Errorf("allowed %v, %q\n%s", response.Allowed, complaints(response), diff)
			}
			for _, w := range response.Warnings {
				if !strings.Contains(w, "pre-existing: tolerated on update") {
					t.Errorf("the warning %q does not say that the fault is old", w)
				}
			}
		})
	}
}

func TestVMIIsNotCompletedAgain(t *testing.T) {
	v := newValidator(t)
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, build.Typical("db").Obj()))
	if response.Allowed || !strings.Contains(complaints(response)[0], "[virtward/vmi-complete]") {
		t.Errorf("a VMI that is not completed: allowed %v, %q", response.Allowed, complaints(response))
	}

	complete := completed(t, build.Typical("db").Obj())
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, complete)); !response.Allowed {
		t.Errorf("a complete VMI is rejected: %q", complaints(response))
	}
}

// completed returns a VMI after the mutator.
func completed(t testing.TB, vmi *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	t.Helper()
	m := newMutator(t)
	raw, err := json.Marshal(vmi)
	if err != nil {
		t.Fatal(err)
	}
	response := answerOf(t, m, reviewOf(t, apikinds.VirtualMachineInstance, json.RawMessage(raw)))
	done := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(apply(t, raw, response.Patch), done); err != nil {
		t.Fatal(err)
	}
	return done
}

func TestOnlyKubeVirtUpdatesTheSpecOfAVMI(t *testing.T) {
	old := completed(t, build.Typical("db").Obj())
	changed := old.DeepCopy()
	changed.Spec.Hostname = "other"
	v := newValidator(t)
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, changed, update(t, old))); response.Allowed {
		t.Error("a user changed the spec of a VMI")
	}
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"mine": "yes"}
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachineInstance, labelled, update(t, old))); !response.Allowed {
		t.Errorf("a label: %q", complaints(response))
	}
}

func TestRequestsWithoutValidation(t *testing.T) {
	v := newValidator(t)
	for _, operation := range []admissionv1.Operation{admissionv1.Delete, admissionv1.Connect} {
		response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, arm64VM(), func(r *admissionv1.AdmissionRequest) { r.Operation = operation }))
		if !response.Allowed {
			t.Errorf("%s rejected: %q", operation, complaints(response))
		}
	}
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, arm64VM(), func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }))
	if !response.Allowed {
		t.Error("a status was evaluated")
	}
}

func TestTemplates(t *testing.T) {
	v := newValidator(t)
	bad := build.VMI("db").Disk("root", v1.DiskBusSATA).Architecture("arm64").Label("app", "db").Obj()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	rs := &v1.VirtualMachineInstanceReplicaSet{Spec: v1.VirtualMachineInstanceReplicaSetSpec{
		Selector: selector, Template: &v1.VirtualMachineInstanceTemplateSpec{ObjectMeta: bad.ObjectMeta, Spec: bad.Spec},
	}}
	pool := &poolv1beta1.VirtualMachinePool{Spec: poolv1beta1.VirtualMachinePoolSpec{
		Selector: selector, VirtualMachineTemplate: &poolv1beta1.VirtualMachineTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels}, Spec: build.VMOf(build.VMI("db").Disk("root", v1.DiskBusSATA).Architecture("arm64")).Obj().Spec},
	}}
	inPool := func(r *admissionv1.AdmissionRequest) { r.Kind.Group, r.Kind.Version = "pool.kubevirt.io", "v1beta1" }

	response := evaluated(t, v, reviewOf(t, "VirtualMachineInstanceReplicaSet", rs))
	if got := complaints(response); response.Allowed || len(got) != 1 || !strings.HasPrefix(got[0], "FieldValueNotSupported spec.template.spec.domain.devices.disks[0].disk.bus: ") {
		t.Errorf("replica set: allowed %v, %q", response.Allowed, got)
	}
	response = evaluated(t, v, reviewOf(t, "VirtualMachinePool", pool, inPool))
	if got := complaints(response); response.Allowed || len(got) != 1 || !strings.HasPrefix(got[0], "FieldValueNotSupported spec.virtualMachineTemplate.spec.template.spec.domain.devices.disks[0].disk.bus: ") {
		t.Errorf("pool: allowed %v, %q", response.Allowed, got)
	}

	more := pool.DeepCopy()
	more.Spec.Paused = true
	response = evaluated(t, v, reviewOf(t, "VirtualMachinePool", more, inPool, update(t, pool)))
	if !response.Allowed || len(response.Warnings) != 1 {
		t.Errorf("a pool with an old fault: allowed %v, %q", response.Allowed, complaints(response))
	}
	more.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	response = evaluated(t, v, reviewOf(t, "VirtualMachinePool", more, inPool, update(t, pool)))
	if got := complaints(response); response.Allowed || len(got) != 3 {
		t.Errorf("a pool with another selector: allowed %v, %q", response.Allowed, got)
	}

	rs.Spec.Template = nil
	response = evaluated(t, v, reviewOf(t, "VirtualMachineInstanceReplicaSet", rs))
	if got := complaints(response); len(got) != 1 || !strings.HasPrefix(got[0], "FieldValueRequired spec.template: ") {
		t.Errorf("no template: %q", got)
	}
}

func TestRuleSettings(t *testing.T) {
	v := newValidator(t)
	settings, notes := validators.NewSettings(v.Rules, policyv1alpha1.RuleSettings{Spec: policyv1alpha1.RuleSettingsSpec{Rules: []policyv1alpha1.RuleSetting{
		{Rule: "arm64-bios", Severity: "Off"},
		{Rule: "arm64-disk-bus", Severity: "Warn", NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "lab"}}},
	}}})
	if len(notes) != 0 {
		t.Fatal(notes)
	}
	live(v.Evaluator).GetSettings = func() *validators.Settings { return settings }
	lab := k8slabels.Set{"env": "lab"}
	live(v.Evaluator).GetNamespaceLabels = func(context.Context, string) (k8slabels.Set, error) { return lab, nil }
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, arm64VM()))
	if got := complaints(response); !response.Allowed || len(got) != 1 || !strings.Contains(got[0], "[virtward/arm64-disk-bus]") {
		t.Errorf("in the lab: allowed %v, %q", response.Allowed, got)
	}
	lab = nil
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, arm64VM())); response.Allowed || len(complaints(response)) != 1 {
		t.Errorf("elsewhere: allowed %v, %q", response.Allowed, complaints(response))
	}
}

func TestInvalidRuleSettings(t *testing.T) {
	v := newValidator(t)
	settings := policyv1alpha1.RuleSettings{Spec: policyv1alpha1.RuleSettingsSpec{Rules: []policyv1alpha1.RuleSetting{{Rule: "arm64-disk-buss", Severity: "Warn"}}}}
	request := func(r *admissionv1.AdmissionRequest) {
		r.Kind.Group, r.Kind.Version, r.Namespace = "policy.virtward.io", "v1alpha1", ""
	}
	response := evaluated(t, v, reviewOf(t, "RuleSettings", settings, request))
	if got := complaints(response); response.Allowed || len(got) != 1 || !strings.Contains(got[0], "spec.rules[0].rule") || !strings.Contains(got[0], "arm64-disk-bus") {
		t.Errorf("allowed %v, %q", response.Allowed, got)
	}
	settings.Spec.Rules[0].Rule = "arm64-disk-bus"
	if response := evaluated(t, v, reviewOf(t, "RuleSettings", settings, request)); !response.Allowed {
		t.Errorf("rejected: %q", complaints(response))
	}
}

func TestFailedEvaluationsAreUnavailable(t *testing.T) {
	cases := map[string]func(*Validator){
		"no facts yet":  func(v *Validator) { live(v.Evaluator).GetFacts = func() *platform.Facts { return nil } },
		"no connection": func(v *Validator) { v.Evaluator.References = failing{errors.New("connection refused")} },
		"no hypervisor": func(v *Validator) {
			facts := live(v.Evaluator).GetFacts().WithHypervisor(platform.Hypervisor{Name: "xen"})
			live(v.Evaluator).GetFacts = func() *platform.Facts { return facts }
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			change(v)
			response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VM("db").Instancetype("u1.small").Obj()))
			if response.Allowed || response.Result.Code != 503 || !strings.HasPrefix(response.Result.Message, "virtward could not check this object, try again: ") {
				t.Errorf("answer %+v", response.Result)
			}
		})
	}
}

func TestUnreadableObjectsAreRejected(t *testing.T) {
	v := newValidator(t)
	for text, want := range map[string]string{
		`{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}}}`: "spec.template.spec.domain.memory.guest: ",
		`{"spec":{"template":7}}`: "spec: ",
		`{`:                       "spec: ",
	} {
		response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, json.RawMessage(`{}`), func(r *admissionv1.AdmissionRequest) { r.Object.Raw = nil }))
		if text != `{` {
			response = evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, json.RawMessage(text)))
		}
		got := complaints(response)
		if response.Allowed || len(got) != 1 || !strings.Contains(got[0], " "+want) || !strings.Contains(got[0], "[virtward/object-readable]") {
			t.Errorf("%s: allowed %v, %q", text, response.Allowed, got)
		}
	}
}

// oversized returns an object that cannot be read, because its status has too many values. change changes it.
func oversized(t testing.TB, object any, change func(map[string]any)) json.RawMessage {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	conditions := make([]any, 11_000)
	for i := range conditions {
		conditions[i] = map[string]any{}
	}
	if err := unstructured.SetNestedSlice(fields, conditions, "status", "conditions"); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(fields)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func set(value any, path ...string) func(map[string]any) {
	return func(fields map[string]any) {
		if err := unstructured.SetNestedField(fields, value, path...); err != nil {
			panic(err)
		}
	}
}

// TestUpdatesOfUnreadableObjects verifies that an object that is older than Virtward, or that became too large without it,
// does not bypass the validation. Only its fields that are not evaluated may change.
func TestUpdatesOfUnreadableObjects(t *testing.T) {
	const controller, handler = "system:serviceaccount:kubevirt:kubevirt-controller", "system:serviceaccount:kubevirt:kubevirt-handler"
	small, vmi := build.VM("db").Obj(), build.VMI("db").Obj()
	for name, tc := range map[string]struct {
		kind, user    string
		object, old   any
		allowed       bool
		expectWarning bool
	}{
		"a finalizer":                      {apikinds.VirtualMachine, "jane", oversized(t, small, set([]any{"a/b"}, "metadata", "finalizers")), oversized(t, small, nil), true, true},
		"the form of a quantity":           {apikinds.VirtualMachine, "jane", oversized(t, small, set("1024Mi", "spec", "template", "spec", "domain", "memory", "guest")), oversized(t, small, set("1Gi", "spec", "template", "spec", "domain", "memory", "guest")), true, true},
		"its status":                       {apikinds.VirtualMachine, "jane", oversized(t, small, set("x", "status", "printableStatus")), oversized(t, small, nil), true, true},
		"a label":                          {apikinds.VirtualMachine, "jane", oversized(t, small, set("b", "metadata", "labels", "a")), oversized(t, small, nil), false, false},
		"an annotation":                    {apikinds.VirtualMachine, "jane", oversized(t, small, set("b", "metadata", "annotations", "a")), oversized(t, small, nil), false, false},
		"its spec":                         {apikinds.VirtualMachine, "jane", oversized(t, small, set("arm64", "spec", "template", "spec", "architecture")), oversized(t, small, nil), false, false},
		"its name in another place":        {apikinds.VirtualMachine, "jane", oversized(t, small, set("x", "metadata", "generateName")), oversized(t, small, nil), false, false},
		"a small object grows":             {apikinds.VirtualMachine, "jane", oversized(t, small, nil), small, true, true},
		"one that does not decode":         {apikinds.VirtualMachine, "jane", json.RawMessage(`{"spec":{"template":7,"runStrategy":"Always"}}`), json.RawMessage(`{"spec":{"template":7}}`), false, false},
		"one that does not decode, again":  {apikinds.VirtualMachine, "jane", json.RawMessage(`{"metadata":{"finalizers":["a/b"]},"spec":{"template":7}}`), json.RawMessage(`{"spec":{"template":7}}`), true, true},
		"no JSON":                          {apikinds.VirtualMachine, "jane", json.RawMessage(`7`), json.RawMessage(`7`), true, true},
		"KubeVirt stops it":                {apikinds.VirtualMachine, controller, oversized(t, small, set("Halted", "spec", "runStrategy")), oversized(t, small, nil), true, true},
		"KubeVirt labels it":               {apikinds.VirtualMachine, controller, oversized(t, small, set("b", "metadata", "labels", "a")), oversized(t, small, nil), true, true},
		"KubeVirt plugs in a volume":       {apikinds.VirtualMachine, controller, oversized(t, small, set([]any{map[string]any{"name": "a"}}, "spec", "template", "spec", "volumes")), oversized(t, small, nil), true, true},
		"KubeVirt changes its firmware":    {apikinds.VirtualMachine, controller, oversized(t, small, set("u", "spec", "template", "spec", "domain", "firmware", "uuid")), oversized(t, small, nil), false, false},
		"a migration":                      {apikinds.VirtualMachineInstance, handler, oversized(t, vmi, set("node02", "metadata", "labels", "kubevirt.io/nodeName")), oversized(t, vmi, nil), true, true},
		"sockets are plugged in":           {apikinds.VirtualMachineInstance, controller, oversized(t, vmi, set(int64(4), "spec", "domain", "cpu", "sockets")), oversized(t, vmi, nil), true, true},
		"a NIC is plugged in":              {apikinds.VirtualMachineInstance, controller, oversized(t, vmi, set([]any{map[string]any{"name": "a", "bridge": map[string]any{}}}, "spec", "domain", "devices", "interfaces")), oversized(t, vmi, nil), true, true},
		"another user migrates it":         {apikinds.VirtualMachineInstance, "jane", oversized(t, vmi, set("node02", "metadata", "labels", "kubevirt.io/nodeName")), oversized(t, vmi, nil), false, false},
		"another controller":               {apikinds.VirtualMachineInstance, "system:serviceaccount:mallory:kubevirt-controller", oversized(t, vmi, set(int64(4), "spec", "domain", "cpu", "sockets")), oversized(t, vmi, nil), false, false},
		"KubeVirt changes an architecture": {apikinds.VirtualMachineInstance, controller, oversized(t, vmi, set("s390x", "spec", "architecture")), oversized(t, vmi, nil), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			response := evaluated(t, v, reviewOf(t, tc.kind, tc.object, update(t, tc.old), func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = tc.user }))
			got := complaints(response)
			warned := len(got) == 1 && strings.Contains(got[0], "warning: ") && strings.Contains(got[0], "pre-existing: tolerated on update") && strings.Contains(got[0], "[virtward/object-readable]")
			if response.Allowed != tc.allowed || warned != tc.expectWarning {
				t.Errorf("allowed %v, %q", response.Allowed, got)
			}
			if !tc.allowed && (len(got) != 1 || !strings.Contains(got[0], "[virtward/object-readable]")) {
				t.Errorf("rejected for %q", got)
			}
		})
	}
}

// TestUnreadableOldObjectHasNoPreExistingErrors verifies that all errors are new if the old object cannot be read.
func TestUnreadableOldObjectHasNoPreExistingErrors(t *testing.T) {
	bad := arm64VM()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	for name, tc := range map[string]struct {
		kind   string
		object any
	}{
		"a VM":            {apikinds.VirtualMachine, bad},
		"a replica set":   {"VirtualMachineInstanceReplicaSet", &v1.VirtualMachineInstanceReplicaSet{Spec: v1.VirtualMachineInstanceReplicaSetSpec{Selector: selector, Template: bad.Spec.Template}}},
		"an instancetype": {"VirtualMachineInstancetype", &instancetypev1beta1.VirtualMachineInstancetype{Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{IOThreadsPolicy: new(v1.IOThreadsPolicy("none"))}}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			group := func(r *admissionv1.AdmissionRequest) {
				if strings.HasSuffix(tc.kind, "type") {
					r.Kind.Group = "instancetype.kubevirt.io"
				}
			}
			known := evaluated(t, v, reviewOf(t, tc.kind, tc.object, update(t, tc.object), group))
			if !known.Allowed || len(known.Warnings) == 0 {
				t.Fatalf("of an object that can be read: %q", complaints(known))
			}
			response := evaluated(t, v, reviewOf(t, tc.kind, tc.object, update(t, oversized(t, tc.object, nil)), group))
			if response.Allowed || len(response.Result.Details.Causes) != len(known.Warnings) || len(response.Warnings) != 0 {
				t.Errorf("allowed %v, %q", response.Allowed, complaints(response))
			}
		})
	}
	// The old object is empty if it cannot be read. A missing template must not count as pre-existing.
	v := newValidator(t)
	bare := &v1.VirtualMachine{Spec: v1.VirtualMachineSpec{RunStrategy: new(v1.RunStrategyHalted)}}
	if response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, bare, update(t, oversized(t, build.VM("db").Obj(), nil)))); response.Allowed {
		t.Errorf("a missing field of an unreadable object counts as pre-existing: %q", complaints(response))
	}
}

// TestObjectsBeingDeleted verifies that only the deletion timestamp of the old object counts.
func TestObjectsBeingDeleted(t *testing.T) {
	now := metav1.Now()
	leaving := func(vm *v1.VirtualMachine) *v1.VirtualMachine {
		vm = vm.DeepCopy()
		vm.DeletionTimestamp = &now
		return vm
	}
	labelled := arm64VM()
	labelled.Labels = map[string]string{"a": "b"}
	fine := build.VM("db").Obj()
	for name, tc := range map[string]struct {
		object, old *v1.VirtualMachine
		allowed     bool
	}{
		"a client says so at a creation":      {leaving(arm64VM()), nil, false},
		"it is, and keeps its spec":           {leaving(labelled), leaving(arm64VM()), true},
		"it is, and its spec changes":         {leaving(arm64VM()), leaving(fine), false},
		"only the new object says so":         {leaving(arm64VM()), fine, false},
		"it is, and the new one says nothing": {arm64VM(), leaving(fine), false},
	} {
		t.Run(name, func(t *testing.T) {
			v := newValidator(t)
			body := reviewOf(t, apikinds.VirtualMachine, tc.object)
			if tc.old != nil {
				body = reviewOf(t, apikinds.VirtualMachine, tc.object, update(t, tc.old))
			}
			if response := evaluated(t, v, body); response.Allowed != tc.allowed {
				t.Errorf("allowed %v, %q", response.Allowed, complaints(response))
			}
		})
	}
}

// TestCostOfManyErrors verifies the cost of a long list with an error in each element.
func TestCostOfManyErrors(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	v := newValidator(t)
	for name, list := range map[string]struct {
		strings int
		rule    string
	}{
		"as many as are evaluated": {14_000, "dns-"},
		"more":                     {900_000, "object-readable"},
	} {
		t.Run(name, func(t *testing.T) {
			object := json.RawMessage(`{"spec":{"template":{"spec":{"domain":{"memory":{"guest":"1Gi"}},"dnsPolicy":"None","dnsConfig":{"nameservers":["a"` + strings.Repeat(`,"a"`, list.strings) + `]}}}}}`)
			body := reviewOf(t, apikinds.VirtualMachine, object)
			before := isolated.Allocated()
			response := evaluated(t, v, body)
			allocated := isolated.Allocated() - before
			if response.Allowed || allocated > 24<<20+8*int64(len(body)) {
				t.Errorf("allowed %v, %d MiB allocated for a request of %d KiB", response.Allowed, allocated>>20, len(body)>>10)
			}
			if got := complaints(response); !slices.ContainsFunc(got, func(c string) bool { return strings.Contains(c, "[virtward/"+list.rule) }) {
				t.Errorf("causes %.400q", got)
			}
		})
	}
}

// TestSlowClients verifies that clients that announce a large body and send nothing do not block others.
func TestSlowClients(t *testing.T) {
	v := newValidator(t)
	server := httptest.NewServer(v)
	defer server.Close()
	for range 40 {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: 7000000\r\n\r\n{")); err != nil {
			t.Fatal(err)
		}
	}
	body := reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.Typical("db")).Obj())
	client := &http.Client{Timeout: sendTimeout - 100*time.Millisecond} // that is when the bodies end
	for range 20 {
		response, err := client.Post(server.URL, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("answered with %s", response.Status)
		}
	}
}

func TestManyCausesAreTruncated(t *testing.T) {
	vmi := build.VMI("db").Architecture("arm64")
	for i := range 70 {
		name := fmt.Sprintf("disk-%d", i)
		vmi.Disk(name, v1.DiskBusSATA)
	}
	v := newValidator(t)
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, build.VMOf(vmi).Obj()))
	causes := response.Result.Details.Causes
	if len(causes) != maxCauses || !strings.HasSuffix(causes[maxCauses-1].Message, "(and 20 more findings, which kubectl virtward explain shows)") {
		t.Errorf("%d causes, the last one %q", len(causes), causes[len(causes)-1].Message)
	}
}

func TestLongValuesAreTruncated(t *testing.T) {
	vm := arm64VM()
	vm.Spec.Template.Spec.Domain.CPU = &v1.CPU{Model: strings.Repeat("é", 1<<20)}
	v := newValidator(t)
	response := evaluated(t, v, reviewOf(t, apikinds.VirtualMachine, vm))
	if response.Allowed || len(response.Result.Message) > 16<<10 {
		t.Errorf("allowed %v, a message of %d bytes", response.Allowed, len(response.Result.Message))
	}
}

// FuzzValidate verifies that all bytes are answered: with an error if they are not a request, or with a response whose
// causes are complete, sorted and bounded.
func FuzzValidate(f *testing.F) {
	for i, object := range writtenVMIs(f) {
		if i%50 == 0 {
			f.Add(reviewOf(f, apikinds.VirtualMachineInstance, json.RawMessage(object)))
			f.Add(reviewOf(f, apikinds.VirtualMachineInstance, json.RawMessage(object), update(f, build.Typical("db").Obj())))
		}
	}
	f.Add(reviewOf(f, apikinds.VirtualMachine, arm64VM()))
	f.Add(reviewOf(f, apikinds.VirtualMachine, arm64VM(), update(f, build.VM("db").Instancetype("u1.small").Obj())))
	f.Add(reviewOf(f, "VirtualMachineInstanceReplicaSet", json.RawMessage(`{"spec":{"selector":{},"template":{"spec":{"domain":{}}}}}`)))
	for _, kind := range []string{"VirtualMachineInstancetype", "VirtualMachineClusterPreference"} {
		f.Add(reviewOf(f, kind, json.RawMessage(`{"spec":{"cpu":{},"memory":{}}}`), func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "instancetype.kubevirt.io" }))
	}
	f.Add(reviewOf(f, "VirtualMachinePool", json.RawMessage(`{"spec":{"virtualMachineTemplate":{"spec":{"template":{"spec":{}}}}}}`), func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "pool.kubevirt.io" }))
	f.Add(reviewOf(f, "RuleSettings", json.RawMessage(`{"spec":{"rules":[{"rule":"x","severity":"Off"}]}}`), func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "policy.virtward.io" }))
	v := newValidator(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		data, err := v.Review(context.Background(), body)
		if err != nil {
			return
		}
		var answer admissionv1.AdmissionReview
		if err := json.Unmarshal(data, &answer); err != nil {
			t.Fatalf("the response is not an AdmissionReview: %v", err)
		}
		r := answer.Response
		if len(r.Warnings) > maxWarnings+1 || len(data) > 256<<10 {
			t.Fatalf("%d warnings, %d bytes", len(r.Warnings), len(data))
		}
		if r.Allowed {
			return
		}
		if r.Result.Code != 422 {
			t.Fatalf("code %d: %s", r.Result.Code, r.Result.Message)
		}
		causes := r.Result.Details.Causes
		if len(causes) == 0 || len(causes) > maxCauses {
			t.Fatalf("%d causes", len(causes))
		}
		sorted := slices.IsSortedFunc(causes, func(a, b metav1.StatusCause) int { return validators.ComparePaths(a.Field, b.Field) })
		if !sorted {
			t.Error("the causes are not sorted by field")
		}
		for _, c := range causes {
			if c.Field == "" || c.Type == "" || !strings.Contains(c.Message, "[virtward/") && len(c.Message) <= maxText {
				t.Errorf("a cause without a field or a message: %+v", c)
			}
		}
	})
}
