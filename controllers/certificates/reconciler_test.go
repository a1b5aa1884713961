package certificates

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/certificates"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/kills"
	"github.com/virtward/virtward/test/planes"
)

const (
	namespace  = "default"
	secretName = "certificates"
	service    = "virtward-webhook"
	mutating   = "mutate.certificates.test"
	validating = "validate.certificates.test"
	settle     = 2 * time.Minute
	// lag is how late a replica or an API server may learn of a write: any time below settle.
	lag = settle - time.Second
)

// TestWithAPIServer shares one control plane, which takes longer to start than the tests take.
func TestWithAPIServer(t *testing.T) {
	cluster := planes.Start(t, controlplane.Options{CRDs: []*apiextensionsv1.CustomResourceDefinition{}})
	t.Run("Kills", func(t *testing.T) { testKills(t, cluster.Config()) })
	t.Run("KillsOfAPIServices", func(t *testing.T) { testKillsOfAPIServices(t, cluster.Config()) })
	t.Run("AnotherAPIService", func(t *testing.T) { testAnotherAPIService(t, cluster.Config()) })
	t.Run("SecondRequest", func(t *testing.T) { testSecondRequest(t, cluster.Config()) })
}

// testKills kills the controller after every write of a rotation. Its successor starts at once, or after a long time.
func testKills(t *testing.T, config *rest.Config) {
	killAfterEachWrite(t, map[string]rotation{
		// The Secret; the paths of both configurations; the Secret without the previous token.
		"pair": {
			keys: []string{certificates.CertificateKey, certificates.PrivateKey}, writes: 4,
			gone: []string{certificates.CertificateKey, certificates.TokenKey},
		},
		// The Secret with the new CA; both bundles; then as above, and both bundles without the previous CA.
		"CA": {
			keys: []string{certificates.AuthorityPrivateKey}, writes: 9,
			gone: []string{certificates.AuthorityKey, certificates.CertificateKey, certificates.TokenKey},
		},
	}, func(t *testing.T) *installation { return install(t, config) })
}

// rotation is a rotation that the removal of keys from the Secret causes.
type rotation struct {
	keys   []string // removed from the Secret
	writes int      // of a rotation without conflicts
	gone   []string // keys whose values are other ones in the end
}

// killAfterEachWrite kills the controller after every write of each rotation.
func killAfterEachWrite(t *testing.T, rotations map[string]rotation, install func(*testing.T) *installation) {
	t.Helper()
	for name, c := range rotations {
		for killed := range c.writes {
			for _, away := range []time.Duration{0, settle / 2, 10 * settle} {
				t.Run(fmt.Sprintf("%s/after write %d/away for %s", name, killed, away), func(t *testing.T) {
					i := install(t)
					before := maps.Clone(i.secret(t).Data)
					i.takeOut(t, c.keys...)
					i.run(t, killed)
					i.clock.Step(away)
					i.run(t, -1)
					i.rotated(t, before, c.gone)
				})
			}
		}
		t.Run(name+"/undisturbed", func(t *testing.T) {
			i := install(t)
			before := maps.Clone(i.secret(t).Data)
			i.takeOut(t, c.keys...)
			i.run(t, -1)
			i.rotated(t, before, c.gone)
			if i.writes != c.writes {
				t.Errorf("%d writes, want %d: the kills do not cover every step", i.writes, c.writes)
			}
		})
	}
}

// testSecondRequest asks for something else after every write of a rotation of the CA.
func testSecondRequest(t *testing.T, config *rest.Config) {
	for name, keys := range map[string][]string{
		"another CA":   {certificates.AuthorityPrivateKey},
		"another pair": {certificates.CertificateKey, certificates.PrivateKey},
	} {
		for after := 1; after <= 9; after++ {
			t.Run(fmt.Sprintf("%s/after write %d", name, after), func(t *testing.T) {
				i := install(t, config)
				before := maps.Clone(i.secret(t).Data)
				i.takeOut(t, certificates.AuthorityPrivateKey)
				i.run(t, after)
				between := maps.Clone(i.secret(t).Data)
				i.takeOut(t, keys...)
				i.run(t, -1)
				i.rotated(t, before, []string{certificates.AuthorityKey, certificates.CertificateKey, certificates.TokenKey})
				data := i.secret(t).Data
				if bytes.Equal(data[keys[0]], between[keys[0]]) {
					t.Errorf("the second request has no effect on %s", keys[0])
				}
			})
		}
	}
}

