package bench

import (
	"context"
	"encoding/json"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/library"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/corpus"
)

// ratios are the requests whose CPU time is compared with that of a floor.
var ratios = []struct {
	name    string
	prepare func(*testing.B) (request, floor func() error)
}{
	{"MutateCorpus", func(b *testing.B) (request, floor func() error) {
		m := mutator(b)
		m.Evaluator.References = corpusObjects(b)
		return ofCorpus(asWritten(b), m.Review)
	}},
	{"ValidateCorpus", func(b *testing.B) (request, floor func() error) {
		v := validator(b)
		v.Evaluator.References = corpusObjects(b)
		return ofCorpus(asArrived(b), v.Review)
	}},
	{"MutateRequest", func(b *testing.B) (request, floor func() error) {
		m, data := mutator(b), review(b, typicalVMI(b))
		return func() error { _, err := m.Review(context.Background(), data); return err }, decodeTypical(b)
	}},
	{"ValidateRequest", func(b *testing.B) (request, floor func() error) {
		v, data := validator(b), review(b, typicalComplete(b))
		return func() error { _, err := v.Review(context.Background(), data); return err }, decodeTypical(b)
	}},
	{"ValidatePolicies50", func(b *testing.B) (request, floor func() error) {
		return reviewWith(b, celSet(b, 50)), decodeTypical(b)
	}},
	{"ValidateRego50", func(b *testing.B) (request, floor func() error) {
		return reviewWith(b, regoSet(b, 50)), decodeTypical(b)
	}},
	{"LibraryCEL50", func(b *testing.B) (request, floor func() error) { return ofLibrary(b, library.CEL), decodeTypical(b) }},
	{"LibraryRego50", func(b *testing.B) (request, floor func() error) { return ofLibrary(b, library.Rego), decodeTypical(b) }},
	{"UpdateFirst", func(b *testing.B) (request, floor func() error) { return ofUpdates(b, true) }},
	{"UpdateAgain", func(b *testing.B) (request, floor func() error) { return ofUpdates(b, false) }},
	{"Validate10Of1000", func(b *testing.B) (request, floor func() error) {
		return reviewWith(b, loadedSet(b, 10, 1000)), reviewWith(b, loadedSet(b, 10, 10))
	}},
	{"Evaluate10Of1000", func(b *testing.B) (request, floor func() error) {
		return evaluate(b, loadedSet(b, 10, 1000)), evaluate(b, loadedSet(b, 10, 10))
	}},
	{"Evaluate1000Of1000", func(b *testing.B) (request, floor func() error) {
		return evaluate(b, loadedSet(b, 1000, 1000)), evaluate(b, loadedSet(b, 100, 100))
	}},
	{"EvaluateDifferent1000", func(b *testing.B) (request, floor func() error) {
		return evaluate(b, differentSet(b, 1000)), evaluate(b, differentSet(b, 100))
	}},
}

// BenchmarkRatios compares requests with the decode of their object, or with the same request and fewer policies. x-floor is the least
// CPU time of a request divided by the least of its floor, garbage collection included. The two take turns, so that other work on the
// machine disturbs both.
func BenchmarkRatios(b *testing.B) {
	for _, r := range ratios {
		b.Run(r.name, func(b *testing.B) {
			request, floor := r.prepare(b)
			runtime.GC()
			ofRequest, ofFloor := &least{run: request}, &least{run: floor}
			for b.Loop() {
				ofRequest.measure(b)
				ofFloor.measure(b)
			}
			b.ReportMetric(float64(ofRequest.time)/float64(ofFloor.time), "x-floor")
			b.ReportMetric(float64(ofRequest.time.Nanoseconds()), "cpu-ns")
			b.ReportMetric(float64(ofFloor.time.Nanoseconds()), "floor-cpu-ns")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// least is the least CPU time of a function.
type least struct {
	run  func() error
	time time.Duration
	// calls are so many that they take enough.
	calls int
}

// enough is the CPU time of the calls that are measured together: some garbage collections.
const enough = 60 * time.Millisecond

func (l *least) measure(b *testing.B) {
	b.Helper()
	if l.calls == 0 {
		began := cpuTime(b)
		for l.calls < 3 || cpuTime(b)-began < enough {
			if err := l.run(); err != nil {
				b.Fatal(err)
			}
			l.calls++
		}
	}
	began := cpuTime(b)
	for range l.calls {
		if err := l.run(); err != nil {
			b.Fatal(err)
		}
	}
	if each := (cpuTime(b) - began) / time.Duration(l.calls); l.time == 0 || each < l.time {
		l.time = each
	}
}

// ofCorpus are requests about all objects of the corpus, and their decode.
func ofCorpus(samples []corpus.Sample, review func(context.Context, []byte) ([]byte, error)) (request, floor func() error) {
	request = func() error {
		for i := range samples {
			if _, err := review(context.Background(), samples[i].Review); err != nil {
				return err
			}
		}
		return nil
	}
	return request, func() error {
		for i := range samples {
			if err := samples[i].Decode(); err != nil {
				return err
			}
		}
		return nil
	}
}

// decodeTypical is what BenchmarkDecode measures.
func decodeTypical(tb testing.TB) func() error {
	tb.Helper()
	data := typicalVMI(tb)
	return func() error {
		return sigsjson.UnmarshalCaseSensitivePreserveInts(data, &v1.VirtualMachineInstance{})
	}
}

// reviewWith is the request that benchmarkValidatePolicies measures.
func reviewWith(tb testing.TB, set *policies.Set) func() error {
	tb.Helper()
	v := validator(tb)
	live(v.Evaluator).GetPolicies = func() *policies.Set { return set }
	live(v.Evaluator).GetNamespace = func(_ context.Context, name string) (*corev1.Namespace, error) {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}, nil
	}
	object, err := json.Marshal(complete(tb, build.Typical("db").Label("app", "db").Label("team", "blue").Label("cost-centre", "42").Obj()))
	if err != nil {
		tb.Fatal(err)
	}
	data := review(tb, object)
	var answer struct{ Response struct{ Allowed bool } }
	if first, err := v.Review(context.Background(), data); err != nil || json.Unmarshal(first, &answer) != nil || !answer.Response.Allowed {
		tb.Fatalf("%v: %s", err, first)
	}
	return func() error { _, err := v.Review(context.Background(), data); return err }
}

// ofLibrary is what benchmarkLibrary measures.
func ofLibrary(b *testing.B, language library.Language) func() error {
	b.Helper()
	in := wellKept()
	in.Policies = librarySet(b, language, 50)
	pipeline := pipeline(b)
	verdict, err := pipeline.Decide(in)
	if err != nil {
		b.Fatal(err)
	}
	for i := range verdict.Findings {
		b.Errorf("%s at %s", verdict.Findings[i].Message(), verdict.Findings[i].Error.Field)
	}
	return func() error { _, err := pipeline.Decide(in); return err }
}

// evaluate is what benchmarkPolicies measures.
func evaluate(tb testing.TB, set *policies.Set) func() error {
	tb.Helper()
	vmi, facts, now := complete(tb, build.Typical("db").Label("team", "blue").Label("cost-centre", "42").Obj()), platform.Defaults(platform.Settings{}), time.Now()
	if findings := set.Evaluate(evaluated(vmi, facts), now); len(findings) != 0 {
		tb.Fatalf("%d findings, the first: %s", len(findings), findings[0].Message())
	}
	return func() error { set.Evaluate(evaluated(vmi, facts), now); return nil }
}
