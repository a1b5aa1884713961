package uploadproxy

import (
	"fmt"
	"io"
	"slices"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/texts"
)

// Progress shows how much of a file was sent: in one line of a terminal, and elsewhere in a line for each tenth. Create it with
// NewProgress.
type Progress struct {
	out   io.Writer
	line  *options.Progress
	meter *options.Meter
	what  string
	size  int64
	// reported is the last tenth.
	reported int64
	reasons  []string
}

// NewProgress shows an upload of a number of bytes on standard error.
func NewProgress(w io.Writer, what string, size int64) *Progress {
	return &Progress{out: w, line: options.NewProgress(w), meter: options.NewMeter(w, what, size), what: what, size: size}
}

// Sent tells how many bytes were sent.
func (p *Progress) Sent(bytes int64) {
	if p.line.IsTerminal() {
		p.meter.Set(bytes, p.size)
		return
	}
	fraction := float64(bytes) / float64(max(1, p.size))
	if tenth := int64(fraction * 10); tenth > p.reported {
		p.reported = tenth
		fmt.Fprintf(p.out, "%s: %d%% of %s\n", p.what, int(fraction*100), options.Size(p.size))
	}
}

// Again tells that the upload begins again. It writes each reason once.
func (p *Progress) Again(reason error) {
	p.meter.End()
	p.reported = 0
	p.meter = options.NewMeter(p.out, p.what, p.size)
	if text := texts.OneLine(reason.Error()); !slices.Contains(p.reasons, text) {
		p.reasons = append(p.reasons, text)
		fmt.Fprintf(p.out, "Trying again: %s\n", text)
	}
}

// End erases the line.
func (p *Progress) End() { p.meter.End() }
