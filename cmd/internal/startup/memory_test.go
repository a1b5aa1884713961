package startup

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestLimitMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for name, tc := range map[string]struct {
		limit, golang string
		want          int64
		fails         string
	}{
		"85 percent of the container's": {"268435456", "", 268435456 / 100 * 85, ""},
		"not known":                     {"", "", math.MaxInt64, ""},
		"an admin's own":                {"268435456", "100MiB", math.MaxInt64, ""},
		"no number":                     {"256Mi", "", math.MaxInt64, `$MEMORY_LIMIT is "256Mi": it must be a number of bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(math.MaxInt64)
			t.Setenv("MEMORY_LIMIT", tc.limit)
			t.Setenv("GOMEMLIMIT", tc.golang)
			err := LimitMemory()
			if got := debug.SetMemoryLimit(-1); got != tc.want || (err == nil) != (tc.fails == "") || err != nil && err.Error() != tc.fails {
				t.Errorf("limit %d, error %v", got, err)
			}
		})
	}
}
