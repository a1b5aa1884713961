package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for name, c := range map[string]struct {
		inUse, least uint64
		usual, want  int
	}{
		"a small heap":              {10 << 20, 40 << 20, 100, 300},
		"a heap that is half of it": {20 << 20, 40 << 20, 100, 100},
		"a large heap":              {100 << 20, 40 << 20, 100, largePercent},
		"room for less":             {28 << 20, 40 << 20, 100, largePercent},
		"a tiny heap":               {1 << 20, 1 << 30, 100, 1000},
		"an unknown heap":           {0, 40 << 20, 100, 100},
		"no collection":             {10 << 20, 40 << 20, -1, -1},
		"a frequent collection":     {40 << 20, 40 << 20, 50, 50},
	} {
		if got := percentFor(c.inUse, c.least, c.usual); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// gcPercent returns the percentage that the runtime has.
func gcPercent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64()) //nolint:gosec // a percentage
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 200 {
		runtime.GC()
		if holds() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s: the percentage is %d", what, gcPercent())
}

// TestGarbage holds that the heap may become larger until the last holder releases, and that this ends while much is in use.
func TestGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(90))
	g := &Garbage{Least: 256 << 20}
	first, second := g.Keep(), g.Keep()
	eventually(t, "with little in use", func() bool { return gcPercent() > 90 })
	much := make([]byte, 256<<20)
	eventually(t, "with much in use", func() bool { return gcPercent() == largePercent })
	runtime.KeepAlive(much)
	eventually(t, "with little in use again", func() bool { return gcPercent() > 90 })
	first()
	first()
	if gcPercent() == 90 {
		t.Error("the first release ended it for the second holder")
	}
	second()
	if got := gcPercent(); got != 90 {
		t.Errorf("after the releases: %d", got)
	}
	defer g.Keep()()
	eventually(t, "again", func() bool { return gcPercent() > 90 })
}

// TestGarbageOfAdmins holds that $GOGC has precedence.
func TestGarbageOfAdmins(t *testing.T) {
	t.Setenv("GOGC", "50")
	before := gcPercent()
	defer (&Garbage{Least: 1 << 40}).Keep()()
	runtime.GC()
	if got := gcPercent(); got != before {
		t.Errorf("%d, want %d", got, before)
	}
}
