package template

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
)

// A registry that asks for a layer again does not share its bytes with the request before, which may still be read.
func TestSentAgain(t *testing.T) {
	t.Parallel()
	l := &layout{}
	first := &sent{of: l, from: strings.NewReader("first")}
	l.sent = first
	if data, err := io.ReadAll(io.LimitReader(first, 2)); err != nil || string(data) != "fi" {
		t.Errorf("%q %v", data, err)
	}
	l.sent = &sent{of: l, from: strings.NewReader("second")}
	if n, err := first.Read(make([]byte, 1)); n != 0 || !errors.Is(err, fs.ErrClosed) {
		t.Errorf("%d %v", n, err)
	}
	if data, err := io.ReadAll(l.sent); err != nil || string(data) != "second" {
		t.Errorf("%q %v", data, err)
	}
}
