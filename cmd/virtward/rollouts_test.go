package main

import (
	"strings"
	"testing"
	"time"
)

func TestRolloutsOptions(t *testing.T) {
	valid := rolloutsOptions{leader: leader{process: process{namespace: "virtward-system"}, leaseFor: 15 * time.Second}, resync: time.Minute}
	if err := valid.validate(); err != nil {
		t.Error(err)
	}
	valid.resync = time.Second
	if err := valid.validate(); err == nil || !strings.Contains(err.Error(), "--resync-interval is 1s") {
		t.Errorf("got %v", err)
	}
}
