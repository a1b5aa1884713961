package cli

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// progress is a line on a terminal that tells how far something is. Where standard error is no terminal it tells nothing.
type progress struct {
	w io.Writer

	mu   sync.Mutex
	done int
	told time.Time
	// shown tells that there is a line to be wiped off.
	shown bool
}

// progressPause is how often the line is written, and how long nothing is told at first.
const progressPause = 500 * time.Millisecond

func newProgress(w io.Writer) *progress {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return &progress{}
	}
	return &progress{w: w, told: time.Now()}
}

// step notes that one more of them is done, or of an unknown number if all is 0.
func (p *progress) step(what string, all int) {
	if p.w == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done++; time.Since(p.told) < progressPause {
		return
	}
	p.told, p.shown = time.Now(), true
	if all > 0 {
		fmt.Fprintf(p.w, "\r\x1b[K%d of %d %s", p.done, all, what)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%d %s", p.done, what)
}

// end wipes the line off.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
	p.done, p.shown = 0, false
}
