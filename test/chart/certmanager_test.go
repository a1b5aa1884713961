package chart

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/soak"
)

// The certificates of the chart with provider cert-manager.
const (
	webhookCertificate = "virtward-webhook"
	apiCertificate     = "virtward-apiserver"
	caCertificate      = "virtward-webhook-ca"
)

// certManaged is an installation whose certificates cert-manager issues.
type certManaged struct {
	*installation

	// ended is closed when cert-manager ends.
	ended chan struct{}
}

// TestSoakCertManager installs the chart beside cert-manager's own controllers. Certificates and their CA are renewed while
// virtual machines are created all the time: no request fails, and none passes without the webhooks. The renewed CA has the key of
// the one before, so bundles of both verify the serving certificates of both.
func TestSoakCertManager(t *testing.T) {
	soak.Only(t)
	started := pool.Take(t)
	c := &certManaged{installation: &installation{ctx: t.Context(), controlPlane: started, client: started.Client()}}
	c.start(t)
	began := time.Now()
	_, err := started.InstallVirtward(t.Context(), map[string]any{
		"certificates": map[string]any{"provider": "cert-manager"}, "templates": map[string]any{"mode": "manage"},
	}, controlplane.Workload{})
	must(t, err)
	for _, name := range []string{caCertificate, webhookCertificate, apiCertificate} {
		c.await(t, "issue of "+name, func() error { return c.isIssued(name, 1) })
	}
	c.await(t, "injection of the CA", c.injected)
	c.await(t, "the aggregated API", c.available)
	issued := time.Since(began)

	l := c.load(t)
	l.passes(t, 50)
	for revision := 2; revision <= 3; revision++ {
		for _, name := range []string{webhookCertificate, apiCertificate} {
			c.renew(t, name, revision)
		}
		l.passes(t, 50)
	}
	authority := c.secret(t, caCertificate).Data[corev1.TLSCertKey]
	c.renew(t, caCertificate, 2)
	if bytes.Equal(authority, c.secret(t, caCertificate).Data[corev1.TLSCertKey]) {
		t.Error("the CA has the same certificate")
	}
	l.passes(t, 50)
	for _, name := range []string{webhookCertificate, apiCertificate} {
		c.renew(t, name, 4)
		if got := c.secret(t, c.secretOf(t, name)).Data["ca.crt"]; bytes.Equal(got, authority) {
			t.Errorf("the certificate %s has the old CA", name)
		}
	}
	c.await(t, "injection of the renewed CA", c.injected)
	l.passes(t, 100)
	l.end(t)
	c.forgets(t, authority)
	t.Logf("certificates in use after %s; %d virtual machines created, %d denied and %d calls of the aggregated API in %s, with 3 renewals of each serving certificate and one of the CA",
		issued.Round(time.Second), l.created.Load(), l.denied.Load(), l.called.Load(), time.Since(began).Round(time.Second))
}

// start runs cert-manager, with the definitions of its module.
func (c *certManaged) start(t *testing.T) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
	list.Dir = filepath.Join(root, "test", "certmanager")
	module, err := list.Output()
	must(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "deploy", "crds", "*.yaml"))
	must(t, err)
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		definition := &apiextensionsv1.CustomResourceDefinition{}
		must(t, yaml.Unmarshal(content, definition))
		definitions = append(definitions, definition)
	}
	if len(definitions) == 0 {
		t.Fatal("the module of cert-manager has no definitions")
	}
	must(t, c.controlPlane.InstallCRDs(t.Context(), definitions...))
	var output bytes.Buffer
	process := exec.CommandContext(t.Context(), c.controlPlane.Binary(filepath.Join("sandbox", "cert-manager")))
	process.Env = append(os.Environ(), "KUBECONFIG="+c.controlPlane.Kubeconfig())
	process.Stdout, process.Stderr, process.SysProcAttr = &output, &output, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, process.Start())
	c.ended = make(chan struct{})
	go func() {
		_ = process.Wait() // the log says why
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill()
		<-c.ended
		if text := output.String(); t.Failed() {
			t.Logf("cert-manager:\n%s", text[max(0, len(text)-4000):])
		}
	})
}

