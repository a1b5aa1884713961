package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
)

// TestReferencedObjectsAreBounded verifies the limits of objects that each referring request reads.
func TestReferencedObjectsAreBounded(t *testing.T) {
	text := strings.Repeat("x", 70<<10)
	preset := func(value string) any {
		return &v1.VirtualMachineInstancePreset{Spec: v1.VirtualMachineInstancePresetSpec{Selector: metav1.LabelSelector{MatchLabels: map[string]string{"a": value}}}}
	}
	instancetype := func(value string) any {
		return &instancetypev1beta1.VirtualMachineInstancetype{Spec: instancetypev1beta1.VirtualMachineInstancetypeSpec{Annotations: map[string]string{"a": value}}}
	}
	preference := func(value string) any {
		return &instancetypev1beta1.VirtualMachinePreference{Spec: instancetypev1beta1.VirtualMachinePreferenceSpec{Annotations: map[string]string{"a": value}}}
	}
	for kind, of := range map[string]func(string) any{
		"VirtualMachineInstancePreset": preset, "VirtualMachineInstancetype": instancetype, "VirtualMachineClusterInstancetype": instancetype,
		"VirtualMachinePreference": preference, "VirtualMachineClusterPreference": preference,
	} {
		t.Run(kind, func(t *testing.T) {
			v := newValidator(t)
			group := func(r *admissionv1.AdmissionRequest) {
				if !strings.HasSuffix(kind, "Preset") {
					r.Kind.Group = "instancetype.kubevirt.io"
				}
			}
			if response := evaluated(t, v, reviewOf(t, kind, of("small"), group)); !response.Allowed {
				t.Errorf("a small one: %q", complaints(response))
			}
			response := evaluated(t, v, reviewOf(t, kind, of(text), group))
			if got := complaints(response); response.Allowed || len(got) != 1 || !strings.Contains(got[0], "at most 65536 are allowed [virtward/object-readable]") {
				t.Errorf("a large one: %.300q", got)
			}
			if response := evaluated(t, v, reviewOf(t, kind, of(text), update(t, of(text)), group)); !response.Allowed || len(response.Warnings) != 1 {
				t.Errorf("one that was large before: %.300q", complaints(response))
			}
			if response := evaluated(t, v, reviewOf(t, kind, of(text+"y"), update(t, of(text)), group)); response.Allowed {
				t.Error("one that was large before changes")
			}
		})
	}
}

// TestVMIWithTooManyPresets verifies that such a VMI is validated without completion.
func TestVMIWithTooManyPresets(t *testing.T) {
	m, v := newMutator(t), newValidator(t)
	tooMany := failing{fmt.Errorf("reading: %w", platform.ErrTooLarge)}
	m.Evaluator.References, v.Evaluator.References = tooMany, tooMany
	body := reviewOf(t, apikinds.VirtualMachineInstance, build.VMI("db").Obj())
	response := answerOf(t, m, body)
	if !response.Allowed || response.Patch != nil || len(response.Warnings) != 1 || !strings.HasPrefix(response.Warnings[0], "virtward did not complete this object: there are too many VirtualMachineInstancePresets") {
		t.Errorf("mutate: patch %s, warnings %q", response.Patch, response.Warnings)
	}
	response = evaluated(t, v, body)
	if got := complaints(response); !response.Allowed || len(got) == 0 || !strings.Contains(got[0], "[virtward/vmi-complete]") {
		t.Errorf("validate: allowed %v, %q", response.Allowed, got)
	}
	v.Evaluator.References = failing{errors.New("connection refused")}
	if response := evaluated(t, v, body); response.Allowed || response.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("if the presets cannot be read: %+v", response.Result)
	}
}

// TestRequestsWithoutMemoryAreBusy verifies that requests of other namespaces still get memory.
func TestRequestsWithoutMemoryAreBusy(t *testing.T) {
	v := newValidator(t)
	large := reviewOf(t, apikinds.VirtualMachine, json.RawMessage(`{"spec":{"template":{"spec":{"tolerations":[`+strings.Repeat("{},", 4_900)+`{}]}}}}`))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(large, &review); err != nil {
		t.Fatal(err)
	}
	if size := decodedSize(review.Request); size < 4_900*perValue || size > MaxDecoded/4+1<<20 {
		t.Errorf("it takes %d bytes", size)
	}
	release, err := v.limits.decoded.Take(t.Context(), "default", MaxDecoded)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(body []byte) int {
		w := httptest.NewRecorder()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		v.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, ValidatePath, strings.NewReader(string(body))))
		if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "1" {
			t.Errorf("headers %v", w.Header())
		}
		return w.Code
	}
	if code := answer(large); code != http.StatusServiceUnavailable {
		t.Errorf("in a namespace that has used its share: %d", code)
	}
	if code := answer(reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), func(r *admissionv1.AdmissionRequest) { r.Namespace = "other" })); code != http.StatusOK {
		t.Errorf("in another one: %d", code)
	}
	release()
	if code := answer(large); code != http.StatusOK {
		t.Errorf("when there is memory again: %d", code)
	}
}

// TestLargeRequestsAreBounded: neither who sends large bodies nor who has many of them evaluated delays
// small requests, and one namespace does not delay the large ones of another.
func TestLargeRequestsAreBounded(t *testing.T) {
	v := newValidator(t)
	in := func(namespace string) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) { r.Namespace = namespace }
	}
	large := build.VM("db").Obj()
	large.Annotations = map[string]string{"bulk": strings.Repeat("x", 2*largeBody)}
	requests := map[string][]byte{
		"small, full": reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), in("full")), "small, other": reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), in("other")),
		"large, full": reviewOf(t, apikinds.VirtualMachine, large, in("full")), "large, other": reviewOf(t, apikinds.VirtualMachine, large, in("other")),
	}
	answers := func(when string, want map[string]int) {
		t.Helper()
		for name, body := range requests {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			w := httptest.NewRecorder()
			v.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, ValidatePath, bytes.NewReader(body)))
			cancel()
			if w.Code != want[name] {
				t.Errorf("%s: %s is answered with %d, not %d: %.200s", when, name, w.Code, want[name], w.Body)
			}
		}
	}
	const served, busy = http.StatusOK, http.StatusServiceUnavailable
	all := map[string]int{"small, full": served, "small, other": served, "large, full": served, "large, other": served}
	answers("idle", all)

	var ends []func()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		end, err := v.limits.turns.Take(ctx, "full", 1)
		cancel()
		if err != nil {
			break
		}
		ends = append(ends, end)
	}
	if cores := max(2, runtime.GOMAXPROCS(0)); len(ends) != cores/2 {
		t.Errorf("one namespace uses %d of %d cores", len(ends), cores)
	}
	answers("many are evaluated", map[string]int{"small, full": served, "small, other": served, "large, full": busy, "large, other": served})
	for _, end := range ends {
		end()
	}
	answers("they are evaluated", all)

	sending := &bodyMemory{Limits: v.limits, large: true}
	if err := sending.grow(t.Context(), largeBodies); err != nil {
		t.Fatal(err)
	}
	answers("many bodies arrive", map[string]int{"small, full": served, "small, other": served, "large, full": busy, "large, other": busy})
	sending.release()
	answers("they have arrived", all)
}

// failing is a source of references that returns only errors.
type failing struct{ err error }

func (f failing) Get(context.Context, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	return nil, f.err
}

func (f failing) List(context.Context, schema.GroupVersionKind, string) ([]*unstructured.Unstructured, error) {
	return nil, f.err
}
