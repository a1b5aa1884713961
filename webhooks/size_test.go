package webhooks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
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

// answered sends a review to a handler, and returns the result of the response: its code, or 200 if it is allowed.
func answered(t *testing.T, h http.Handler, body []byte) int32 {
	t.Helper()
	w := httptest.NewRecorder()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, ValidatePath+"?timeout=300ms", bytes.NewReader(body)))
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); w.Code != http.StatusOK || err != nil || review.Response.UID == "" {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	switch result := review.Response.Result; {
	case review.Response.Allowed:
		return http.StatusOK
	case result.Code == http.StatusTooManyRequests && result.Details.RetryAfterSeconds != 1:
		t.Errorf("%+v: clients do not send it again", result)
		fallthrough
	default:
		return result.Code
	}
}

func in(namespace string) func(*admissionv1.AdmissionRequest) {
	return func(r *admissionv1.AdmissionRequest) { r.Namespace = namespace }
}

// holder is that of a namespace behind the address of httptest's requests.
func holder(namespace string) string { return "192.0.2.1 namespace " + namespace }

// TestRequestsWithoutMemoryAreBusy verifies that requests of other namespaces still get memory, and that brackets in texts
// count as what they are.
func TestRequestsWithoutMemoryAreBusy(t *testing.T) {
	v := newValidator(t)
	manyValues := `{"spec":{"template":{"spec":{"tolerations":[` + strings.Repeat("{},", 4_900) + `{}]}}}}`
	large := func(namespace string) []byte {
		return reviewOf(t, apikinds.VirtualMachine, json.RawMessage(manyValues), in(namespace))
	}
	if size := decodedSize(large("team"), apikinds.VirtualMachine); size < 4_900*perValue || size > MaxDecoded/4+1<<20 {
		t.Errorf("it takes %d bytes", size)
	}
	text := build.VM("db").Obj()
	text.Annotations = map[string]string{"text": strings.Repeat("{", 5_000)}
	if size := decodedSize(reviewOf(t, apikinds.VirtualMachine, text), apikinds.VirtualMachine); size > smallDecoded {
		t.Errorf("brackets in a text take %d bytes", size)
	}
	release, err := v.limits.decoded.Large.Acquire(t.Context(), holder("team"), MaxDecoded)
	if err != nil {
		t.Fatal(err)
	}
	const busy = http.StatusTooManyRequests
	if code := answered(t, v, large("team")); code != busy {
		t.Errorf("in a namespace that has used its share: %d", code)
	}
	for _, namespace := range []string{"team", "other"} {
		if code := answered(t, v, reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), in(namespace))); code != http.StatusOK {
			t.Errorf("a small one in %s: %d", namespace, code)
		}
	}
	release()
	if code := answered(t, v, large("team")); code == busy {
		t.Errorf("when there is memory again: %d", code)
	}
}

// TestLargeRequestsAreBounded verifies that users who send large bodies, or have many evaluated, do not delay small requests,
// and that one namespace does not delay the large ones of another.
func TestLargeRequestsAreBounded(t *testing.T) {
	v := newValidator(t)
	large := build.VM("db").Obj()
	large.Annotations = map[string]string{"bulk": strings.Repeat("x", 2*largeBody)}
	requests := map[string][]byte{
		"small, full": reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), in("full")), "small, other": reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), in("other")),
		"large, full": reviewOf(t, apikinds.VirtualMachine, large, in("full")), "large, other": reviewOf(t, apikinds.VirtualMachine, large, in("other")),
	}
	answers := func(when string, want map[string]int32) {
		t.Helper()
		for name, body := range requests {
			if code := answered(t, v, body); code != want[name] {
				t.Errorf("%s: %s is answered with %d, not %d", when, name, code, want[name])
			}
		}
	}
	const served, busy = http.StatusOK, http.StatusTooManyRequests
	all := map[string]int32{"small, full": served, "small, other": served, "large, full": served, "large, other": served}
	answers("idle", all)

	var ends []func()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for {
		end, err := v.limits.largeTurns.Acquire(ended, holder("full"), 1)
		if err != nil {
			break
		}
		ends = append(ends, end)
	}
	if int64(len(ends)) != cores()/2 {
		t.Errorf("one namespace uses %d of %d cores", len(ends), cores())
	}
	answers("many are evaluated", map[string]int32{"small, full": served, "small, other": served, "large, full": busy, "large, other": served})
	for _, end := range ends {
		end()
	}
	answers("they are evaluated", all)

	arriving, err := v.limits.large.Acquire(t.Context(), holder("full"), largeBodies)
	if err != nil {
		t.Fatal(err)
	}
	answers("many bodies arrive", map[string]int32{"small, full": served, "small, other": served, "large, full": busy, "large, other": busy})
	arriving()
	answers("they have arrived", all)
	if code := answered(t, v, append(requests["small, full"], bytes.Repeat([]byte(" "), maxReview)...)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a review that is too large is answered with %d", code)
	}
}

