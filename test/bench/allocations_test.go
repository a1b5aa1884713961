package bench

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtward/virtward/test/isolated"
)

// renewAllocations has its value in the process that measures too.
const renewAllocations = "VIRTWARD_RENEW_ALLOCATIONS"

// baseline has a line for each of the held benchmarks: its name, objects and bytes. `make allocations` writes it.
const baseline = "testdata/allocations.txt"

// growth is the share by which allocations may exceed the baseline: versions of Go, and pools that a collection empties, change them a
// little.
const growth = 0.10

// held are the benchmarks whose allocations are compared with the baseline. Times depend on the machine, allocations do not.
var held = []struct {
	name string
	run  func(*testing.B)
	// times is how often it runs: the corpora have many objects, which all count.
	times int
}{
	{"DecodeCorpus", BenchmarkDecodeCorpus, 400},
	{"MutateCorpus", BenchmarkMutateCorpus, 400},
	{"ValidateCorpus", BenchmarkValidateCorpus, 400},
	{"ValidatePolicies50", BenchmarkValidatePolicies50, 200},
	{"ValidateRego50", BenchmarkValidateRego50, 100},
	{"LibraryCEL50", BenchmarkLibraryCEL50, 200},
	{"LibraryRego50", BenchmarkLibraryRego50, 100},
	{"Pod", BenchmarkPod, 200},
	{"Domain", BenchmarkDomain, 200},
	{"Plan", BenchmarkPlan, 200},
}

// allocations are those of one operation.
type allocations struct{ objects, bytes int64 }

// TestAllocations: no change makes the way of a request allocate more without being seen.
func TestAllocations(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	measured := map[string]allocations{}
	var lines strings.Builder
	for _, h := range held {
		if err := flag.Set("test.benchtime", fmt.Sprintf("%dx", h.times)); err != nil {
			t.Fatal(err)
		}
		result := testing.Benchmark(h.run)
		if result.N != h.times {
			t.Fatalf("%s failed", h.name)
		}
		measured[h.name] = allocations{result.AllocsPerOp(), result.AllocedBytesPerOp()}
		fmt.Fprintln(&lines, h.name, measured[h.name].objects, measured[h.name].bytes)
	}
	t.Log("\n" + lines.String())
	if os.Getenv(renewAllocations) != "" {
		if err := os.WriteFile(baseline, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(baseline)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range grown(t, string(stored), measured) {
		t.Error(problem + "; if it is meant, run make allocations")
	}
}

// grown are the benchmarks that allocate more than the stored baseline permits, or that only one of both has.
func grown(t *testing.T, stored string, measured map[string]allocations) []string {
	t.Helper()
	var problems []string
	known := map[string]bool{}
	for line := range strings.Lines(stored) {
		var name string
		var was allocations
		if _, err := fmt.Sscan(line, &name, &was.objects, &was.bytes); err != nil {
			t.Fatalf("%s: %q: %v", baseline, line, err)
		}
		known[name] = true
		is, ok := measured[name]
		switch {
		case !ok:
			problems = append(problems, name+" is not measured any more")
		case exceeds(is.objects, was.objects), exceeds(is.bytes, was.bytes):
			problems = append(problems, fmt.Sprintf("%s allocates %d objects with %d bytes, before %d with %d", name, is.objects, is.bytes, was.objects, was.bytes))
		}
	}
	for _, h := range held {
		if _, ok := measured[h.name]; ok && !known[h.name] {
			problems = append(problems, h.name+" has no baseline")
		}
	}
	return problems
}

func exceeds(is, was int64) bool { return float64(is) > float64(was)*(1+growth) }

// TestGrown: the comparison itself finds what it is for.
func TestGrown(t *testing.T) {
	for name, c := range map[string]struct {
		stored   string
		measured map[string]allocations
		want     string
	}{
		"equal":        {"Plan 100 1000\n", map[string]allocations{"Plan": {100, 1000}}, ""},
		"a tenth":      {"Plan 100 1000\n", map[string]allocations{"Plan": {110, 1100}}, ""},
		"more objects": {"Plan 100 1000\n", map[string]allocations{"Plan": {111, 1000}}, "Plan allocates 111 objects with 1000 bytes, before 100 with 1000"},
		"more bytes":   {"Plan 100 1000\n", map[string]allocations{"Plan": {100, 1101}}, "Plan allocates 100 objects with 1101 bytes, before 100 with 1000"},
		"none before":  {"Plan 0 0\n", map[string]allocations{"Plan": {1, 8}}, "Plan allocates 1 objects with 8 bytes, before 0 with 0"},
		"gone":         {"Plan 100 1000\n", map[string]allocations{}, "Plan is not measured any more"},
		"new":          {"", map[string]allocations{"Plan": {1, 8}}, "Plan has no baseline"},
	} {
		if got := strings.Join(grown(t, c.stored, c.measured), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
