package main

import (
	"strings"
	"testing"
	"time"

	"github.com/virtward/virtward/controllers/capture"
)

func TestTemplatesOptions(t *testing.T) {
	valid := templatesOptions{leader: leader{process: process{namespace: "virtward-system"}, leaseFor: 15 * time.Second}, deadlines: capture.Deadlines{Snapshot: time.Minute, Clone: time.Hour}}
	if err := valid.validate(); err != nil {
		t.Error(err)
	}
	valid.deadlines.Clone = time.Millisecond
	if err := valid.validate(); err == nil || !strings.Contains(err.Error(), "--clone-deadline is 1ms") {
		t.Errorf("got %v", err)
	}
}