func (c *certManaged) await(t *testing.T, what string, do func() error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		if err = do(); err == nil {
			return
		}
		select {
		case <-c.ended:
			t.Fatalf("%s: cert-manager has ended: %v", what, err)
		default:
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func (c *certManaged) certificate(name string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	return object, c.client.Get(c.ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
}

func (c *certManaged) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	must(t, c.client.Get(c.ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret))
	return secret
}

func (c *certManaged) secretOf(t *testing.T, name string) string {
	t.Helper()
	object, err := c.certificate(name)
	must(t, err)
	secret, _, _ := unstructured.NestedString(object.Object, "spec", "secretName")
	return secret
}

// isIssued returns an error while a certificate has not been issued a number of times.
func (c *certManaged) isIssued(name string, revision int) error {
	object, err := c.certificate(name)
	if err != nil {
		return err
	}
	got, _, _ := unstructured.NestedInt64(object.Object, "status", "revision")
	if got < int64(revision) {
		return fmt.Errorf("%v", object.Object["status"])
	}
	return nil
}

// renew renews a certificate as cert-manager's command does, and waits until it is in use.
func (c *certManaged) renew(t *testing.T, name string, revision int) {
	t.Helper()
	c.await(t, "request of a renewal", func() error {
		object, err := c.certificate(name)
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		conditions = append(conditions, map[string]any{
			"type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "renewed by a test",
			"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339), "observedGeneration": object.GetGeneration(),
		})
		if err := unstructured.SetNestedSlice(object.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		return c.client.Status().Update(c.ctx, object)
	})
	c.await(t, "renewal of "+name, func() error { return c.isIssued(name, revision) })
	if name != caCertificate {
		c.await(t, "use of "+name, func() error { return c.isServed(name) })
	}
}

// isServed returns an error while a server has another certificate than the Secret.
func (c *certManaged) isServed(name string) error {
	object, err := c.certificate(name)
	if err != nil {
		return err
	}
	secretName, _, _ := unstructured.NestedString(object.Object, "spec", "secretName")
	secret := &corev1.Secret{}
	if err := c.client.Get(c.ctx, client.ObjectKey{Namespace: namespace, Name: secretName}, secret); err != nil {
		return err
	}
	port, err := c.port(name)
	if err != nil {
		return err
	}
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // only its certificate is read
	connection, err := dialer.DialContext(c.ctx, "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	if err != nil {
		return err
	}
	defer connection.Close()
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		return errors.New("the Secret has no certificate")
	}
	if !bytes.Equal(connection.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw, block.Bytes) { //nolint:forcetypeassert // as crypto/tls documents
		return errors.New("the server has another certificate")
	}
	return nil
}

// port is that of the server of a certificate.
func (c *certManaged) port(certificate string) (int64, error) {
	if certificate == webhookCertificate {
		configuration := &admissionv1.ValidatingWebhookConfiguration{}
		err := c.client.Get(c.ctx, client.ObjectKey{Name: "validate.virtward.io"}, configuration)
		if err != nil {
			return 0, err
		}
		return int64(*configuration.Webhooks[0].ClientConfig.Service.Port), nil
	}
	service, err := c.apiService("v1beta1.subresources.template.kubevirt.io")
	if err != nil {
		return 0, err
	}
	port, _, err := unstructured.NestedInt64(service.Object, "spec", "service", "port")
	return port, err
}

func (c *certManaged) apiService(name string) (*unstructured.Unstructured, error) {
	service := &unstructured.Unstructured{}
	service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
	return service, c.client.Get(c.ctx, client.ObjectKey{Name: name}, service)
}

// injected returns an error while a bundle lacks the CA of its certificate. The cainjector keeps the CA before until it expires.
func (c *certManaged) injected() error {
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	webhook, server := &corev1.Secret{}, &corev1.Secret{}
	err := errors.Join(
		c.client.Get(c.ctx, client.ObjectKey{Name: "mutate.virtward.io"}, mutating),
		c.client.Get(c.ctx, client.ObjectKey{Name: "validate.virtward.io"}, validating),
		c.client.Get(c.ctx, client.ObjectKey{Namespace: namespace, Name: "virtward-webhook-tls"}, webhook),
		c.client.Get(c.ctx, client.ObjectKey{Namespace: namespace, Name: "virtward-apiserver-tls"}, server),
	)
	if err != nil {
		return err
	}
	for i := range mutating.Webhooks {
		if !bytes.Contains(mutating.Webhooks[i].ClientConfig.CABundle, webhook.Data["ca.crt"]) {
			return fmt.Errorf("mutating webhook %s has another bundle", mutating.Webhooks[i].Name)
		}
	}
	for i := range validating.Webhooks {
		if !bytes.Contains(validating.Webhooks[i].ClientConfig.CABundle, webhook.Data["ca.crt"]) {
			return fmt.Errorf("validating webhook %s has another bundle", validating.Webhooks[i].Name)
		}
	}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		service, err := c.apiService(version + ".subresources.template.kubevirt.io")
		if err != nil {
			return err
		}
		encoded, _, _ := unstructured.NestedString(service.Object, "spec", "caBundle")
		bundle, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || !bytes.Contains(bundle, server.Data["ca.crt"]) {
			return fmt.Errorf("APIService %s has another bundle (%v)", service.GetName(), err) //nolint:errorlint // it can be nil
		}
	}
	return nil
}

// forgets removes the bundle of a webhook, as after a stolen key. The cainjector writes it without the CA before.
func (c *certManaged) forgets(t *testing.T, before []byte) {
	t.Helper()
	configuration := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mutate.virtward.io"}}
	remove := `[{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]`
	must(t, c.client.Patch(c.ctx, configuration, client.RawPatch(apitypes.JSONPatchType, []byte(remove))))
	c.await(t, "injection of the CA", c.injected)
	must(t, c.client.Get(c.ctx, client.ObjectKeyFromObject(configuration), configuration))
	if bytes.Contains(configuration.Webhooks[0].ClientConfig.CABundle, before) {
		t.Error("the bundle has the CA before")
	}
}

// available returns an error while the API server does not reach the aggregated API.
func (c *certManaged) available() error {
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		service, err := c.apiService(version + ".subresources.template.kubevirt.io")
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
		if len(conditions) == 0 || conditions[0].(map[string]any)["status"] != "True" {
			return fmt.Errorf("%v", conditions)
		}
	}
	return nil
}

