package certificates

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/certificates"
)

// testKillsOfAPIServices kills the controller after every write of a rotation of the aggregated API's certificates.
func testKillsOfAPIServices(t *testing.T, config *rest.Config) {
	killAfterEachWrite(t, map[string]rotation{
		// The Secret. Its CA stays, so the APIServices stay as they are.
		"pair": {
			keys: []string{certificates.CertificateKey, certificates.PrivateKey}, writes: 1,
			gone: []string{certificates.CertificateKey},
		},
		// The Secret with the new CA; both APIServices; the Secret with the pair, and without the previous CA; both APIServices.
		"CA": {
			keys: []string{certificates.AuthorityPrivateKey}, writes: 7,
			gone: []string{certificates.AuthorityKey, certificates.CertificateKey},
		},
	}, func(t *testing.T) *installation { return installAPI(t, config, service) })
}

// testAnotherAPIService holds that an APIService of another component stays as it is.
func testAnotherAPIService(t *testing.T, config *rest.Config) {
	i := installAPI(t, config, "virt-template-apiserver")
	for name, config := range i.targets(t) {
		if len(config.bundle) > 0 {
			t.Errorf("%s has a bundle", name)
		}
	}
}

// installAPI makes the Secret and two APIServices of a Service as the chart does, and lets a controller complete them.
func installAPI(t *testing.T, config *rest.Config, of string) *installation {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{
		config: config, client: client, clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)),
		apiServices: []string{"v1alpha1.certificates.test", "v1beta1.certificates.test"},
	}
	if _, err := client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.CoreV1().Secrets(namespace).Delete(context.WithoutCancel(t.Context()), secretName, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	registrations := i.registrations(t)
	for n, version := range []string{"v1alpha1", "v1beta1"} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": i.apiServices[n]},
			"spec": map[string]any{
				"group": "certificates.test", "version": version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(10),
				"service": map[string]any{"namespace": namespace, "name": of},
			},
		}}
		if _, err := registrations.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := registrations.Delete(context.WithoutCancel(t.Context()), object.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	i.run(t, -1)
	i.clock.Step(10 * settle)
	i.writes, i.secrets, i.called = 0, nil, map[string][]version[called]{}
	i.record(t)
	return i
}

func (i *installation) registrations(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	objects, err := dynamic.NewForConfig(i.config)
	if err != nil {
		t.Fatal(err)
	}
	return objects.Resource(apiServiceResource)
}

// bundles are how the API server calls the APIServices.
func (i *installation) bundles(t *testing.T) map[string]called {
	t.Helper()
	all := map[string]called{}
	for _, name := range i.apiServices {
		object, err := i.registrations(t).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, _, err := unstructured.NestedString(object.Object, "spec", "caBundle")
		if err != nil {
			t.Fatal(err)
		}
		bundle, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = called{bundle: bundle}
	}
	return all
}
