package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
)

func newMutator(t testing.TB) *Mutator {
	t.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, func() platform.CacheStats { return platform.CacheStats{} }, nil)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := references.NewMemory("default")
	if err != nil {
		t.Fatal(err)
	}
	facts := platform.Defaults(platform.Settings{})
	return NewMutator(Mutator{
		Evaluator: evaluator.New(effective.NewPipeline(registry), objects, &evaluator.Live{GetFacts: func() *platform.Facts { return facts }}),
		Metrics:   metrics, Log: logr.Discard(), Clock: clock.RealClock{},
	})
}

// reviewOf returns the review of a creation. changes change the request.
func reviewOf(t testing.TB, kind string, object any, changes ...func(*admissionv1.AdmissionRequest)) []byte {
	t.Helper()
	raw, ok := object.(json.RawMessage)
	if !ok {
		var err error
		if raw, err = json.Marshal(object); err != nil {
			t.Fatal(err)
		}
	}
	request := &admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind{Group: "kubevirt.io", Version: "v1", Kind: kind},
		Name: "db", Namespace: "default", Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: raw},
	}
	for _, change := range changes {
		change(request)
	}
	data, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func answerOf(t testing.TB, m *Mutator, body []byte) *admissionv1.AdmissionResponse {
	t.Helper()
	data, err := m.Review(context.Background(), body)
	if err != nil {
		t.Fatal(err)
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(data, &review); err != nil {
		t.Fatal(err)
	}
	if review.Response.UID != "1" || !review.Response.Allowed {
		t.Fatalf("answer %s: the mutator allows every well-formed request, under its uid", data)
	}
	return review.Response
}

func TestVMIPatch(t *testing.T) {
	response := answerOf(t, newMutator(t), reviewOf(t, apikinds.VirtualMachineInstance, build.Typical("db").Obj()))
	if response.PatchType == nil || *response.PatchType != admissionv1.PatchTypeJSONPatch {
		t.Fatalf("no JSON patch in %+v", response)
	}
	if !bytes.Contains(response.Patch, []byte(`{"op":"add","path":"/spec/domain/devices/disks/1/disk/bus","value":"sata"}`)) {
		t.Errorf("the patch sets no bus: %s", response.Patch)
	}
	want := map[string]string{"hypervisor": "kvm/amd64", "layers": "base,amd64,finalize"}
	if diff := cmp.Diff(want, response.AuditAnnotations); diff != "" {
		t.Errorf("audit annotations (-want +got):\n%s", diff)
	}
	if len(response.Warnings) != 0 {
		t.Errorf("warnings %v", response.Warnings)
	}
}

func TestReinvocation(t *testing.T) {
	m := newMutator(t)
	vmi := json.RawMessage(`{"spec":{"domain":{"memory":{"guest":"1Gi"}}}}`)
	first := answerOf(t, m, reviewOf(t, apikinds.VirtualMachineInstance, vmi))
	again := answerOf(t, m, reviewOf(t, apikinds.VirtualMachineInstance, json.RawMessage(apply(t, vmi, first.Patch))))
	if again.Patch != nil || again.AuditAnnotations != nil {
		t.Errorf("called again for the same object: patch %s, annotations %v", again.Patch, again.AuditAnnotations)
	}
}

func TestVMPatch(t *testing.T) {
	response := answerOf(t, newMutator(t), reviewOf(t, apikinds.VirtualMachine, build.VM("db").Instancetype("u1.small").Obj()))
	want := `[{"op":"add","path":"/spec/template/spec/architecture","value":"amd64"},{"op":"add","path":"/spec/template/spec/domain/machine","value":{"type":"q35"}}]`
	if diff := cmp.Diff(want, string(response.Patch)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	if want := (map[string]string{"hypervisor": "kvm/amd64", "layers": "base,amd64"}); !cmp.Equal(want, response.AuditAnnotations) {
		t.Errorf("audit annotations %v, want %v", response.AuditAnnotations, want)
	}
	warnings := []string{`spec.instancetype: there is no VirtualMachineClusterInstancetype u1.small; the VM is evaluated without it, and what it determines is checked when the VM starts`}
	if diff := cmp.Diff(warnings, response.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestIgnoredRequests(t *testing.T) {
	vmi := build.VMI("db").Obj()
	complete := newMutator(t)
	for name, body := range map[string][]byte{
		"an update":                      reviewOf(t, apikinds.VirtualMachineInstance, vmi, func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update }),
		"a delete":                       reviewOf(t, apikinds.VirtualMachineInstance, vmi, func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Delete }),
		"a subresource":                  reviewOf(t, apikinds.VirtualMachineInstance, vmi, func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }),
		"a kind of another group":        reviewOf(t, apikinds.VirtualMachineInstance, vmi, func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "apps" }),
		"another kind of the group":      reviewOf(t, "VirtualMachineInstanceMigration", vmi),
		"a VM without a template":        reviewOf(t, apikinds.VirtualMachine, json.RawMessage(`{"spec":{}}`)),
		"no object":                      reviewOf(t, apikinds.VirtualMachineInstance, json.RawMessage(`null`)),
		"a type that the schema rejects": reviewOf(t, apikinds.VirtualMachineInstance, json.RawMessage(`{"spec":{"domain":{"cpu":{"cores":"two"}}}}`)),
		"an invalid quantity":            reviewOf(t, apikinds.VirtualMachineInstance, json.RawMessage(`{"spec":{"domain":{"memory":{"guest":"much"}}}}`)),
	} {
		t.Run(name, func(t *testing.T) {
			response := answerOf(t, complete, body)
			if name == "no object" {
				return // null decodes as an empty VMI, which the schema rejects later
			}
			if response.Patch != nil || len(response.Warnings) > 0 {
				t.Errorf("patch %s, warnings %v; want neither", response.Patch, response.Warnings)
			}
		})
	}
}

