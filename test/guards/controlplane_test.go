package guards

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/test/controlplane"
)

// connect starts a control plane without definitions, because each schema has its own.
func connect(t *testing.T) *rest.Config {
	t.Helper()
	started, err := controlplane.Start(t.Context(), controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Stop(); err != nil {
			t.Errorf("stopping the control plane: %v", err)
		}
	})
	return started.Config()
}
