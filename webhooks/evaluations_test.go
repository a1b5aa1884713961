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
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/platform"
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
// waits until its timeout.
func TestEvaluationsShareMemory(t *testing.T) {
	v := newValidator(t)
	e := v.evaluations
	const large, small = 1 << 20, 2 << 10
	var release []func()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		done, err := e.begin(ctx, large)
		cancel()
		if err != nil {
			if !errors.Is(err, errNoMemory) {
				t.Fatal(err)
			}
			break
		}
		release = append(release, done)
	}
	if len(release) == 0 || testutil.ToFloat64(e.metrics.rejected) != 1 || testutil.ToFloat64(e.metrics.waiting) != 0 {
		t.Errorf("%d large evaluations got memory, %v were rejected", len(release), testutil.ToFloat64(e.metrics.rejected))
	}
	if held := testutil.ToFloat64(e.metrics.evaluating); held > EvaluationMemory || held < largeMemory/2 {
		t.Errorf("they hold %v bytes", held)
	}
	done, err := e.begin(t.Context(), small)
	if err != nil {
		t.Fatalf("a small evaluation gets no memory: %v", err)
	}
	done()
	for _, done := range release {
		done()
	}
	if held := testutil.ToFloat64(e.metrics.evaluating); held != 0 {
		t.Errorf("%v bytes were not released", held)
	}
	if done, err = e.begin(t.Context(), large); err != nil {
		t.Fatalf("there is no memory although all was released: %v", err)
	}
	done()
}

// TestEvaluationWithoutMemoryFails verifies that a request without memory is answered with 503.
func TestEvaluationWithoutMemoryFails(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"))
	for v.evaluations.small.TryAcquire(1 << 20) {
	}
	for v.evaluations.large.TryAcquire(1 << 20) {
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	answer, err := v.Review(ctx, reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory("9Gi")).Obj()))
	if err != nil || !strings.Contains(string(answer), `"code":503`) || !strings.Contains(string(answer), "try again: too many policies are being evaluated at once") {
		t.Errorf("answer %s, %v", answer, err)
	}
}

// TestEvaluationAfterTheTimeoutFails verifies that a late evaluation is answered with 503.
func TestEvaluationAfterTheTimeoutFails(t *testing.T) {
	v := newValidator(t)
	under(t, v, fmt.Sprintf(memoryCap, "Deny", "8Gi"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer, err := v.Review(ctx, reviewOf(t, apikinds.VirtualMachine, build.VMOf(build.VMI("db").Memory("9Gi")).Obj()))
	busy := errors.Is(err, platform.ErrBusy) // there was no memory to decode it
	if !busy && (err != nil || !strings.Contains(string(answer), `"code":503`) || !strings.Contains(string(answer), "the evaluation took longer than the API server's timeout")) {
		t.Errorf("answer %s, %v", answer, err)
	}
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
		response, _ := v.respond(ctx, request)
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
