package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// output is read while it is written.
type output struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.content.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.content.String()
}

func TestTheSandboxStaysUpUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, ended := &output{}, make(chan error, 1)
	go func() { ended <- run(ctx, parse([]string{"-audit", "-library", "Audit"}), out) }()

	kubeconfig := regexp.MustCompile(`export KUBECONFIG=(\S+)`)
	deadline := time.After(5 * time.Minute)
	for !strings.Contains(out.String(), "Ctrl-C") {
		select {
		case err := <-ended:
			t.Fatalf("it ended by itself: %v", err)
		case <-deadline:
			t.Fatal("it did not come up in five minutes")
		case <-time.After(50 * time.Millisecond):
		}
	}
	path := kubeconfig.FindStringSubmatch(out.String())[1]
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the printed kubeconfig: %v", err)
	}
	for _, want := range []string{"The sandbox is up after", "bin/sandbox/kubectl get", "kubectl-virtward image create", "audit.log", "create rolebinding alice", "policies of the library have the enforcement Audit", "get reports.openreports.io"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("after the end %s is there (%v)", path, err)
	}
}

// TestPolicies: the commands agree with what the enforcement does.
func TestPolicies(t *testing.T) {
	for enforcement, want := range map[string]string{"Deny": "policy exempt POLICY", "Warn": "get reports.openreports.io"} {
		out := &output{}
		policies(out, "kubectl", enforcement)
		if !strings.Contains(out.String(), "enforcement "+enforcement) || !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
}
