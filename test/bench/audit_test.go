package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	openreports "github.com/openreports/reports-api/apis/openreports.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/controllers/audit"
	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/soak"
)

// perNamespace is the number of machines in a namespace.
const perNamespace = 100

// machines serves a number of typical VMs in pages, like an API server. It creates them on demand. Each tenth is too
// large for the first policies.
type machines struct {
	count           int
	typical, tooBig []byte
}

func newMachines(tb testing.TB, count int) *machines {
	tb.Helper()
	object := func(memory string) []byte {
		vm := build.VMOf(build.Typical("NAME").Namespace("NAMESPACE").Memory(memory).Label("team", "blue").Label("cost-centre", "42")).Obj()
		vm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + managed + `}}`)}}
		data, err := json.Marshal(vm)
		if err != nil {
			tb.Fatal(err)
		}
		return data
	}
	return &machines{count: count, typical: object("4Gi"), tooBig: object("65Gi")}
}

// managed are a few kB, as API servers add them to every object.
var managed = func() string {
	var b bytes.Buffer
	for i := range 120 {
		fmt.Fprintf(&b, `"f:field-%d":{"f:value":{}},`, i)
	}
	return b.String() + `"f:last":{}`
}()

func (m *machines) at(i int) json.RawMessage {
	data := m.typical
	if i%10 == 0 {
		data = m.tooBig
	}
	data = bytes.Replace(data, []byte("NAMESPACE"), fmt.Appendf(nil, "ns-%04d", i/perNamespace), 1)
	return bytes.Replace(data, []byte("NAME"), fmt.Appendf(nil, "vm-%06d", i), 1)
}

// Page implements audit.Stored.
func (m *machines) Page(_ context.Context, kind audit.Kind, from string) ([]pages.Object, string, error) {
	if kind.Kind != "VirtualMachine" {
		return nil, "", nil
	}
	begin := 0
	if from != "" {
		var err error
		if begin, err = strconv.Atoi(from); err != nil {
			return nil, "", err
		}
	}
	end := min(begin+pages.MaxObjects, m.count)
	objects := make([]pages.Object, 0, end-begin)
	for i := begin; i < end; i++ {
		objects = append(objects, pages.Object{JSON: m.at(i)})
	}
	if end == m.count {
		return objects, "", nil
	}
	return objects, strconv.Itoa(end), nil
}

// Get implements audit.Stored.
func (m *machines) Get(context.Context, audit.Kind, auditresults.Key) (*pages.Object, error) {
	return nil, nil
}

// written counts the results in Reports, and keeps none.
type written struct{ reports, results, fails int }

// Available implements audit.Reports.
func (w *written) Available(context.Context) ([]string, error) {
	return []string{"openreports.io/v1alpha1"}, nil
}

// Namespaces implements audit.Reports.
func (w *written) Namespaces(context.Context) ([]string, error) { return nil, nil }

// Put implements audit.Reports.
func (w *written) Put(_ context.Context, _ string, build func(*openreports.Report) *openreports.Report) (*openreports.Report, error) {
	if r := build(nil); r != nil {
		w.reports, w.results, w.fails = w.reports+1, w.results+len(r.Results), w.fails+r.Summary.Fail
	}
	return nil, nil
}

// twenty are ten policies in CEL and ten in Rego.
func twenty(tb testing.TB) *policies.Set {
	tb.Helper()
	return policies.NewSet("virtward-system", slices.Concat(celSet(tb, 10).Policies(), regoSet(tb, 10).Policies())...)
}

