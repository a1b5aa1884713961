package bench

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/hypervisors"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/validators"
	"github.com/virtward/virtward/webhooks"
)

// complete is a VMI as it comes out of the mutating webhooks.
func complete(tb testing.TB, vmi *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	tb.Helper()
	verdict, err := pipeline(tb).Complete(effective.Input{VMI: vmi, Facts: platform.Defaults(platform.Settings{})})
	if err != nil {
		tb.Fatal(err)
	}
	return verdict.VMI
}

// subject returns a new subject for the rules, as each request has.
func subject(facts *platform.Facts, vmi *v1.VirtualMachineInstance) *validators.Subject {
	return &validators.Subject{
		Facts: facts, Spec: &vmi.Spec, Path: field.NewPath("spec"),
		Meta: &vmi.ObjectMeta, MetaPath: field.NewPath("metadata"), VMI: vmi,
	}
}

// rules returns the rules for a VMI on kvm and amd64.
func rules(tb testing.TB) validators.Table {
	tb.Helper()
	registry, err := hypervisors.NewRegistry(hypervisors.BuiltIn()...)
	if err != nil {
		tb.Fatal(err)
	}
	validator, err := registry.Validator(platform.KVM, architectures.AMD64)
	if err != nil {
		tb.Fatal(err)
	}
	return validator.Rules()
}

// BenchmarkCheck runs all rules on a complete and valid VMI.
func BenchmarkCheck(b *testing.B) {
	benchmarkCheck(b, rules(b))
}

func benchmarkCheck(b *testing.B, table validators.Table) {
	b.Helper()
	facts, vmi := platform.Defaults(platform.Settings{}), complete(b, build.Typical("db").Obj())
	b.ReportAllocs()
	for b.Loop() {
		if findings := table.Check(subject(facts, vmi), validators.OnSpec|validators.OnVMI); len(findings) != 0 {
			b.Fatal(findings)
		}
	}
}

// BenchmarkCheckTwiceTheRules is BenchmarkCheck with every rule there twice.
func BenchmarkCheckTwiceTheRules(b *testing.B) {
	table := rules(b)
	benchmarkCheck(b, append(slices.Clip(table), table...))
}

// BenchmarkEvaluateVM is the pure pipeline for a VM: complete, check, verdict.
func BenchmarkEvaluateVM(b *testing.B) {
	p, facts, vm := pipeline(b), platform.Defaults(platform.Settings{}), build.VMOf(build.Typical("db")).Obj()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Decide(effective.Input{VM: vm, Facts: facts}); err != nil {
			b.Fatal(err)
		}
	}
}

func validator(tb testing.TB) *webhooks.Validator {
	tb.Helper()
	facts := platform.Defaults(platform.Settings{})
	objects, err := references.NewMemory("default")
	if err != nil {
		tb.Fatal(err)
	}
	metrics, err := webhooks.NewMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }, func() time.Time { return time.Time{} }, func() platform.CacheStats { return platform.CacheStats{} }, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return webhooks.NewValidator(webhooks.Validator{
		Evaluator: evaluator.New(pipeline(tb), objects, &evaluator.Live{GetFacts: func() *platform.Facts { return facts }}), Rules: rules(tb),
		Metrics: metrics, Log: logr.Discard(), Clock: clock.RealClock{},
	})
}

// typicalComplete is typicalVMI after the mutating webhooks.
func typicalComplete(tb testing.TB) []byte {
	tb.Helper()
	vmi := &v1.VirtualMachineInstance{}
	if err := json.Unmarshal(typicalVMI(tb), vmi); err != nil {
		tb.Fatal(err)
	}
	data, err := json.Marshal(complete(tb, vmi))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// BenchmarkValidateRequest is one admission request for a VMI that is valid: the bytes of the review in, the
// bytes of the answer out.
func BenchmarkValidateRequest(b *testing.B) {
	benchmarkValidate(b, typicalComplete(b), true)
}

// BenchmarkValidateRejection is a request with a hundred faults.
func BenchmarkValidateRejection(b *testing.B) {
	vmi := build.VMI("bad").Architecture(architectures.ARM64)
	for i := range 100 {
		vmi.Disk("v"+strconv.Itoa(i), v1.DiskBusSATA)
	}
	data, err := json.Marshal(complete(b, vmi.Obj()))
	if err != nil {
		b.Fatal(err)
	}
	benchmarkValidate(b, data, false)
}

func benchmarkValidate(b *testing.B, object []byte, allowed bool) {
	b.Helper()
	v, data := validator(b), review(b, object)
	var answer struct{ Response struct{ Allowed bool } }
	if first, err := v.Review(context.Background(), data); err != nil || json.Unmarshal(first, &answer) != nil || answer.Response.Allowed != allowed {
		b.Fatalf("allowed %v, %v: %s", answer.Response.Allowed, err, first)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Review(context.Background(), data); err != nil {
			b.Fatal(err)
		}
	}
}

// live returns the sources of an evaluator of these benchmarks.
func live(e *evaluator.Evaluator) *evaluator.Live {
	return e.Configuration.(*evaluator.Live)
}
