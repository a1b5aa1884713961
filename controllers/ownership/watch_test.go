package ownership

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/virtward/virtward/platform"
)

func objectOf(o platform.TemplateObject, manager string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: o.Resource.GroupVersion().String(), Kind: o.Kind},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": manager}},
	}
}

func newWatch(t *testing.T, objects ...runtime.Object) (*Watch, *fake.FakeMetadataClient) {
	t.Helper()
	scheme := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleMetadataClient(scheme, objects...)
	w, err := NewWatch(client, prometheus.NewRegistry(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	return w, client
}

func TestEachObjectCounts(t *testing.T) {
	for _, o := range platform.TemplateObjects() {
		for manager, foreign := range map[string]bool{"virt-operator": true, "kubevirt-operator": true, "Helm": false, "": false, "other": false} {
			w, _ := newWatch(t, objectOf(o, manager))
			w.read(t.Context())
			err := w.Check()
			if foreign != errors.Is(err, ErrForeign) || foreign && !strings.Contains(err.Error(), o.Kind+" "+o.Name) {
				t.Errorf("%s of %q: %v", o.Name, manager, err)
			}
			if got := testutil.ToFloat64(w.gauge); (got == 1) != foreign {
				t.Errorf("%s of %q: the gauge is %v", o.Name, manager, got)
			}
		}
	}
}

// Writes are not sent before the first read, while another component manages templates, and while that is not known.
func TestWritesAreGuarded(t *testing.T) {
	sent := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent++
		_, _ = io.WriteString(w, r.Method)
	}))
	defer server.Close()
	w, client := newWatch(t)
	guarded, err := rest.HTTPClientFor(w.Guard(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	send := func(method string) error {
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := guarded.Do(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	expect := func(when string, writes bool) {
		t.Helper()
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			before := sent
			if err := send(method); writes != (err == nil) || !writes && (!errors.Is(err, ErrForeign) || sent != before) {
				t.Errorf("%s: %s: %v, %d sent", when, method, err, sent-before)
			}
		}
		if err := send(http.MethodGet); err != nil {
			t.Errorf("%s: a read: %v", when, err)
		}
	}
	expect("before the first read", false)
	fails := true
	client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fails, nil, errors.New("no connection")
	})
	w.read(t.Context())
	expect("after a failed read", false)
	fails = false
	w.read(t.Context())
	expect("without objects", true)
	o := platform.TemplateObjects()[2]
	if err := client.Tracker().Create(o.Resource, objectOf(o, "virt-operator"), ""); err != nil {
		t.Fatal(err)
	}
	w.read(t.Context())
	expect("taken over", false)
	fails = true
	w.read(t.Context())
	expect("taken over, and then unreadable", false)
	fails = false
	if err := client.Tracker().Delete(o.Resource, "", o.Name); err != nil {
		t.Fatal(err)
	}
	w.read(t.Context())
	expect("given back", true)
	fails = true
	w.read(t.Context())
	expect("unreadable for a while", true)
}

func TestRunEnds(t *testing.T) {
	w, _ := newWatch(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
}
