package webhooks

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/test/build"
)

// deletionPolicy is a policy for deletions, with its enforcement and its failurePolicy.
const deletionPolicy = `{enforcement: %s, failurePolicy: %s, match: {kinds: [VirtualMachine], operations: [DELETE]}, validations: [{expression: "!has(oldObject.metadata.labels)", message: it is kept}]}`

// kept is a VM with a label.
func kept(value string) *v1.VirtualMachine {
	vm := build.VM("db").Obj()
	vm.Labels = map[string]string{"kept": value}
	return vm
}

// deletes makes a review one of the deletion of its object.
func deletes(r *admissionv1.AdmissionRequest) {
	r.Operation, r.OldObject, r.Object = admissionv1.Delete, r.Object, runtime.RawExtension{}
}

// respondTo sends a body to a handler, and returns the response in the review that answers it.
func respondTo(t *testing.T, h http.Handler, body io.Reader, length int64) *admissionv1.AdmissionResponse {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/?timeout=300ms", body)
	request.ContentLength = length
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &review); w.Code != http.StatusOK || err != nil {
		t.Fatalf("%d %s: an HTTP error is a failed call, which is admitted if the webhook fails open", w.Code, w.Body)
	}
	return review.Response
}

// TestUnevaluated holds that requests which are not evaluated are answered inside of the review, as the webhook and the policies
// say.
func TestUnevaluated(t *testing.T) {
	const (
		busy        = http.StatusTooManyRequests
		unavailable = http.StatusServiceUnavailable
	)
	vm := kept("true")
	create := reviewOf(t, apikinds.VirtualMachine, vm)
	deletion := reviewOf(t, apikinds.VirtualMachine, vm, deletes)
	kubevirt := reviewOf(t, apikinds.KubeVirt, json.RawMessage(`{}`))
	old := []byte("admission.k8s.io/v1")
	for name, c := range map[string]struct {
		// with changes the Validator and the Mutator before the request; body changes the review.
		with func(*Validator, *Mutator)
		body func([]byte) (io.Reader, int64)
		// want is the code of a response that denies, and retry whether clients repeat the request.
		want  int32
		retry bool
	}{
		"no memory": {with: func(v *Validator, _ *Mutator) { fill(t, v.Limits); fill(t, v.Deletions.(*handler).limits) }, want: busy, retry: true},
		"a panic": {with: func(v *Validator, m *Mutator) {
			live(v.Evaluator).GetFacts = func() *platform.Facts { panic("boom") }
			live(m.Evaluator).GetFacts = live(v.Evaluator).GetFacts
		}, want: unavailable, retry: true},
		"another version": {body: func(b []byte) (io.Reader, int64) {
			b = bytes.Replace(b, old, append(old, "beta1"...), 1)
			return bytes.NewReader(b), int64(len(b))
		}, want: http.StatusBadRequest},
		"twice": {body: func(b []byte) (io.Reader, int64) {
			b = bytes.Replace(b, []byte(`"request":{`), []byte(`"request":{"namespace":"elsewhere",`), 1)
			return bytes.NewReader(b), int64(len(b))
		}, want: http.StatusBadRequest},
		"too large":   {body: func(b []byte) (io.Reader, int64) { return padded(b, maxReview+1), maxReview + 1 }, want: http.StatusRequestEntityTooLarge},
		"without end": {body: func(b []byte) (io.Reader, int64) { return padded(b, 3*maxReview), -1 }, want: http.StatusRequestEntityTooLarge},
		"not completed": {body: func(b []byte) (io.Reader, int64) {
			return io.MultiReader(padded(b, 20_000), iotest.ErrReader(errors.New("timeout"))), 30_000
		}, want: busy, retry: true},
		"a broken head": {body: func(b []byte) (io.Reader, int64) {
			return io.MultiReader(bytes.NewReader(b[:len(b)-10]), iotest.ErrReader(errors.New("timeout"))), int64(len(b))
		}, want: busy, retry: true},
	} {
		t.Run(name, func(t *testing.T) {
			for webhook, w := range map[string]struct {
				body   []byte
				policy string
				serve  func(*Validator, *Mutator) http.Handler
				admits bool
			}{
				"mutate":                        {body: create, admits: true, serve: func(_ *Validator, m *Mutator) http.Handler { return m }},
				"validate":                      {body: create, serve: func(v *Validator, _ *Mutator) http.Handler { return v }},
				"validate KubeVirt":             {body: kubevirt, admits: true, serve: func(v *Validator, _ *Mutator) http.Handler { return v }},
				"deletions":                     {body: deletion, policy: fmt.Sprintf(deletionPolicy, "Deny", "Fail"), serve: func(v *Validator, _ *Mutator) http.Handler { return v.Deletions }},
				"deletions that may fail open":  {body: deletion, policy: fmt.Sprintf(deletionPolicy, "Deny", "Ignore"), admits: true, serve: func(v *Validator, _ *Mutator) http.Handler { return v.Deletions }},
				"deletions that are not denied": {body: deletion, policy: fmt.Sprintf(deletionPolicy, "Warn", "Fail"), admits: true, serve: func(v *Validator, _ *Mutator) http.Handler { return v.Deletions }},
			} {
				v, m := newValidator(t), newMutator(t)
				m.Limits, m.limits = v.Limits, v.Limits
				if w.policy != "" {
					under(t, v, w.policy)
				}
				if c.with != nil {
					c.with(v, m)
				}
				body, length := io.Reader(bytes.NewReader(w.body)), int64(len(w.body))
				if c.body != nil {
					body, length = c.body(w.body)
				}
				response := respondTo(t, w.serve(v, m), body, length)
				if response.UID == "" {
					t.Errorf("%s: without a uid, the API server takes it for a failed call", webhook)
				}
				if name == "a panic" && webhook == "validate KubeVirt" { // it reads no facts
					continue
				}
				if w.admits {
					if !response.Allowed || len(response.Warnings) != 1 || !strings.HasPrefix(response.Warnings[0], "virtward did not c") {
						t.Errorf("%s: %+v", webhook, response)
					}
					continue
				}
				if response.Allowed || response.Result.Code != c.want || (response.Result.Details != nil && response.Result.Details.RetryAfterSeconds == 1) != c.retry {
					t.Errorf("%s: %+v, want %d", webhook, response.Result, c.want)
				}
			}
		})
	}
}

