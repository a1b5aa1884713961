package templateapi

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/certificates"
	"github.com/virtward/virtward/test/await"
	"github.com/virtward/virtward/test/controlplane"
)

// requests processes the template all the time, and counts what fails. Denied are those of which a replica did not know the user.
type requests struct {
	done, failed, denied atomic.Int64
	last                 atomic.Value
	stop                 context.CancelFunc
	group                sync.WaitGroup
}

func (f *fixture) load(clients int) *requests {
	ctx, stop := context.WithCancel(f.t.Context())
	r := &requests{stop: stop}
	for range clients {
		r.group.Go(func() {
			for ctx.Err() == nil {
				if _, err := f.post(f.Config(), "templates", "fedora", subresources.Process, named("web"), ""); err != nil && ctx.Err() == nil {
					r.failed.Add(1)
					if strings.Contains(err.Error(), "system:anonymous") {
						r.denied.Add(1)
					}
					r.last.Store(err.Error())
				}
				r.done.Add(1)
			}
		})
	}
	return r
}

// more waits for a number of requests from now on.
func (r *requests) more(t *testing.T, count int64) {
	t.Helper()
	want := r.done.Load() + count
	await.Until(t, func() error {
		if done := r.done.Load(); done < want {
			return fmt.Errorf("%d of %d requests are done", done, want)
		}
		return nil
	})
}

// ends stops the load. At most a number of requests may have failed.
func (r *requests) ends(t *testing.T, most int64) {
	t.Helper()
	r.stop()
	r.group.Wait()
	t.Logf("%d requests, %d failed", r.done.Load(), r.failed.Load())
	if r.denied.Load() > 0 || r.failed.Load() > most {
		t.Errorf("%d of %d requests failed, %d of them as anonymous, the last: %v", r.failed.Load(), r.done.Load(), r.denied.Load(), r.last.Load())
	}
}

// TestReplicas restarts the two replicas in turn, and replaces the certificate and the CA, while users process templates.
func TestReplicas(t *testing.T) {
	t.Parallel()
	f := start(t, map[string]any{})
	f.namespaces("templates")
	f.template("templates", "fedora")
	second, err := f.RunAPIServer(t.Context(), "-second")
	f.must(err)
	t.Run("one after the other restarts", func(t *testing.T) {
		const clients = 3
		l := f.load(clients)
		l.more(t, 50)
		replicas := []*controlplane.Virtward{f.VirtwardAPIServerProcess(), second}
		for _, replica := range replicas {
			f.must(replica.Stop())
			l.more(t, 50)
			f.must(replica.Start(t.Context()))
			l.more(t, 50)
		}
		// Without kube-proxy, the kernel resets connections that wait for a replica when it ends: one of each client at most.
		l.ends(t, int64(clients*len(replicas)))
	})
	t.Run("a new certificate", func(t *testing.T) {
		f.t = t
		before := f.secret().Data
		l := f.load(3)
		f.takeOut(certificates.CertificateKey, certificates.PrivateKey)
		f.awaitRotated(before, certificates.CertificateKey)
		time.Sleep(3 * time.Second) // the replicas read the file
		l.more(t, 50)
		l.ends(t, 0)
	})
	t.Run("a new CA", func(t *testing.T) {
		f.t = t
		before := f.secret().Data
		l := f.load(3)
		f.takeOut(certificates.AuthorityPrivateKey)
		f.awaitRotated(before, certificates.AuthorityKey, certificates.CertificateKey)
		l.more(t, 50)
		l.ends(t, 0)
		for _, name := range []string{"v1alpha1." + subresources.Group, "v1beta1." + subresources.Group} {
			registration := &unstructured.Unstructured{}
			registration.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
			f.must(f.Client().Get(t.Context(), client.ObjectKey{Name: name}, registration))
			if bundle, _, _ := unstructured.NestedString(registration.Object, "spec", "caBundle"); bundle == "" {
				t.Errorf("%s has no bundle", name)
			}
		}
	})
	t.Run("kube-apiserver restarts", func(t *testing.T) {
		f.t = t
		f.must(f.RestartAPIServer(t.Context()))
		await.Until(t, func() error {
			_, err := f.post(f.Config(), "templates", "fedora", subresources.Create, named("after-restart"), "dryRun=All")
			return err
		})
	})
}

func (f *fixture) secret() *corev1.Secret {
	f.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: controlplane.VirtwardNamespace, Name: "virtward-apiserver-cert"}}
	f.must(f.Client().Get(f.t.Context(), client.ObjectKeyFromObject(secret), secret))
	return secret
}

// takeOut removes keys of the Secret, so that they are made again.
func (f *fixture) takeOut(keys ...string) {
	f.t.Helper()
	secret := f.secret()
	for _, key := range keys {
		delete(secret.Data, key)
	}
	f.must(f.Client().Update(f.t.Context(), secret))
}

// awaitRotated waits until the values of some keys are other ones, and the rotation has ended.
func (f *fixture) awaitRotated(before map[string][]byte, keys ...string) {
	f.t.Helper()
	await.Until(f.t, func() error {
		data := f.secret().Data
		for _, key := range keys {
			if len(data[key]) == 0 || string(data[key]) == string(before[key]) {
				return fmt.Errorf("%s is not replaced", key)
			}
		}
		if _, found := data[certificates.PreviousAuthorityKey]; found {
			return fmt.Errorf("the previous CA is still trusted")
		}
		if _, found := data[certificates.TokenKey]; found {
			return fmt.Errorf("there is a token, which this API does not need")
		}
		return nil
	})
}
