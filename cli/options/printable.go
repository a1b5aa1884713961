package options

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// printable writes texts of users and of clusters to a terminal or a log, so that they control neither: escape sequences, which move
// the cursor, hide lines or set titles, become visible text, such as \u001b. In JSON, that is the same value.
type printable struct {
	w io.Writer
	// terminal reports whether w is a terminal. There, characters that reverse the direction of a line become visible too.
	terminal bool

	mu sync.Mutex
	// pending are bytes at the end of the last call that are not a character yet.
	pending []byte
}

// NewPrintable returns a writer for output. Nothing else may write to w, except for a Progress.
func NewPrintable(w io.Writer) io.Writer {
	file, ok := w.(*os.File)
	return &printable{w: w, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// Unwrapped returns the writer behind one of NewPrintable, for the program's own control sequences.
func Unwrapped(w io.Writer) io.Writer {
	if p, ok := w.(*printable); ok {
		return p.w
	}
	return w
}

// Printable returns a text as it is written to a terminal.
func Printable(text string) string {
	var out strings.Builder
	p := &printable{w: &out, terminal: true}
	_, _ = p.Write([]byte(text)) // a strings.Builder returns no error
	return out.String()
}

// Write implements io.Writer.
func (p *printable) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := text
	if len(p.pending) > 0 {
		rest = slices.Concat(p.pending, text)
	}
	p.pending = nil
	var out bytes.Buffer
	out.Grow(len(rest))
	for len(rest) > 0 {
		if !utf8.FullRune(rest) || len(rest) == 1 && rest[0] == '\r' {
			p.pending = bytes.Clone(rest)
			break
		}
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			out.WriteRune(utf8.RuneError)
		case r == '\r' && rest[size] == '\n': // the end of a line
			out.WriteByte('\r')
		case p.controls(r):
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			out.Write(rest[:size])
		}
		rest = rest[size:]
	}
	if _, err := p.w.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// controls reports whether a terminal interprets a character.
func (p *printable) controls(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20, 0x7f <= r && r < 0xa0:
		return true
	}
	return p.terminal && (r == 0x061c || r == 0x200e || r == 0x200f || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069)
}