// An object that cannot be completed now is admitted with a warning, unless it would be denied later because it is not complete.
func TestFailuresAreWarnings(t *testing.T) {
	noFacts := func(m *Mutator) { live(m.Evaluator).GetFacts = func() *platform.Facts { return nil } }
	noCluster := func(m *Mutator) { m.Evaluator.References = failing{errors.New("connection refused")} }
	noMemory := func(m *Mutator) { m.Evaluator.References = failing{fmt.Errorf("reading: %w", memory.ErrBusy)} }
	refers := build.VMOf(build.VMI("db")).Instancetype("u1.medium").Obj()
	for name, c := range map[string]struct {
		with   func(*Mutator)
		kind   string
		object any
		// code is that of a denial; 0 for a warning.
		code int32
		want string
	}{
		"no facts yet, of a VM":               {with: noFacts, kind: apikinds.VirtualMachine, object: refers, want: "virtward could not complete this object: the KubeVirt resource has not been read yet"},
		"an unreachable cluster, of a VM":     {with: noCluster, kind: apikinds.VirtualMachine, object: refers, want: "connection refused"},
		"no facts yet, of a VMI":              {with: noFacts, kind: apikinds.VirtualMachineInstance, object: build.VMI("db").Obj(), code: http.StatusServiceUnavailable, want: "virtward could not complete this object, try again: the KubeVirt resource has not been read yet"},
		"an unreachable cluster, of a VMI":    {with: noCluster, kind: apikinds.VirtualMachineInstance, object: build.VMI("db").Obj(), code: http.StatusServiceUnavailable, want: "virtward could not complete this object, try again: listing VirtualMachineInstancePresets in default: connection refused"},
		"no memory to read objects, of a VMI": {with: noMemory, kind: apikinds.VirtualMachineInstance, object: build.VMI("db").Obj(), code: http.StatusTooManyRequests, want: "virtward could not complete this object, try again: listing VirtualMachineInstancePresets in default: reading: "},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMutator(t)
			c.with(m)
			data, err := m.Review(t.Context(), reviewOf(t, c.kind, c.object))
			if err != nil {
				t.Fatal(err)
			}
			var review admissionv1.AdmissionReview
			if err := json.Unmarshal(data, &review); err != nil {
				t.Fatal(err)
			}
			response := review.Response
			if response.UID != "1" || response.Allowed != (c.code == 0) || response.Patch != nil {
				t.Fatalf("answer %s", data)
			}
			if c.code == 0 {
				if len(response.Warnings) != 1 || !strings.Contains(response.Warnings[0], c.want) {
					t.Errorf("warnings %q, want %q", response.Warnings, c.want)
				}
				return
			}
			if response.Result.Code != c.code || !strings.HasPrefix(response.Result.Message, c.want) || response.Result.Details == nil || response.Result.Details.RetryAfterSeconds != 1 {
				t.Errorf("status %+v, want %d %q", response.Result, c.code, c.want)
			}
		})
	}
}

func TestQuantityAboveTheLimit(t *testing.T) {
	vmi := json.RawMessage(`{"spec":{"domain":{"memory":{"guest":"1e99999999"}}}}`)
	response := answerOf(t, newMutator(t), reviewOf(t, apikinds.VirtualMachineInstance, vmi))
	want := []string{`virtward did not complete this object: spec.domain.memory.guest: Invalid value: "1e99999999": a quantity with too many digits or too large an exponent`}
	if diff := cmp.Diff(want, response.Warnings); diff != "" || response.Patch != nil {
		t.Errorf("patch %s; warnings (-want +got):\n%s", response.Patch, diff)
	}
}

