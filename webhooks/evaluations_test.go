package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/test/build"
)

// TestEvaluationMemoryFitsIntoTheMemoryLimit compares the memory bounds of requests with the chart's limit.
func TestEvaluationMemoryFitsIntoTheMemoryLimit(t *testing.T) {
	if most := policies.MaxMemory; most > largeMemory {
		t.Errorf("one evaluation may take %d bytes, and there are %d for all large ones", most, largeMemory)
	}
	if typical := policies.Memory(10 << 10); typical > smallEvaluation || smallMemory/typical < 2 {
		t.Errorf("an evaluation of 10 KiB takes %d bytes, where %d are small, and %d for all of them", typical, smallEvaluation, smallMemory)
	}
	data, err := os.ReadFile(filepath.Join("..", "charts", "virtward", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Resources struct {
			Limits map[string]string `json:"limits"`
		} `json:"resources"`
	}
	if err := yaml.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	limit := resource.MustParse(values.Resources.Limits["memory"])
	if half := limit.Value() / 2; EvaluationMemory+RequestMemory > half {
		t.Errorf("evaluations and requests may take %d bytes, more than half of the limit of the chart, %s", EvaluationMemory+RequestMemory, limit.String())
	}
}

// TestEvaluationsShareMemory fills the memory with large evaluations. Small ones still get some, and another large one
// waits until its time ends.
func TestEvaluationsShareMemory(t *testing.T) {
	limits := NewLimits()
	begin := func(object int) (func(), error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, done, err := limits.evaluate(ctx, "team", object, 0)
		return done, err
	}
	const large, small = 1 << 20, 2 << 10
	var release []func()
	for {
		done, err := begin(large)
		if err != nil {
			if !errors.Is(err, memory.ErrBusy) {
				t.Fatal(err)
			}
			break
		}
		release = append(release, done)
	}
	if len(release) == 0 {
		t.Error("no large evaluation gets memory")
	}
	done, err := begin(small)
	if err != nil {
		t.Fatalf("a small evaluation gets no memory: %v", err)
	}
	done()
	for _, done := range release {
		done()
	}
	if done, err = begin(large); err != nil {
		t.Fatalf("there is no memory although all was released: %v", err)
	}
	done()
}

// TestEvaluationWithoutMemoryFails verifies that a request without memory is answered with 429, that one of another namespace
// is evaluated, and that nothing is held or counted afterwards.
func TestEvaluationWithoutMemoryFails(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"))
	evaluate := func(namespace string) string {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		answer, err := v.Review(ctx, reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory("9Gi")).Obj(), func(r *admissionv1.AdmissionRequest) { r.Namespace = namespace }))
		if err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	for name, limit := range map[string]*memory.Shares{"memory": v.Limits.evaluations.Small, "turns": v.Limits.turns} {
		t.Run(name, func(t *testing.T) {
			greedy, err := limit.Acquire(t.Context(), " namespace greedy", limit.Total())
			if err != nil {
				t.Fatal(err)
			}
			if limit == v.Limits.evaluations.Small { // small requests also use what large ones leave
				large, err := v.Limits.evaluations.Large.Acquire(t.Context(), " namespace greedy", largeMemory)
				if err != nil {
					t.Fatal(err)
				}
				defer large()
			}
			before := testutil.ToFloat64(v.Metrics.rejected)
			if answer := evaluate("greedy"); !strings.Contains(answer, `"code":429`) || !strings.Contains(answer, `"retryAfterSeconds":1`) || !strings.Contains(answer, "try again: virtward is busy with other requests, many of them of") {
				t.Errorf("answer %s", answer)
			}
			if after := testutil.ToFloat64(v.Metrics.rejected); after != before+1 {
				t.Errorf("%v were rejected, %v before", after, before)
			}
			if answer := evaluate("other"); !strings.Contains(answer, `"code":422`) {
				t.Errorf("another namespace: %s", answer)
			}
			greedy()
			if answer := evaluate("greedy"); !strings.Contains(answer, `"code":422`) {
				t.Errorf("afterwards: %s", answer)
			}
		})
	}
	if waiting, held := testutil.ToFloat64(v.Metrics.waiting), testutil.ToFloat64(v.Metrics.evaluating); waiting != 0 || held != 0 {
		t.Errorf("%v wait, %v bytes are held", waiting, held)
	}
}

// TestEvaluationAfterTheTimeoutFails verifies that an evaluation whose denying policies are late is answered with 429.
func TestEvaluationAfterTheTimeoutFails(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer, err := v.Review(ctx, reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory("9Gi")).Obj()))
	if err != nil || !strings.Contains(string(answer), `"code":429`) || !strings.Contains(string(answer), "try again") {
		t.Errorf("answer %s, %v", answer, err)
	}
}

// TestCompleteVerdictsAreAnswered has a deadline that passes after the policies that deny: the verdict is answered, and the others
// are skipped.
func TestCompleteVerdictsAreAnswered(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"), fmt.Sprintf(memoryCap, "Audit", "8Gi"), "{enforcement: Warn, rego: {module: \"package c\\ndeny contains \\\"endless\\\" if { some a in numbers.range(1, 500); some b in numbers.range(1, 500); a * b < 0 }\"}}")
	for memory, want := range map[string]string{"4Gi": "true ", "9Gi": "false "} {
		ctx, cancel := context.WithCancel(t.Context())
		request, err := decodeReview(reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory(memory)).Obj()))
		if err != nil {
			t.Fatal(err)
		}
		// The deadline passes when the first policy that does not deny begins.
		v.Metrics.skipped.Reset()
		deadline := &endingContext{Context: ctx, cancel: cancel, after: 1}
		response, _ := v.respond(deadline, reviewFor(v, request))
		if got := fmt.Sprint(response.Allowed, " ", response.AuditAnnotations["policies-skipped"]); got != want+"policy/b,policy/c" {
			t.Errorf("%s: %s, %+v", memory, got, response.Result)
		}
		cancel()
	}
}

