// Package isolated measures the memory of functions in a process that does nothing else: other tests of a package leave goroutines,
// connections and pools, whose memory would be counted too. It is for tests.
package isolated

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// environment has the name of the test that a process is for.
const environment = "VIRTWARD_ISOLATED"

// Run reports whether this process is for the test. If not, it runs the test in such a process, with its result and its output, and
// the caller returns.
func Run(t *testing.T) bool {
	t.Helper()
	if os.Getenv(environment) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Env = append(os.Environ(), environment+"="+t.Name())
	output, err := cmd.CombinedOutput()
	switch passed := strings.Contains(string(output), "--- PASS: "+t.Name()); {
	case err != nil || !passed:
		t.Errorf("in a process of its own: %v\n%s", err, output)
	default:
		t.Logf("in a process of its own:\n%s", output)
	}
	return false
}

// Heap returns the bytes of the objects that are reachable.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // what pools keep outlives one collection
	return InUse()
}

// InUse returns the bytes of all objects, also of those that are not reachable any more.
func InUse() int64 { return int64(read().HeapAlloc) } //nolint:gosec // smaller than the memory of a machine

// Allocated returns the bytes that were allocated since the start of the process.
func Allocated() int64 { return int64(read().TotalAlloc) } //nolint:gosec // as above

// Allocations returns the number of objects that were allocated since the start of the process.
func Allocations() int64 { return int64(read().Mallocs) } //nolint:gosec // as above

func read() *runtime.MemStats {
	if os.Getenv(environment) == "" {
		panic("memory is measured in a test that starts with isolated.Run")
	}
	stats := &runtime.MemStats{}
	runtime.ReadMemStats(stats)
	return stats
}