func TestLongListsAboveTheLimit(t *testing.T) {
	m := newMutator(t)
	for _, list := range []string{"disks", "inputs", "interfaces"} {
		vmi := json.RawMessage(`{"spec":{"domain":{"devices":{"` + list + `":[{}` + strings.Repeat(",{}", 1<<20) + `]}}}}`)
		body := reviewOf(t, apikinds.VirtualMachineInstance, vmi)
		response := answerOf(t, m, body)
		want := []string{"virtward did not complete this object: the object has 1048582 objects and lists in it, where 5000 are the most"}
		if diff := cmp.Diff(want, response.Warnings); diff != "" || response.Patch != nil {
			t.Errorf("%s: patch of %d bytes; warnings (-want +got):\n%s", list, len(response.Patch), diff)
		}
	}
	if got := testutil.ToFloat64(m.Metrics.requests.WithLabelValues("mutate", apikinds.VirtualMachineInstance, "CREATE", verdictSkipped)); got != 3 {
		t.Errorf("%v skipped requests counted, want 3", got)
	}
}

func TestInvalidAdmissionReviews(t *testing.T) {
	m := newMutator(t)
	for name, test := range map[string]struct {
		body string
		code int
		want string
	}{
		"nothing":      {"", 400, "the body is not an AdmissionReview: unexpected end of JSON input"},
		"not JSON":     {"<xml/>", 400, "the body is not an AdmissionReview: invalid character '<' looking for beginning of value"},
		"cut off":      {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"ui`, 400, "the body is not an AdmissionReview: unexpected end of JSON input"},
		"another kind": {`{"kind":"Pod","apiVersion":"v1"}`, 400, `the body is "v1" "Pod", not an AdmissionReview of admission.k8s.io/v1`},
		"no request":   {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, 400, "the AdmissionReview has no request with a uid"},
		"no uid":       {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}}`, 400, "the AdmissionReview has no request with a uid"},
		"a late head":  {`{"a":"` + strings.Repeat("x", maxReview) + `","request":{"uid":"1"}}`, 400, "the body has no request with a uid before its byte 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			m.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, MutatePath, strings.NewReader(test.body)))
			if got := strings.TrimSpace(recorder.Body.String()); recorder.Code != test.code || got != test.want {
				t.Errorf("%d %q, want %d %q", recorder.Code, got, test.code, test.want)
			}
		})
	}
}

func TestLargeObject(t *testing.T) {
	vmi := build.Typical("db").Obj()
	vmi.Annotations = map[string]string{"note": strings.Repeat("x", 3<<20)}
	response := answerOf(t, newMutator(t), reviewOf(t, apikinds.VirtualMachineInstance, vmi))
	if response.Patch == nil || len(response.Patch) > 4096 {
		t.Errorf("the patch has %d bytes: it must not grow with the object", len(response.Patch))
	}
}

func TestRequestMetrics(t *testing.T) {
	m := newMutator(t)
	answerOf(t, m, reviewOf(t, apikinds.VirtualMachineInstance, build.VMI("db").Obj()))
	answerOf(t, m, reviewOf(t, "SomethingElse", build.VMI("db").Obj(), func(r *admissionv1.AdmissionRequest) { r.Operation = "INVENTED" }))
	for _, want := range [][4]string{{"mutate", apikinds.VirtualMachineInstance, "CREATE", verdictPatched}, {"mutate", "other", "other", verdictIgnored}} {
		if got := testutil.ToFloat64(m.Metrics.requests.WithLabelValues(want[:]...)); got != 1 {
			t.Errorf("%v counted %v times, want once", want, got)
		}
	}
}

// FuzzReview verifies that all bytes are answered: with an AdmissionReview that allows and whose patch can be applied, or
// with an error if the bytes are not an AdmissionReview.
func FuzzReview(f *testing.F) {
	for i, object := range writtenVMIs(f) {
		if i%50 == 0 {
			f.Add(reviewOf(f, apikinds.VirtualMachineInstance, json.RawMessage(object)))
		}
	}
	f.Add(reviewOf(f, apikinds.VirtualMachine, build.VM("db").Instancetype("u1.small").Preference("fedora").Obj()))
	f.Add([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE"}}`))
	m := newMutator(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		data, err := m.Review(context.Background(), body)
		if err != nil {
			return
		}
		var answer, question admissionv1.AdmissionReview
		if err := json.Unmarshal(data, &answer); err != nil {
			t.Fatalf("the response is not an AdmissionReview: %v", err)
		}
		if !answer.Response.Allowed {
			t.Fatal("the mutator denied the request")
		}
		if answer.Response.Patch == nil {
			return
		}
		if err := json.Unmarshal(body, &question); err != nil {
			t.Fatal(err)
		}
		apply(t, question.Request.Object.Raw, answer.Response.Patch)
	})
}