// padded is a review with so many bytes.
func padded(body []byte, size int) io.Reader {
	return io.MultiReader(bytes.NewReader(body), bytes.NewReader(bytes.Repeat([]byte(" "), size-len(body))))
}

// TestBusyMutator holds that a mutator which is busy says so, also where a later webhook or guard would deny the request with another
// reason: an instance without its defaults, a rollout or an exception without its author, and a copy by KubeVirt with the
// annotations of a template. It admits other requests with a warning.
func TestBusyMutator(t *testing.T) {
	const kubevirt = "system:serviceaccount:kubevirt:kubevirt-controller"
	vmi := reviewOf(t, apikinds.VirtualMachineInstance, build.VMI("db").Obj())
	of := func(kind string, change ...func(*admissionv1.AdmissionRequest)) []byte {
		return reviewOf(t, kind, json.RawMessage(`{"metadata":{"name":"a"},"spec":{}}`), change...)
	}
	in := func(group string, operation admissionv1.Operation) func(*admissionv1.AdmissionRequest) {
		return func(r *admissionv1.AdmissionRequest) { r.Kind.Group, r.Operation = group, operation }
	}
	for name, c := range map[string]struct {
		body   []byte
		denied bool
	}{
		"an instance":                      {vmi, true},
		"an update of an instance":         {of(apikinds.VirtualMachineInstance, in("kubevirt.io", admissionv1.Update)), false},
		"a rollout":                        {of(rolloutKind.Kind, in(rolloutKind.Group, admissionv1.Create)), true},
		"an update of a rollout":           {of(rolloutKind.Kind, in(rolloutKind.Group, admissionv1.Update)), true},
		"a status of a rollout":            {of(rolloutKind.Kind, in(rolloutKind.Group, admissionv1.Update), func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }), false},
		"an exception":                     {of(exceptionKind.Kind, in(exceptionKind.Group, admissionv1.Create)), true},
		"a virtual machine":                {of(apikinds.VirtualMachine, by("alice")), false},
		"a virtual machine of KubeVirt":    {of(apikinds.VirtualMachine, by(kubevirt)), true},
		"of an account with the same name": {of(apikinds.VirtualMachine, by("system:serviceaccount:shop:kubevirt-controller")), false},
		"a kind that is not completed":     {of("VirtualMachineInstanceMigration"), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMutator(t)
			fill(t, m.limits)
			response := respondTo(t, m, bytes.NewReader(c.body), int64(len(c.body)))
			if !c.denied {
				if !response.Allowed || len(response.Warnings) != 1 || !strings.HasPrefix(response.Warnings[0], "virtward did not complete this object: virtward is busy") {
					t.Errorf("%+v", response)
				}
				return
			}
			if response.Allowed || response.Result.Code != http.StatusTooManyRequests || response.Result.Details.RetryAfterSeconds != 1 ||
				!strings.HasPrefix(response.Result.Message, "virtward could not complete this object, try again: virtward is busy") {
				t.Errorf("%+v", response)
			}
		})
	}
}

