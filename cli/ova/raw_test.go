package ova

import (
	"testing"
	"time"
)

// TestMeterLine holds the rate and the remaining time.
func TestMeterLine(t *testing.T) {
	if got, want := meterLine("writing a.ova", 100<<20, 400<<20, 10*time.Second), "[#####---------------]  25% 10 MiB/s, 30s left, writing a.ova"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := meterLine("reading the disks", 0, 400<<20, time.Second), "[--------------------]   0% 0 MiB/s, reading the disks"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
