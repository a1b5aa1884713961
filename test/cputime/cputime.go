// Package cputime measures the CPU time of functions in the units of policies. A reference that always does the same is
// measured at the same moment, so that the result does not depend on how fast the machine is. It is for tests.
package cputime

import (
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Of returns the CPU time of the process, garbage collection included.
func Of(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// referenceUnits is what reference takes, in units.
const referenceUnits = 1000

// reference does what the evaluation of policies does for the most part: it allocates, hashes, and calls by interfaces.
func reference() int {
	kept := map[string]any{}
	total := 0
	for i := range 700 {
		name := strconv.Itoa(i % 97)
		list := []any{i, name}
		if n, ok := list[0].(int); ok {
			total += n
		}
		kept[name] = list
	}
	return total + len(kept)
}

// Ratio returns how many units a function takes for each unit that it is charged: the least of some repetitions, each
// compared with the least of the reference.
func Ratio(tb testing.TB, charged uint64, f func(), repetitions int) float64 {
	tb.Helper()
	var least, unit time.Duration
	for range repetitions {
		unit = lower(unit, each(tb, func() { runtime.KeepAlive(reference()) }))
		least = lower(least, each(tb, f))
	}
	return float64(least) * referenceUnits / (float64(unit) * float64(max(charged, 1)))
}

func lower(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

// each is the time of one call, of so many that they take a while.
func each(tb testing.TB, f func()) time.Duration {
	tb.Helper()
	const while = 500 * time.Microsecond
	for n := 1; ; n *= 4 {
		begin := Of(tb)
		for range n {
			f()
		}
		if took := Of(tb) - begin; took >= while {
			return max(took/time.Duration(n), 1)
		}
	}
}

// Most is how many times more than charged a function may take.
const Most = 2

// Check fails if a function takes more than Most times what it is charged, in each of several measurements.
func Check(tb testing.TB, charged uint64, f func()) {
	tb.Helper()
	ratio := 0.0
	for _, repetitions := range []int{1, 3, 10, 30} {
		if ratio = Ratio(tb, charged, f, repetitions); ratio <= Most {
			tb.Logf("%.2f units for each of %d", ratio, charged)
			return
		}
	}
	tb.Errorf("it takes %.2f units for each of the %d that it is charged: at most %d", ratio, charged, Most)
}
