package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/corpus"
)

// asWritten are the reviews that the mutating webhook gets.
func asWritten(tb testing.TB) []corpus.Sample { return samplesOf(tb, nil) }

// asArrived are the reviews that the validating webhook gets.
func asArrived(tb testing.TB) []corpus.Sample { return samplesOf(tb, pipeline(tb)) }

func samplesOf(tb testing.TB, pipeline *effective.Pipeline) []corpus.Sample {
	tb.Helper()
	var completed corpus.Completed
	if pipeline != nil {
		completed = func(vm *v1.VirtualMachine, vmi *v1.VirtualMachineInstance) (*v1.VirtualMachine, *v1.VirtualMachineInstance, error) {
			verdict, err := pipeline.Complete(effective.Input{VM: vm, VMI: vmi, Facts: platform.Defaults(platform.Settings{})})
			if err != nil {
				return nil, nil, err
			}
			return verdict.VM, verdict.VMI, nil
		}
	}
	samples, err := corpus.Samples(completed)
	if err != nil {
		tb.Fatal(err)
	}
	return samples
}

func corpusObjects(tb testing.TB) references.Objects {
	tb.Helper()
	objects, err := corpus.Objects()
	if err != nil {
		tb.Fatal(err)
	}
	memory, err := references.NewMemory("default", objects...)
	if err != nil {
		tb.Fatal(err)
	}
	return memory
}

// BenchmarkDecodeCorpus is the floor of the requests: the typed objects of the corpus out of their bytes.
func BenchmarkDecodeCorpus(b *testing.B) {
	samples := asWritten(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if err := samples[i%len(samples)].Decode(); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkMutateCorpus are requests to complete the objects of the corpus: the bytes of a review in, the bytes of the
// answer out. x-decode is the CPU time of each, garbage collection
// included, relative to the bare decode of the same objects.
func BenchmarkMutateCorpus(b *testing.B) {
	m := mutator(b)
	m.Evaluator.References = corpusObjects(b)
	benchmarkCorpus(b, asWritten(b), m.Review, func(response *admissionv1.AdmissionResponse) bool {
		return response.Allowed && len(response.Patch) > 0 && len(response.Warnings) == 0
	})
}

// BenchmarkValidateCorpus are requests to check the same objects as they arrive from the mutating webhooks.
func BenchmarkValidateCorpus(b *testing.B) {
	v := validator(b)
	v.Evaluator.References = corpusObjects(b)
	benchmarkCorpus(b, asArrived(b), v.Review, func(response *admissionv1.AdmissionResponse) bool {
		return response.Allowed && len(response.Warnings) == 0
	})
}

// benchmarkCorpus sends every review in turn. The first answers are held against what is right, all others against
// the first: the same review gets the same answer.
func benchmarkCorpus(b *testing.B, samples []corpus.Sample, review func(context.Context, []byte) ([]byte, error), right func(*admissionv1.AdmissionResponse) bool) {
	b.Helper()
	ctx := context.Background()
	want := make([][]byte, len(samples))
	for i := range samples {
		var answer admissionv1.AdmissionReview
		var err error
		if want[i], err = review(ctx, samples[i].Review); err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(want[i], &answer); err != nil || !right(answer.Response) {
			b.Fatalf("%s %s: %v: %s", samples[i].Kind, samples[i].Name, err, want[i])
		}
	}
	var floor, spent time.Duration
	b.ReportAllocs()
	i, passes := 0, 0
	began := cpuTime(b)
	for b.Loop() {
		s := i % len(samples)
		answer, err := review(ctx, samples[s].Review)
		if err != nil || !bytes.Equal(answer, want[s]) {
			b.Fatalf("%s %s: %v: %s, and before it was %s", samples[s].Kind, samples[s].Name, err, answer, want[s])
		}
		if i++; i%len(samples) == 0 { // what disturbs the one disturbs the other: they take turns
			b.StopTimer()
			decoding := cpuTime(b)
			decodeAll(b, samples)
			ended := cpuTime(b)
			spent, floor = spent+decoding-began, floor+ended-decoding
			passes++
			began = ended
			b.StartTimer()
		}
	}
	if passes > 0 {
		b.ReportMetric(float64(spent)/float64(floor), "x-decode")
		b.ReportMetric(float64(spent.Nanoseconds())/float64(passes*len(samples)), "cpu-ns/op")
	}
}

// decodeAll is the bare decode of all samples.
func decodeAll(b *testing.B, samples []corpus.Sample) {
	b.Helper()
	for i := range samples {
		if err := samples[i].Decode(); err != nil {
			b.Fatal(err)
		}
	}
}

// cpuTime returns the CPU time of the process. Other processes do not change it.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