// installation is the Secret and the two webhook configurations, with everything that they were before.
type installation struct {
	config *rest.Config
	client kubernetes.Interface
	clock  *clocktesting.FakeClock
	writes int // of controllers

	secrets []version[map[string][]byte]
	called  map[string][]version[called] // by the path without a token, or by the name of the APIService

	// apiServices are called in place of webhooks if there are some.
	apiServices []string
}

// called is how the API server calls a target.
type called struct {
	bundle []byte
	path   string
}

// version is a state of an object, from the time on when it was written.
type version[T any] struct {
	from  time.Time
	state T
}

// current are the versions that clients can still use.
func current[T any](all []version[T], now time.Time) []T {
	var used []T
	for i, v := range all {
		if i == len(all)-1 || now.Sub(all[i+1].from) <= lag {
			used = append(used, v.state)
		}
	}
	return used
}

// install makes the objects as the chart does, and lets a controller complete them.
func install(t *testing.T, config *rest.Config) *installation {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{config: config, client: client, clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second))}
	none, ignore := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	target := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: service, Path: &path}}
	}
	_, err = client.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: mutating},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: mutating, SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"}, ClientConfig: target("/mutate"),
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: validating},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: validating, SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"}, ClientConfig: target("/validate"),
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := errors.Join(
			client.CoreV1().Secrets(namespace).Delete(ctx, secretName, metav1.DeleteOptions{}),
			client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, mutating, metav1.DeleteOptions{}),
			client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, validating, metav1.DeleteOptions{}),
		)
		if err != nil {
			t.Error(err)
		}
	})
	i.run(t, -1)
	i.clock.Step(10 * settle)
	i.writes, i.secrets, i.called = 0, nil, map[string][]version[called]{}
	i.record(t)
	return i
}

// run runs a controller until nothing is left to do, or until it is killed after a number of writes.
func (i *installation) run(t *testing.T, kill int) {
	t.Helper()
	config := rest.CopyConfig(i.config)
	connection := &kills.Connection{Left: kill, Written: func() {
		i.writes++
		if i.called != nil {
			i.record(t)
			i.check(t)
		}
	}}
	config.Wrap(connection.Wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	options := Options{
		Client: client, Dynamic: objects, Namespace: namespace, Secret: secretName, Service: service,
		Settle: settle, Interval: time.Hour, Clock: i.clock, Log: logr.Discard(), APIServices: i.apiServices,
	}
	if len(i.apiServices) == 0 {
		options.Mutating, options.Validating, options.MutatePath, options.ValidatePath, options.DeletionsPath = mutating, validating, "/mutate", "/validate", "/deletions"
	}
	reconciler := New(options)
	for range 50 {
		before := i.writes
		result, err := reconciler.Reconcile(t.Context(), reconciler.keys()[0])
		switch {
		case errors.Is(err, kills.Err):
			return
		case err != nil:
			t.Fatal(err)
		case i.writes > before: // its watches ask for another attempt at once
		case result.RequeueAfter == time.Hour:
			return
		default:
			i.clock.Step(result.RequeueAfter)
		}
	}
	t.Fatal("the rotation does not end")
}

// record takes down what has changed.
func (i *installation) record(t *testing.T) {
	t.Helper()
	if data := i.secret(t).Data; len(i.secrets) == 0 || !maps.EqualFunc(i.secrets[len(i.secrets)-1].state, data, bytes.Equal) {
		i.secrets = append(i.secrets, version[map[string][]byte]{i.clock.Now(), data})
	}
	for name, config := range i.targets(t) {
		history := i.called[name]
		if n := len(history); n == 0 || !bytes.Equal(history[n-1].state.bundle, config.bundle) || history[n-1].state.path != config.path {
			i.called[name] = append(history, version[called]{i.clock.Now(), config})
		}
	}
}

// check calls the webhooks in every way that is possible now: a replica may serve by an earlier Secret, and an API server
// may call by an earlier configuration. It reports the first failure of each webhook.
func (i *installation) check(t *testing.T) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(i.called)) {
		if err := i.calls(name); err != nil {
			t.Errorf("after write %d, a call of %s fails: %v", i.writes, name, err)
		}
	}
}

