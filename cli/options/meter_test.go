package options

import (
	"testing"
	"time"
)

// TestMeter holds the rate and the remaining time, also if a part was done before.
func TestMeter(t *testing.T) {
	for _, c := range []struct {
		done, before, all int64
		passed            time.Duration
		want              string
	}{
		{512 << 20, 0, 2 << 30, 8 * time.Second, "sending [#####---------------] 25% of 2.0 GiB, 64.0 MiB/s, 24s left"},
		{2 << 30, 0, 2 << 30, 8 * time.Second, "sending [####################] 100% of 2.0 GiB, 256.0 MiB/s"},
		{1 << 30, 512 << 20, 2 << 30, 8 * time.Second, "sending [##########----------] 50% of 2.0 GiB, 64.0 MiB/s, 16s left"},
		{100, 0, 0, time.Second, "sending 100 B, 100 B/s"},
	} {
		m := &Meter{what: "sending", all: c.all, done: c.done, before: c.before}
		if got := m.text(c.passed); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
