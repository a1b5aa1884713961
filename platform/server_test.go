package platform_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/crds"
	"github.com/virtward/virtward/test/planes"
)

// served has the definitions in the API server of these tests. DataSources are not among them.
var served = []string{
	"kubevirts.kubevirt.io",
	"virtualmachineclusterinstancetypes.instancetype.kubevirt.io",
	"virtualmachineclusterpreferences.instancetype.kubevirt.io",
	"virtualmachineinstancepresets.kubevirt.io",
	"virtualmachineinstancetypes.instancetype.kubevirt.io",
	"virtualmachinepreferences.instancetype.kubevirt.io",
}

// shared is the API server of this package. Tests without it do not wait for it.
var shared = planes.Shared{Options: func() (controlplane.Options, error) {
	definitions, err := definitions()
	return controlplane.Options{CRDs: definitions}, err
}}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

func server(t *testing.T) *controlplane.ControlPlane {
	t.Helper()
	return shared.Start(t)
}

func definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := crds.All()
	return slices.DeleteFunc(all, func(d *apiextensionsv1.CustomResourceDefinition) bool {
		return !slices.Contains(served, d.Name)
	}), err
}

// requests are the requests of a client.
type requests struct {
	mu   sync.Mutex
	sent []string
}

func (r *requests) note(request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, request.Method+" "+request.URL.Path)
}

// of counts the requests whose method and path have this suffix.
func (r *requests) of(suffix string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	for _, sent := range r.sent {
		if strings.HasSuffix(sent, suffix) {
			count++
		}
	}
	return count
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// countedConfig returns an admin's client configuration, and the requests that are sent with it.
func countedConfig(t *testing.T) (*rest.Config, *requests) {
	t.Helper()
	config, sent := server(t).Config(), &requests{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			sent.note(r)
			return next.RoundTrip(r)
		})
	})
	return config, sent
}

// eventually polls until check returns nil.

// run runs a function until the end of the test, and waits for its end.
func run(t *testing.T, what func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- what(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