// TestHolders verifies whose shares a request uses.
func TestHolders(t *testing.T) {
	namespaced := `{"kind":"AdmissionReview","request":{"uid":"1","kind":{"group":"kubevirt.io","version":"v1","kind":"VirtualMachine"},"name":"db","namespace":"team","operation":"DELETE","userInfo":{"username":"alice","groups":["a"]},"object":{"namespace":"x","met`
	longUser := func(end string) string {
		return strings.NewReplacer(`"namespace":"team",`, "", "alice", strings.Repeat("u", 1100)+end).Replace(namespaced)
	}
	for name, c := range map[string]struct{ peer, body, want string }{
		"a namespace":                     {"10.0.0.1:5", namespaced, "10.0.0.1 namespace team"},
		"a user":                          {"[fd00::1]:5", strings.Replace(namespaced, `"namespace":"team",`, "", 1), "fd00::1 user alice"},
		"a user with a long name":         {"10.0.0.1:5", longUser("1"), "10.0.0.1 user " + fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Repeat("u", 1100)+"1")))},
		"another one, longer by a letter": {"10.0.0.1:5", longUser("12"), "10.0.0.1 user " + fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Repeat("u", 1100)+"12")))},
		"a user whose name is cut off":    {"10.0.0.1:5", strings.Replace(namespaced, `"namespace":"team",`, "", 1)[:strings.Index(namespaced, "alice")-len(`"namespace":"team",`)+3], "10.0.0.1 user "},
		"another address":                 {"elsewhere", namespaced, "elsewhere namespace team"},
		"a name that is too long":         {"10.0.0.1:5", strings.Replace(namespaced, "team", strings.Repeat("t", maxIdentity+1), 1), "10.0.0.1 user alice"},
		"no uid":                          {"10.0.0.1:5", strings.Replace(namespaced, `"uid":"1",`, "", 1), ""},
		"no request":                      {"10.0.0.1:5", `{"kind":"AdmissionReview"}`, ""},
		"a request that is not an object": {"10.0.0.1:5", `{"request":[{"uid":"1"}]}`, ""},
		"no JSON":                         {"10.0.0.1:5", `request uid`, ""},
		"nothing":                         {"10.0.0.1:5", ``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			head := headOf([]byte(c.body))
			if head == nil {
				if c.want != "" {
					t.Error("there is no head")
				}
				return
			}
			if got := holderOf(c.peer, head); got != c.want || head.UID != "1" || head.Operation != admissionv1.Delete && c.want != "" {
				t.Errorf("holder %q, %+v", got, head)
			}
		})
	}
}

// FuzzHead holds that a head is what decoding the whole body finds, or that the request is rejected.
func FuzzHead(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"kind":"VirtualMachine"},"namespace":"a","operation":"CREATE","namespace":"b"}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1"},"request":{"uid":"2"}}`))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"\u0075id":"1","namespace":"\ud800"}}`))
	v, err := NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, func() platform.CacheStats { return platform.CacheStats{} }, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var evaluated *admissionv1.AdmissionRequest
		m := NewMutator(Mutator{Metrics: v, Clock: clock.RealClock{}, Log: logr.Discard()})
		m.answer = func(_ context.Context, r *review) (*admissionv1.AdmissionResponse, string) {
			evaluated = r.request
			return &admissionv1.AdmissionResponse{Allowed: true}, verdictIgnored
		}
		head := headOf(body)
		if _, err := m.Review(t.Context(), body); (err == nil) != (head != nil) {
			t.Fatalf("head %+v, error %v", head, err)
		}
		if evaluated != nil && (head == nil || !sameRequest(head, evaluated)) {
			t.Fatalf("head %+v, request %+v", head, evaluated)
		}
	})
}

// failing is a source of references that returns only errors.
type failing struct{ err error }

func (f failing) Get(context.Context, schema.GroupVersionKind, string, string) (*unstructured.Unstructured, error) {
	return nil, f.err
}

func (f failing) List(context.Context, schema.GroupVersionKind, string) ([]*unstructured.Unstructured, error) {
	return nil, f.err
}