func auditor(tb testing.TB, set *policies.Set, stored audit.Stored, to *written) *audit.Auditor {
	tb.Helper()
	facts := platform.Defaults(platform.Settings{})
	objects, err := references.NewMemory("default")
	if err != nil {
		tb.Fatal(err)
	}
	measured, err := audit.NewMetrics(prometheus.NewRegistry(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return audit.New(audit.Options{
		Criteria: &audit.Criteria{
			Evaluator: evaluator.New(pipeline(tb), objects, &evaluator.Live{
				GetFacts: func() *platform.Facts { return facts }, GetPolicies: func() *policies.Set { return set },
				GetNamespace: func(_ context.Context, name string) (*corev1.Namespace, error) {
					return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/metadata.name": name}}}, nil
				},
			}),
		},
		Stored: stored, Reports: to, Metrics: measured,
		Audited: func(map[string]int, time.Time) {}, Tell: func(auditresults.Held, events.Event) {},
		Limit: auditresults.Limits{PerNamespace: 200, PerSource: 20}, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
}

// audited evaluates all objects once, and returns the maximum of ownMemory meanwhile, in MB.
func audited(tb testing.TB, a *audit.Auditor, to *written, count int) (peak float64) {
	tb.Helper()
	*to = written{}
	stop := watchMemory(&peak)
	err := a.Once(context.Background())
	stop()
	if err != nil {
		tb.Fatal(err)
	}
	if violating := (count + 9) / 10; to.fails < violating || to.results < violating {
		tb.Fatalf("%d violations, %d of them in %d reports: %d objects violate a policy", to.fails, to.results, to.reports, violating)
	}
	return peak
}

// watchMemory looks at the memory of this process until it is stopped.
func watchMemory(peak *float64) (stop func()) {
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for ticker := time.NewTicker(5 * time.Millisecond); ; {
			*peak = max(*peak, ownMemory())
			select {
			case <-done:
				ticker.Stop()
				return
			case <-ticker.C:
			}
		}
	})
	return func() { close(done); watch.Wait() }
}

// ownMemory returns RssAnon of this process in MB, or 0 without /proc.
func ownMemory() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("RssAnon:"))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	kB, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil {
		return 0
	}
	return float64(kB) / 1024
}

// BenchmarkAudit10000 evaluates 10,000 VMs by 20 policies and all built-in rules, from the JSON of their pages to the
// Reports. It reports the most memory of the whole process, and the CPU time.
func BenchmarkAudit10000(b *testing.B) { benchmarkAudit(b, 10_000) }

// BenchmarkAudit100000 is BenchmarkAudit10000 with 100,000 VMs.
func BenchmarkAudit100000(b *testing.B) { benchmarkAudit(b, 100_000) }

func benchmarkAudit(b *testing.B, count int) {
	b.Helper()
	to := &written{}
	a := auditor(b, twenty(b), newMachines(b, count), to)
	debug.FreeOSMemory()
	peak, began := 0.0, cpuTime(b)
	for b.Loop() {
		peak = max(peak, audited(b, a, to, count))
	}
	b.ReportMetric(peak, "RssAnon-MB")
	b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "objects/s")
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/audit")
	b.ReportMetric((cpuTime(b)-began).Seconds()/float64(b.N), "cpu-s/audit")
}

// TestSoakAudit shows how an audit grows with the number of objects: two rounds of each, the second of which finds
// the ledger full.
func TestSoakAudit(t *testing.T) {
	soak.Only(t)
	const most = 300 // MB, at 10,000 objects
	set := twenty(t)
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "objects\tfirst s\tagain s\tobjects/s\tpeak RssAnon MB\tkept MB\tkept B/object\treports\tresults\t")
	for _, count := range []int{1_000, 10_000, 50_000, 100_000} {
		debug.FreeOSMemory()
		before := inUse()
		to := &written{}
		a := auditor(t, set, newMachines(t, count), to)
		began := time.Now()
		peak := audited(t, a, to, count)
		first := time.Since(began)
		began = time.Now()
		peak = max(peak, audited(t, a, to, count))
		again := time.Since(began)
		kept := inUse() - before
		runtime.KeepAlive(a)
		fmt.Fprintf(w, "%d\t%.1f\t%.1f\t%.0f\t%.0f\t%.1f\t%.0f\t%d\t%d\t\n", count, first.Seconds(), again.Seconds(), float64(count)/again.Seconds(),
			peak, kept/(1<<20), kept/float64(count), to.reports, to.results)
		if count == 10_000 && (peak > most || first > 30*time.Second) {
			t.Errorf("%d objects take %s and %.0f MB; at most 30s and %d MB are allowed", count, first, peak, most)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("an audit by %d policies on %d processors:\n%s", len(set.Policies()), runtime.GOMAXPROCS(0), table.String())
}

// inUse returns the heap in use after a garbage collection, in bytes.
func inUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
