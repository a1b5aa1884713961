// Package soak says whether tests run for long, as `make soak` lets them.
package soak

import (
	"os"
	"testing"
)

// On reports whether tests have all their cases and verify figures.
func On() bool { return os.Getenv("VIRTWARD_SOAK") != "" }

// Only skips a test unless tests run for long.
func Only(t testing.TB) {
	t.Helper()
	if !On() {
		t.Skip("it takes a while: set VIRTWARD_SOAK")
	}
}