func (i *installation) calls(name string) error {
	for _, config := range current(i.called[name], i.clock.Now()) {
		for _, data := range i.servedBy() {
			if err := i.call(config, name, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// servedBy are the data that replicas may use: without a pair, a replica keeps those that it has.
func (i *installation) servedBy() []map[string][]byte {
	usable := slices.DeleteFunc(slices.Clone(i.secrets), func(v version[map[string][]byte]) bool {
		return len(v.state[certificates.CertificateKey]) == 0
	})
	return current(usable, i.clock.Now())
}

// call tells why an API server with a configuration cannot call a replica that has the data of a Secret.
func (i *installation) call(config called, webhook string, data map[string][]byte) error {
	pair, err := tls.X509KeyPair(data[certificates.CertificateKey], data[certificates.PrivateKey])
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.bundle)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: service + "." + namespace + ".svc"}); err != nil {
		return err
	}
	token := strings.TrimPrefix(strings.TrimPrefix(config.path, webhook), "/")
	if len(i.apiServices) == 0 && !slices.Contains(certificates.Tokens(data), token) {
		return errors.New("404 Not Found: the token is unknown")
	}
	return nil
}

// rotated fails the test unless the rotation has ended, and has replaced what it should.
func (i *installation) rotated(t *testing.T, before map[string][]byte, replaced []string) {
	t.Helper()
	data := i.secret(t).Data
	for _, key := range []string{certificates.PreviousAuthorityKey, certificates.PreviousTokenKey} {
		if _, found := data[key]; found {
			t.Errorf("%s is still there", key)
		}
	}
	for _, key := range []string{certificates.AuthorityKey, certificates.CertificateKey, certificates.TokenKey} {
		if got, want := !bytes.Equal(before[key], data[key]), slices.Contains(replaced, key); got != want {
			t.Errorf("%s is replaced: %v, want %v", key, got, want)
		}
	}
	for name, config := range i.targets(t) {
		if want := name + "/" + string(data[certificates.TokenKey]); len(i.apiServices) == 0 && config.path != want {
			t.Errorf("path %s, want %s", config.path, want)
		}
		if block, rest := pem.Decode(config.bundle); block == nil || len(rest) > 0 || !bytes.Equal(config.bundle, data[certificates.AuthorityKey]) {
			t.Errorf("the bundle of %s is not only the CA", name)
		}
	}
	if _, found := data[certificates.TokenKey]; found != (len(i.apiServices) == 0) {
		t.Errorf("there is a token: %t", found)
	}
}

// takeOut removes keys of the Secret, as an admin does who wants new ones.
func (i *installation) takeOut(t *testing.T, keys ...string) {
	t.Helper()
	secret := i.secret(t)
	for _, key := range keys {
		delete(secret.Data, key)
	}
	if _, err := i.client.CoreV1().Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	i.record(t)
}

func (i *installation) secret(t *testing.T) *corev1.Secret {
	t.Helper()
	secret, err := i.client.CoreV1().Secrets(namespace).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// targets say how the API server calls each webhook, by its path without a token, or each APIService.
func (i *installation) targets(t *testing.T) map[string]called {
	t.Helper()
	if len(i.apiServices) > 0 {
		return i.bundles(t)
	}
	mutator, err := i.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), mutating, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checks, err := i.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), validating, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	of := func(config admissionregistrationv1.WebhookClientConfig) called {
		return called{config.CABundle, *config.Service.Path}
	}
	return map[string]called{"/mutate": of(mutator.Webhooks[0].ClientConfig), "/validate": of(checks.Webhooks[0].ClientConfig)}
}
