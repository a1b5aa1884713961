package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// TestMain is the sandbox if it is called by the name that pages use.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == program {
		main()
		return
	}
	os.Exit(m.Run())
}

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

// sandbox is one that runs in this process.
type sandbox struct {
	out        *output
	kubeconfig string
	// home is that of the users of its shells.
	home      string
	ended     chan error
	interrupt context.CancelFunc
}

// startSandbox starts a sandbox, and waits until it prints its last line.
func startSandbox(t *testing.T, flags ...string) *sandbox {
	t.Helper()
	log.SetLogger(logr.Discard())
	a, err := parse(flags)
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &sandbox{out: &output{}, home: t.TempDir(), ended: make(chan error, 1), interrupt: interrupt}
	go func() { s.ended <- run(ctx, a, s.out) }()
	deadline := time.After(5 * time.Minute)
	for !strings.Contains(s.out.String(), "Ctrl-C") {
		select {
		case err := <-s.ended:
			interrupt()
			t.Fatalf("it ended by itself: %v", err)
		case <-deadline:
			interrupt()
			t.Fatal("it did not come up in five minutes")
		case <-time.After(50 * time.Millisecond):
		}
	}
	s.kubeconfig = s.variable(t, "KUBECONFIG")
	return s
}

// variable is the value of an export line.
func (s *sandbox) variable(t *testing.T, name string) string {
	t.Helper()
	found := regexp.MustCompile("export " + name + `=(\S+)`).FindStringSubmatch(s.out.String())
	if found == nil {
		t.Fatalf("it does not print %s:\n%s", name, s.out)
	}
	return found[1]
}

// stop interrupts it, and fails if it does not end well.
func (s *sandbox) stop(t *testing.T) {
	t.Helper()
	s.interrupt()
	if err := <-s.ended; err != nil {
		t.Errorf("the end: %v", err)
	}
}
