package audit

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/evaluator"
)

// TestVersions: objects are read in the version that the cluster serves. KubeVirt 1.6 serves pools in the older one only.
func TestVersions(t *testing.T) {
	for _, served := range []string{"v1beta1", "v1alpha1"} {
		t.Run(served, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				w.Header().Set("Content-Type", "application/json")
				pool := fmt.Sprintf(`{"apiVersion":"pool.kubevirt.io/%s","kind":"VirtualMachinePool","metadata":{"namespace":"shop","name":"web"}}`, served)
				switch r.URL.Path {
				case "/apis/pool.kubevirt.io/" + served + "/virtualmachinepools":
					fmt.Fprintf(w, `{"kind":"VirtualMachinePoolList","metadata":{},"items":[%s]}`, pool)
				case "/apis/pool.kubevirt.io/" + served + "/namespaces/shop/virtualmachinepools/web":
					fmt.Fprint(w, pool)
				default:
					http.NotFound(w, r)
				}
			}))
			t.Cleanup(server.Close)
			reader, err := pages.NewReader(&rest.Config{Host: server.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			api, key := NewAPI(reader), auditresults.Key{Namespace: "shop", Name: "web"}
			for _, kind := range Kinds() {
				key.Kind = kind.Kind
				listed, next, err := api.Page(t.Context(), kind, "")
				if err != nil || next != "" {
					t.Fatalf("%s: %q, %v", kind.Kind, next, err)
				}
				requests = 0
				object, err := api.Get(t.Context(), kind, key)
				if err != nil {
					t.Fatal(err)
				}
				if len(listed) > 0 && requests != 1 {
					t.Errorf("%d requests for an object in the version of the list", requests)
				}
				if kind.GroupVersionKind.GroupKind() != evaluator.Pool {
					if len(listed) > 0 || object != nil {
						t.Errorf("%s: %d objects, %v", kind.Kind, len(listed), object)
					}
					continue
				}
				if len(listed) != 1 || !strings.Contains(string(listed[0].JSON), served) || object == nil || !strings.Contains(string(object.JSON), served) {
					t.Errorf("%d pools, %v", len(listed), object)
				}
			}
		})
	}
}