// fill takes all memory of decoded objects, for other requests.
func fill(t *testing.T, l *Limits) {
	t.Helper()
	for _, shares := range []*memory.Shares{l.decoded.Small, l.decoded.Large} {
		if shares == nil {
			continue
		}
		for _, holder := range []string{"a", "b"} {
			if _, err := shares.Acquire(t.Context(), holder, shares.Total()/2); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDeletionsAreAnsweredInTime verifies that a deletion is answered although its evaluation does not end, that the evaluation
// keeps its memory, and that other deletions are evaluated meanwhile.
func TestDeletionsAreAnsweredInTime(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(deletionPolicy, "Deny", "Fail"))
	deletions, release, first := v.Deletions.(*handler), make(chan struct{}), true
	evaluate := deletions.answer
	deletions.answer = func(ctx context.Context, r *review) (*admissionv1.AdmissionResponse, string) {
		if first {
			first = false
			<-release
		}
		return evaluate(ctx, r)
	}
	body := reviewOf(t, apikinds.VirtualMachine, kept("true"), deletes)
	response := respondTo(t, v.Deletions, bytes.NewReader(body), int64(len(body)))
	if response.Allowed || response.Result.Code != http.StatusTooManyRequests || response.UID == "" {
		t.Errorf("%+v", response)
	}
	if response = respondTo(t, v.Deletions, bytes.NewReader(body), int64(len(body))); response.Allowed || response.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("the next one: %+v", response.Result)
	}
	close(release)
}

// TestDeletionsDoNotWaitForOthers verifies that deletions are evaluated although other requests have all memory and all
// turns, and that they are admitted by their head if no policy names them.
func TestDeletionsDoNotWaitForOthers(t *testing.T) {
	v := newValidator(t)
	body := reviewOf(t, apikinds.VirtualMachine, kept("true"), deletes)
	fill(t, v.Limits)
	for _, shares := range []*memory.Shares{v.Limits.turns, v.Limits.evaluations.Small} {
		for _, holder := range []string{"a", "b"} {
			if _, err := shares.Acquire(t.Context(), holder, shares.Total()/2); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, h := range []http.Handler{v, v.Deletions} {
		if response := respondTo(t, h, padded(body, 2*maxReview), 2*maxReview); !response.Allowed {
			t.Errorf("without a policy: %+v", response.Result)
		}
	}
	if n := testutil.ToFloat64(v.Metrics.requests.WithLabelValues("validate", apikinds.VirtualMachine, "DELETE", verdictIgnored)); n != 2 {
		t.Errorf("%v are counted as ignored", n)
	}
	under(t, v, fmt.Sprintf(deletionPolicy, "Deny", "Fail"))
	if response := respondTo(t, v.Deletions, bytes.NewReader(body), int64(len(body))); response.Allowed || response.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("%+v", response.Result)
	}
	if response := respondTo(t, v, bytes.NewReader(body), int64(len(body))); response.Allowed || response.Result.Code != http.StatusTooManyRequests {
		t.Errorf("the memory of the others is not taken: %+v", response.Result)
	}
	large := reviewOf(t, apikinds.VirtualMachine, kept(strings.Repeat("x", 2*largeBody)), deletes)
	if response := respondTo(t, v.Deletions, bytes.NewReader(large), int64(len(large))); response.Allowed || response.Result.Code != http.StatusTooManyRequests {
		t.Errorf("a large one, for which no memory is reserved: %+v", response.Result)
	}
}

// TestSlowBodies sends the head of a review, and nothing more: it is answered when the patience ends, on a real connection.
func TestSlowBodies(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(deletionPolicy, "Deny", "Fail"))
	server := httptest.NewServer(v.Deletions)
	defer server.Close()
	body := reviewOf(t, apikinds.VirtualMachine, build.VM("db").Obj(), deletes)
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	_, _ = fmt.Fprintf(c, "POST /?timeout=300ms HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n%s", body)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil || review.Response.Allowed || review.Response.Result.Reason != metav1.StatusReasonTooManyRequests {
		t.Errorf("%v %+v", err, review.Response)
	}
}