// endingContext is a context that ends after a number of calls of Err.
type endingContext struct {
	context.Context

	cancel func()
	after  int
	asked  int
}

func (e *endingContext) Err() error {
	if e.asked++; e.asked > e.after {
		e.cancel()
	}
	return e.Context.Err()
}

// reviewFor is a request as the handler of a Validator passes it.
func reviewFor(v *Validator, request *admissionv1.AdmissionRequest) *review {
	return &review{request: request, holder: holderOf("", request), limits: v.Limits, waits: time.Now().Add(time.Minute)}
}

// slow is a clock whose first reading is in the past.
type slow struct {
	clock.RealClock

	ago time.Duration
}

func (s *slow) Now() time.Time {
	then := time.Now().Add(-s.ago)
	s.ago = 0
	return then
}

// TestNonDenyingPoliciesAreSkippedAfterHalfOfTheTimeout verifies that denying policies are evaluated, and that a warning,
// an annotation and a metric report the skipped ones.
func TestNonDenyingPoliciesAreSkippedAfterHalfOfTheTimeout(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Warn", "8Gi"), fmt.Sprintf(memoryCap, "Audit", "8Gi"), fmt.Sprintf(memoryCap, "Deny", "16Gi"))
	ctx, cancel := context.WithDeadline(t.Context(), v.Clock.Now().Add(time.Hour))
	defer cancel()
	evaluate := func(memory string, ago time.Duration) (string, string) {
		request, err := decodeReview(reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory(memory)).Obj()))
		if err != nil {
			t.Fatal(err)
		}
		v.Clock = &slow{ago: ago}
		response, _ := v.respond(ctx, reviewFor(v, request))
		return fmt.Sprint(response.Allowed, response.Warnings), response.AuditAnnotations["policies-skipped"]
	}
	for _, tc := range []struct {
		memory  string
		ago     time.Duration
		want    string
		skipped string
	}{
		{"9Gi", 0, "true [spec.template.spec.domain.memory.guest: Invalid value: \"9Gi\": at most 8Gi [virtward/policy/a] Choose less.]", ""},
		{"9Gi", 2 * time.Hour, "true [2 policies that warn or audit were skipped: there was no time for them, or the cost budget that they share is exhausted]", "policy/a,policy/b"},
		{"17Gi", 2 * time.Hour, "false [2 policies that warn or audit were skipped: there was no time for them, or the cost budget that they share is exhausted]", "policy/a,policy/b"},
	} {
		if got, skipped := evaluate(tc.memory, tc.ago); got != tc.want || skipped != tc.skipped {
			t.Errorf("%s: %s, skipped %q, want %s, %q", tc.memory, got, skipped, tc.want, tc.skipped)
		}
	}
	if n := testutil.ToFloat64(v.Metrics.skipped.WithLabelValues("a")); n != 2 {
		t.Errorf("policy a was counted as skipped %v times", n)
	}
}

func TestTimeoutOf(t *testing.T) {
	for query, want := range map[string]time.Duration{"": defaultTimeout, "?timeout=3s": 3 * time.Second, "?timeout=-1s": defaultTimeout, "?timeout=soon": defaultTimeout, "?timeout=900h": maxTimeout} {
		if got := timeoutOf(httptest.NewRequest(http.MethodPost, "/validate"+query, nil)); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// TestVerdictsDoNotDependOnLoad evaluates the same objects under load and during garbage collections. Some of them are at
// the limits of a policy.
func TestVerdictsDoNotDependOnLoad(t *testing.T) {
	v := newValidator(t)
	under(t, v,
		fmt.Sprintf(memoryCap, "Deny", "8Gi"),
		"{enforcement: Deny, rego: {module: \"package b\\ndeny contains \\\"no\\\" if yaml.is_valid(input.vm.metadata.annotations.text)\"}}",
		"{enforcement: Warn, rego: {module: \"package c\\ndeny contains \\\"endless\\\" if { some a in numbers.range(1, 900); some b in numbers.range(1, 900); a * b < 0 }\"}}",
		"{enforcement: Deny, validations: [{expression: \"vm.metadata.annotations['text'].split('').size() < 100000\", message: long, fieldPath: metadata.annotations}]}",
	)
	bodies := [][]byte{}
	for _, size := range []int{10, 5_000, 8_000, 20_000, 60_000, 900_000} {
		vm := build.VMOf(build.VMI("db").Memory("9Gi")).Obj()
		vm.Spec.Template.ObjectMeta.Annotations = map[string]string{"text": strings.Repeat("a: 1\n", size/5)}
		bodies = append(bodies, reviewOf(t, apikinds.VirtualMachine, vm))
	}
	evaluate := func() string {
		var all strings.Builder
		for _, body := range bodies {
			answer, err := v.Review(t.Context(), body)
			fmt.Fprintf(&all, "%s %v\n", answer, err)
		}
		return all.String()
	}
	want := evaluate()
	if !strings.Contains(want, "bytes of memory") {
		t.Fatalf("no policy reaches a limit: %.2000s", want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		load.Go(func() {
			for ctx.Err() == nil {
				runtime.GC()
			}
		})
	}
	for range 3 {
		if got := evaluate(); got != want {
			t.Errorf("under load: %.2000s\nwant %.2000s", got, want)
		}
	}
	cancel()
	load.Wait()
}
