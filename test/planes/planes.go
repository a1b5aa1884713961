// Package planes starts control planes for tests.
package planes

import (
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/virtward/virtward/test/controlplane"
)

// Start starts a control plane that ends with the test. It is skipped in short runs. The folder of the options is one of the
// test.
func Start(t testing.TB, options controlplane.Options) *controlplane.ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts a control plane")
	}
	log.SetLogger(logr.Discard())
	options.Parent = t.TempDir()
	plane, err := controlplane.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	return plane
}
