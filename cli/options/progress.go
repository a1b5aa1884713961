package options

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/virtward/virtward/texts"
)

// Progress writes how much of the work is done, in one line of a terminal. It writes nothing if standard error is no
// terminal.
type Progress struct {
	w io.Writer

	mu   sync.Mutex
	done int
	// last is the time at which the line was written.
	last time.Time
	// shown is true while the terminal has the line.
	shown bool
}

// progressPause is the time between two lines, and before the first one.
const progressPause = 500 * time.Millisecond

// NewProgress writes to standard error, if that is a terminal.
func NewProgress(w io.Writer) *Progress {
	w = Unwrapped(w)
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &Progress{}
	}
	return &Progress{w: w, last: time.Now()}
}

// Step counts one more as done, of all of them.
func (p *Progress) Step(what string, all int) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done++; time.Since(p.last) < progressPause {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[K%d of %d %s", p.done, all, Printable(what))
}

// IsTerminal reports whether the line is shown.
func (p *Progress) IsTerminal() bool { return p.w != nil }

// Line replaces the line, and shortens it to the width of the terminal.
func (p *Progress) Line(text string) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown = true
	fmt.Fprint(p.w, "\r\x1b[K"+texts.ShortenCharacters(Printable(text), p.width()))
}

// width is the number of columns. A line of the full width would wrap.
func (p *Progress) width() int {
	if file, ok := p.w.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 1 {
			return columns - 1
		}
	}
	return defaultWidth
}

const (
	// defaultWidth is that of a terminal whose width is not known.
	defaultWidth = 79
	barWidth     = 20
)

// Bar is a bar for a fraction between 0 and 1.
func Bar(fraction float64) string {
	filled := int(max(0, min(1, fraction)) * barWidth)
	return "[" + strings.Repeat("#", filled) + strings.Repeat("-", barWidth-filled) + "]"
}

// End erases the line.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.done, p.shown = 0, false
}
