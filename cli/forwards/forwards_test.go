package forwards_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"github.com/virtward/virtward/cli/clitest"
	"github.com/virtward/virtward/cli/forwards"
	"github.com/virtward/virtward/test/await"
)

// TestService sends requests to a server through the API server's port-forward, and again after its connection has ended.
func TestService(t *testing.T) {
	var answers atomic.Int64
	pod := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers.Add(1)
		_, _ = io.WriteString(w, strings.Repeat(r.URL.Path, 100_000))
	}))
	t.Cleanup(pod.Close)
	api := clitest.NewForwarding(t, pod.Listener.Addr().String())
	api.Objects["/api/v1/namespaces/shop/services/export"] = &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		Spec:     corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromString("https")}}},
	}
	running := func(name string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: phase},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "https", ContainerPort: 8443}}}}},
		}
	}
	pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{running("old", corev1.PodFailed), running("new", corev1.PodRunning)}}
	api.Objects["/api/v1/namespaces/shop/pods"] = pods

	service, err := forwards.New(&rest.Config{Host: api.URL}, "shop", "export", 443)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(service.Close)
	client := &http.Client{Transport: &http.Transport{DialContext: service.DialContext, DisableKeepAlives: true}}
	get := func(path string) (string, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://export.shop.svc"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		return string(data), err
	}
	var all sync.WaitGroup
	for _, path := range []string{"/a", "/b", "/c"} {
		all.Go(func() {
			if got, err := get(path); err != nil || got != strings.Repeat(path, 100_000) {
				t.Errorf("%s: %d bytes, %v", path, len(got), err)
			}
		})
	}
	all.Wait()
	if api.Forwards() != 1 || api.Forwarded() != "/api/v1/namespaces/shop/pods/new/portforward 8443" {
		t.Errorf("got %d connections to %s", api.Forwards(), api.Forwarded())
	}
	api.Break()
	await.Until(t, func() error { // the client sees the end a moment later
		_, err := get("/d")
		return err
	})
	if api.Forwards() != 2 || answers.Load() != 4 {
		t.Errorf("got %d connections and %d answers", api.Forwards(), answers.Load())
	}
	pods.Items = pods.Items[:1]
	api.Break()
	await.Until(t, func() error {
		const want = "no pod of the Service shop/export runs and has its port 443"
		if _, err := get("/e"); err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("want %s, got %w", want, err)
		}
		return nil
	})
}
