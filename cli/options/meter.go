package options

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/virtward/virtward/texts"
)

// meterPause is the time between two lines.
const meterPause = 200 * time.Millisecond

// Meter shows how many bytes are done, the rate, and the remaining time. It is safe for concurrent use.
type Meter struct {
	line *Progress
	what string
	all  int64
	now  func() time.Time

	mu           sync.Mutex
	done, before int64
	start, shown time.Time
}

// NewMeter shows the progress on standard error, if it is a terminal.
func NewMeter(w io.Writer, what string, all int64) *Meter {
	m := &Meter{line: NewProgress(w), what: what, all: all, now: time.Now}
	m.start = m.now()
	return m
}

// Add counts bytes.
func (m *Meter) Add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.show()
}

// Reader returns a reader that counts what is read, and ends with the context.
func (m *Meter) Reader(ctx context.Context, from io.Reader) io.Reader { return &metered{from, ctx, m} }

// metered counts what is read.
type metered struct {
	io.Reader

	ctx   context.Context //nolint:containedctx // io.Reader passes none
	meter *Meter
}

// Read implements io.Reader.
func (m *metered) Read(p []byte) (int, error) {
	if m.ctx.Err() != nil {
		return 0, context.Cause(m.ctx)
	}
	n, err := m.Reader.Read(p)
	m.meter.Add(int64(n))
	return n, err //nolint:wrapcheck // io.Reader
}

// Skip counts bytes that were done before, and are not part of the rate.
func (m *Meter) Skip(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.before += n
}

// Set replaces the number of bytes, and that of all bytes.
func (m *Meter) Set(done, all int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done, m.all = done, all
	m.show()
}

// show writes the line, unless one was written a moment ago.
func (m *Meter) show() {
	now := m.now()
	if !m.line.IsTerminal() || now.Sub(m.shown) < meterPause {
		return
	}
	m.shown = now
	m.line.Line(m.text(now.Sub(m.start)))
}

// text is the line after a time.
func (m *Meter) text(passed time.Duration) string {
	rate := float64(m.done-m.before) / max(passed.Seconds(), 0.001)
	if m.all <= 0 {
		return fmt.Sprintf("%s %s, %s/s", m.what, Size(m.done), Size(int64(rate)))
	}
	fraction := float64(m.done) / float64(m.all)
	line := fmt.Sprintf("%s %s %.0f%% of %s, %s/s", m.what, Bar(fraction), 100*min(1, fraction), Size(m.all), Size(int64(rate)))
	if left := m.all - m.done; rate > 0 && left > 0 {
		line += ", " + (time.Duration(float64(left)/rate) * time.Second).Round(time.Second).String() + " left"
	}
	return line
}

// End erases the line.
func (m *Meter) End() { m.line.End() }

// Size is a number of bytes for people.
func Size(n int64) string { return texts.Bytes(n) }
