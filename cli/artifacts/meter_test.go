package artifacts

import (
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	for _, c := range []struct {
		done, all int64
		passed    time.Duration
		want      string
	}{
		{512 << 20, 2 << 30, 8 * time.Second, "sending [#####---------------] 25% of 2.0 GiB, 64.0 MiB/s, 24s left"},
		{2 << 30, 2 << 30, 8 * time.Second, "sending [####################] 100% of 2.0 GiB, 256.0 MiB/s"},
		{100, 0, time.Second, "sending 100 B, 100 B/s"},
	} {
		m := &meter{what: "sending", all: c.all, done: c.done}
		if got := m.text(c.passed); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
