package artifacts

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/virtward/virtward/cli/options"
)

// meter shows how many bytes are done, the rate, and the remaining time. It is safe for concurrent use.
type meter struct {
	line *options.Progress
	what string
	all  int64
	now  func() time.Time

	mu           sync.Mutex
	done         int64
	start, shown time.Time
}

// newMeter shows the progress on standard error, if it is a terminal.
func newMeter(w io.Writer, what string, all int64) *meter {
	m := &meter{line: options.NewProgress(w), what: what, all: all, now: time.Now}
	m.start = m.now()
	return m
}

// add counts bytes.
func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	now := m.now()
	if !m.line.IsTerminal() || now.Sub(m.shown) < 200*time.Millisecond {
		return
	}
	m.shown = now
	m.line.Line(m.text(now.Sub(m.start)))
}

// text is the line after a time.
func (m *meter) text(passed time.Duration) string {
	rate := float64(m.done) / max(passed.Seconds(), 0.001)
	if m.all <= 0 {
		return fmt.Sprintf("%s %s, %s/s", m.what, size(m.done), size(int64(rate)))
	}
	fraction := float64(m.done) / float64(m.all)
	line := fmt.Sprintf("%s %s %.0f%% of %s, %s/s", m.what, options.Bar(fraction), 100*min(1, fraction), size(m.all), size(int64(rate)))
	if left := m.all - m.done; rate > 0 && left > 0 {
		line += ", " + (time.Duration(float64(left)/rate) * time.Second).Round(time.Second).String() + " left"
	}
	return line
}

// end erases the line.
func (m *meter) end() { m.line.End() }

// size is a number of bytes for people.
func size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[unit])
}