// load creates virtual machines all the time, with the rights of a user.
type load struct {
	created, denied, called atomic.Int64

	stop context.CancelFunc
	done sync.WaitGroup
	mu   sync.Mutex
	errs []string
}

func (l *load) fails(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errs) < 5 {
		l.errs = append(l.errs, fmt.Sprintf(format, args...))
	}
}

func (c *certManaged) load(t *testing.T) *load {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "vm-authors"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"kubevirt.io"}, Resources: []string{"virtualmachines", "virtualmachineinstances"}, Verbs: []string{"create", "delete"},
	}}}
	must(t, c.client.Create(c.ctx, role))
	must(t, c.client.Create(c.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "alice"}},
	}))
	config, err := c.controlPlane.UserConfig("alice")
	must(t, err)
	alice, err := client.New(config, client.Options{Scheme: c.client.Scheme()})
	must(t, err)
	raw, err := kubernetes.NewForConfig(c.controlPlane.Config())
	must(t, err)
	impossible := build.VMI("impossible").Architecture("arm64").With(func(spec *kubevirtv1.VirtualMachineInstanceSpec) {
		spec.Domain.Firmware = &kubevirtv1.Firmware{Bootloader: &kubevirtv1.Bootloader{BIOS: &kubevirtv1.BIOS{}}}
	})
	c.await(t, "the webhooks", func() error { // the API server reads new configurations and rights a moment later
		if err := alice.Create(c.ctx, impossible.Obj()); err == nil || !strings.Contains(err.Error(), "arm64-bios") {
			return fmt.Errorf("error %w", err)
		}
		return nil
	})
	ctx, stop := context.WithCancel(c.ctx)
	l := &load{stop: stop}
	t.Cleanup(stop)
	each := func(do func(number int)) {
		l.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				do(n)
				<-time.After(10 * time.Millisecond)
			}
		})
	}
	for worker := range 2 {
		each(func(n int) {
			vm := build.VM(fmt.Sprintf("load-%d-%d", worker, n)).Obj()
			switch err := alice.Create(c.ctx, vm); {
			case err != nil:
				l.fails("creation: %v", err)
			case vm.Spec.Template.Spec.Architecture == "":
				l.fails("%s is not completed", vm.Name)
			default:
				l.created.Add(1)
			}
			_ = alice.Delete(c.ctx, vm) // the next one has another name
		})
	}
	each(func(int) {
		if err := alice.Create(c.ctx, impossible.Obj()); err == nil || !strings.Contains(err.Error(), "arm64-bios") {
			l.fails("an instance that cannot run: %v", err)
			return
		}
		l.denied.Add(1)
	})
	each(func(int) {
		if err := raw.RESTClient().Get().AbsPath("/apis/subresources.template.kubevirt.io/v1beta1").Do(c.ctx).Error(); err != nil {
			l.fails("aggregated API: %v", err)
			return
		}
		l.called.Add(1)
	})
	return l
}

// passes waits until each kind of request has passed a number of times more.
func (l *load) passes(t *testing.T, times int64) {
	t.Helper()
	created, denied, called := l.created.Load()+times, l.denied.Load()+times, l.called.Load()+times
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		if l.created.Load() >= created && l.denied.Load() >= denied && l.called.Load() >= called {
			return
		}
	}
	t.Errorf("%d created, %d denied, %d calls", l.created.Load(), l.denied.Load(), l.called.Load())
}

// end stops the load, and fails if a request failed.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.done.Wait()
	for _, err := range l.errs {
		t.Error(err)
	}
}
