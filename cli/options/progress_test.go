package options

import (
	"bytes"
	"strings"
	"testing"
)

// TestLine: a terminal has one line, which is erased at the end.
func TestLine(t *testing.T) {
	var out bytes.Buffer
	p := &Progress{w: &out}
	p.Line(Bar(0.42) + " 42%")
	p.Line(strings.Repeat("a", 200))
	p.End()
	const erase = "\r\x1b[K"
	if want := erase + "[########------------] 42%" + erase + strings.Repeat("a", defaultWidth-1) + "…" + erase; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	none := NewProgress(&out)
	out.Reset()
	none.Line("a")
	none.End()
	if none.IsTerminal() || out.Len() > 0 {
		t.Errorf("a buffer got %q", out.String())
	}
}

func TestBar(t *testing.T) {
	for fraction, want := range map[float64]string{
		-1: "[--------------------]", 0.049: "[--------------------]", 0.5: "[##########----------]", 0.999: "[###################-]", 2: "[####################]",
	} {
		if got := Bar(fraction); got != want {
			t.Errorf("%v: %s", fraction, got)
		}
	}
}
