package cputime

import (
	"runtime"
	"testing"
)

// TestRatio measures the reference with itself.
func TestRatio(t *testing.T) {
	twice := func() { runtime.KeepAlive(reference() + reference()) }
	if got := Ratio(t, referenceUnits, twice, 20); got < 1.5 || got > 3 {
		t.Errorf("two references take %.2f times one", got)
	}
	unit := each(t, func() { runtime.KeepAlive(reference()) })
	t.Logf("a unit takes %v", unit/referenceUnits)
}
