// Package planes starts control planes for tests. It is the only way in which a test starts one, so `go test -short` skips
// all tests that need one.
package planes

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/test/controlplane"
)

// Skip skips a test that needs a control plane, in short runs.
func Skip(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a control plane")
	}
}

// Start starts a control plane that ends with the test, the spec or the suite. It skips the test in short runs.
func Start(t testing.TB, options controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	Skip(t)
	switch t.(type) {
	case *testing.T, *testing.B:
		log.SetLogger(logr.Discard()) // Ginkgo suites have a logger
	}
	plane, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Errorf("stopping the control plane: %v", err)
		}
	})
	return plane
}

// Only runs the tests of a package in which every test needs a control plane, by what TestMain would call otherwise: m.Run, Pool.Main or
// Shared.Main. A short run does nothing. `make unit` does not link the packages that call it.
func Only(m *testing.M, run func(*testing.M) int) int {
	flag.Parse()
	if testing.Short() {
		return 0
	}
	return run(m)
}

// Parallel is the number of cases of a package that run in parallel, unless the flag -parallel has another. It is more than the
// two cores of a small machine, because most cases wait for other processes.
const Parallel = 4

// inParallel sets the number of cases that run in parallel, unless the command line has one.
func inParallel() error {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(Parallel))
}

// Shared is the control plane of all tests of a package. The zero value is ready to use.
type Shared struct {
	// Options are those of the control plane; nil means the defaults.
	Options func() (controlplane.Options, error)
	// Prepare installs what all tests share, if it is not nil. Its result ends that before the control plane stops.
	Prepare func(context.Context, *controlplane.ControlPlane) (end func() error, err error)

	once  sync.Once
	plane *controlplane.ControlPlane
	end   func() error
	err   error
}

// Main runs the tests of a package, and then stops the control plane. TestMain exits with the code that it returns.
func (s *Shared) Main(m *testing.M) int {
	log.SetLogger(logr.Discard())
	if err := inParallel(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := s.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the control plane:", err)
		return 1
	}
	return code
}

// Start returns the control plane of the package; the first test that needs it starts it. It skips the test in short runs.
func (s *Shared) Start(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	Skip(t)
	s.once.Do(func() { s.err = s.start(context.Background()) }) // it lives longer than this test
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.plane
}

func (s *Shared) start(ctx context.Context) (err error) {
	options := controlplane.Options{}
	if s.Options != nil {
		if options, err = s.Options(); err != nil {
			return err
		}
	}
	if s.plane, err = controlplane.Start(ctx, options); err != nil || s.Prepare == nil {
		return err
	}
	s.end, err = s.Prepare(ctx, s.plane)
	return err
}

func (s *Shared) stop() (err error) {
	if s.end != nil {
		err = s.end()
	}
	if s.plane != nil {
		err = errors.Join(err, s.plane.Stop())
	}
	return err
}
