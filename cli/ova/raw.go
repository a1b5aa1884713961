package ova

import (
	"context"
	"fmt"
	"time"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/exportserver/rawfile"
)

// rawImage is a raw image. Reading ends with a context.
type rawImage struct {
	*rawfile.File

	ctx context.Context //nolint:containedctx // io.ReaderAt passes none
}

// ReadAt implements io.ReaderAt.
func (r *rawImage) ReadAt(into []byte, offset int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.File.ReadAt(into, offset)
}

// meterPause is the time between two lines.
const meterPause = 500 * time.Millisecond

// meter shows how much of the bytes is done, the rate, and the remaining time.
func meter(shown *options.Progress, what string) func(done, all int64) {
	begin := time.Now()
	last := begin
	return func(done, all int64) {
		now := time.Now()
		if !shown.IsTerminal() || now.Sub(last) < meterPause || all == 0 {
			return
		}
		last = now
		shown.Line(meterLine(what, done, all, now.Sub(begin)))
	}
}

// meterLine is the line for bytes that were done in a time.
func meterLine(what string, done, all int64, elapsed time.Duration) string {
	fraction := float64(done) / float64(all)
	rate := float64(done) / elapsed.Seconds()
	line := fmt.Sprintf("%s %3.0f%% %.0f MiB/s", options.Bar(fraction), 100*fraction, rate/(1<<20))
	if done > 0 {
		left := time.Duration(float64(all-done) / rate * float64(time.Second))
		line += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return line + ", " + what
}
