package planes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/test/controlplane"
)

// restoreTimeout bounds the restoration of a control plane.
const restoreTimeout = 2 * time.Minute

// Pool lends control planes to tests that need one for themselves, because cluster-scoped objects are their subject: nodes, guards,
// or the chart. After a test, everything that it created is deleted, and the next test gets the control plane as it was at
// first. A control plane that cannot be restored is stopped, and so is that of a test that failed.
type Pool struct {
	// Options are those of the control planes; nil means the defaults.
	Options func() (controlplane.Options, error)
	// Prepare installs what all tests start with, such as definitions, if it is not nil.
	Prepare func(context.Context, *controlplane.ControlPlane) error
	// Size is the number of tests that have a control plane at the same time; one unless it is set.
	Size int

	once   sync.Once
	places chan struct{}
	mu     sync.Mutex
	idle   []*baseline
}

// Main runs the tests of a package, and then stops the control planes. TestMain exits with the code that it returns.
func (p *Pool) Main(m *testing.M) int {
	log.SetLogger(logr.Discard())
	if err := inParallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := p.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the control planes:", err)
		return 1
	}
	return code
}

// Stop stops the control planes that no test has.
func (p *Pool) Stop() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range p.idle {
		err = errors.Join(err, b.plane.Stop())
	}
	p.idle = nil
	return err
}

// Take lends a control plane until the end of the test. It waits while Size others have one, and skips the test in short runs.
func (p *Pool) Take(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	Skip(t)
	p.once.Do(func() { p.places = make(chan struct{}, max(1, p.Size)) })
	p.places <- struct{}{}
	b, err := p.next(t.Context())
	if err != nil {
		<-p.places
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer func() { <-p.places }()
		if err := p.giveBack(b, t.Failed()); err != nil {
			t.Errorf("restoring the control plane: %v", err)
		}
	})
	return b.plane
}

// next is an idle control plane, or a new one.
func (p *Pool) next(ctx context.Context) (*baseline, error) {
	p.mu.Lock()
	if last := len(p.idle) - 1; last >= 0 {
		defer p.mu.Unlock()
		b := p.idle[last]
		p.idle = p.idle[:last]
		return b, nil
	}
	p.mu.Unlock()
	options := controlplane.Options{}
	if p.Options != nil {
		var err error
		if options, err = p.Options(); err != nil {
			return nil, err
		}
	}
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	if p.Prepare != nil {
		err = p.Prepare(ctx, plane)
	}
	var b *baseline
	if err == nil {
		b, err = newBaseline(ctx, plane)
	}
	if err != nil {
		return nil, errors.Join(err, plane.Stop())
	}
	return b, nil
}

// giveBack restores a control plane, or stops it.
func (p *Pool) giveBack(b *baseline, failed bool) error {
	if failed {
		return b.plane.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	same, err := b.restore(ctx)
	if err != nil || !same {
		return errors.Join(err, b.plane.Stop())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, b)
	return nil
}
