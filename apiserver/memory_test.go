package apiserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	kubevirtv1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/limits/memory"
	"github.com/virtward/virtward/test/isolated"
)

// backend is a cluster with one template. It encodes and decodes objects as a client does.
type backend struct {
	template []byte
	// read is called for each template that is read.
	read func(namespace string)
}

func (b *backend) Template(_ context.Context, namespace, _ string) (*v1beta1.VirtualMachineTemplate, error) {
	if b.read != nil {
		b.read(namespace)
	}
	template := &v1beta1.VirtualMachineTemplate{}
	return template, json.Unmarshal(bytes.Clone(b.template), template)
}

func (b *backend) Import(_ context.Context, _, name string) (*v1beta1.VirtualMachineTemplateImport, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "template.kubevirt.io", Resource: "virtualmachinetemplateimports"}, name)
}

func (b *backend) GuardedSince(context.Context, *admissionpolicies.Guard) (time.Time, error) {
	return time.Time{}, nil
}

func (b *backend) Namespace(_ context.Context, name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

func (b *backend) Templates(context.Context, int64, string) (page []v1beta1.VirtualMachineTemplate, next string, err error) {
	return nil, "", nil
}

func (b *backend) DataSource(context.Context, string, string) (*cdiv1beta1.DataSource, error) {
	return nil, apierrors.NewNotFound(templateResource, "none")
}

func (b *backend) CreateVirtualMachine(_ context.Context, vm *kubevirtv1.VirtualMachine, _ metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error) {
	sent, err := json.Marshal(vm)
	if err != nil {
		return nil, err
	}
	created := &kubevirtv1.VirtualMachine{}
	return created, json.Unmarshal(sent, created)
}

func (b *backend) WriteApproval(context.Context, *v1beta1.VirtualMachineTemplate, *v1beta1.TemplateApproval, metav1.Condition) error {
	return nil
}

// serve serves the API in this process.
func serve(t *testing.T, cluster Cluster, m *gates) *httptest.Server {
	t.Helper()
	scheme := NewScheme()
	codecs := serializer.NewCodecFactory(scheme)
	config := NewConfig(codecs, scheme, nil)
	config.ExternalAddress, config.LoopbackClientConfig = "localhost:443", &rest.Config{}
	config.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "joe"}}, true, nil
	})
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	})
	config.BuildHandlerChainFunc = func(handler http.Handler, c *genericapiserver.Config) http.Handler {
		return genericapiserver.DefaultBuildHandlerChain(m.bodies(handler, codecs), c)
	}
	server, err := config.Complete().New("test", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	services := &Services{
		Cluster: cluster, Authorizer: config.Authorization.Authorizer, Random: rand.New(rand.NewPCG(1, 2)), Clock: clock.RealClock{}, memory: m, //nolint:gosec // a test
	}
	services.Keys, _ = newKeys(t)
	if err := Install(server, scheme, codecs, services); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(server.Handler)
	t.Cleanup(s.Close)
	return s
}

const at = "/apis/" + subresources.Group + "/v1beta1/namespaces/a/virtualmachinetemplates/b/"

func post(t *testing.T, s *httptest.Server, subresource string, body io.Reader) (code int, header http.Header) {
	t.Helper()
	return postTo(t, s, "a", subresource, body)
}

// postTo sends a request of a namespace.
func postTo(t *testing.T, s *httptest.Server, namespace, subresource string, body io.Reader) (code int, header http.Header) {
	t.Helper()
	response, err := s.Client().Post(s.URL+strings.Replace(at, "/a/", "/"+namespace+"/", 1)+subresource, "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header
}

func templateOf(t *testing.T, vm, message string, parameters ...v1beta1.Parameter) []byte {
	t.Helper()
	written, err := json.Marshal(&v1beta1.VirtualMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "u"},
		Spec:       v1beta1.VirtualMachineTemplateSpec{VirtualMachine: &kruntime.RawExtension{Raw: []byte(vm)}, Message: message, Parameters: parameters},
	})
	if err != nil {
		t.Fatal(err)
	}
	return written
}

const minimal = `{"metadata":{"name":"web"},"spec":{"runStrategy":"Halted","template":{"spec":{"domain":{"devices":{}}}}}}`

// TestRenderMemory measures what a request allocates in total, which is more than it holds at any time.
func TestRenderMemory(t *testing.T) {
	if !isolated.Run(t) {
		return
	}
	long := strings.Repeat("a", 1<<20)
	for name, tc := range map[string]struct {
		template []byte
		given    map[string]string
	}{
		"a small VirtualMachine": {templateOf(t, minimal, ""), nil},
		"many references to a long value": {
			templateOf(t, `{"metadata":{"name":"web","annotations":{"a":"`+strings.Repeat("${A}", 300)+`"}},"spec":{"template":{"spec":{"domain":{"devices":{}}}}}}`, "", v1beta1.Parameter{Name: "A"}),
			map[string]string{"A": strings.Repeat("a", 4000)},
		},
		"a long text":          {templateOf(t, `{"metadata":{"name":"web","annotations":{"a":"`+long+`"}},"spec":{"template":{"spec":{"domain":{"devices":{}}}}}}`, ""), nil},
		"a long text to write": {templateOf(t, `{"metadata":{"name":"web","annotations":{"a":"`+strings.Repeat("<", 1<<18)+`"}},"spec":{"template":{"spec":{"domain":{"devices":{}}}}}}`, ""), nil},
		"many objects":         {templateOf(t, `{"metadata":{"name":"web"},"spec":{"template":{"spec":{"domain":{"devices":{"disks":[`+strings.Repeat(`{},`, 4900)+`{}]}}}}}}`, ""), nil},
		"many volumes":         {templateOf(t, `{"metadata":{"name":"web"},"spec":{"template":{"spec":{"domain":{"devices":{}},"volumes":[`+strings.Repeat(`{"name":"a","containerDisk":{"image":"b"}},`, 2400)+`{}]}}}}`, ""), nil},
		"many given values": {templateOf(t, minimal, "", v1beta1.Parameter{Name: "A"}), func() map[string]string {
			given := map[string]string{}
			for i := range 500 {
				given[fmt.Sprintf("A%d", i)] = strings.Repeat("a", 1000)
			}
			return given
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := json.Marshal(&subresources.ProcessOptions{Parameters: tc.given})
			if err != nil {
				t.Fatal(err)
			}
			template := &v1beta1.VirtualMachineTemplate{}
			if err := json.Unmarshal(tc.template, template); err != nil {
				t.Fatal(err)
			}
			s := serve(t, &backend{template: tc.template}, newGates(defaultInFlight))
			post(t, s, "create", bytes.NewReader(body)) // what is made once
			before := isolated.Allocated()
			code, _ := post(t, s, "create", bytes.NewReader(body))
			used := isolated.Allocated() - before
			reserved := renderMemory(&template.Spec, tc.given) + templateMemory + bodyCopies*int64(len(body))
			t.Logf("%d: %6d KiB of %6d KiB, of which the render has %d KiB", code, used>>10, reserved>>10, renderMemory(&template.Spec, tc.given)>>10)
			if used > reserved {
				t.Errorf("the request allocates %d KiB, and reserves %d KiB", used>>10, reserved>>10)
			}
		})
	}
}

// returned reports what is not given back.
func (m *gates) returned(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for name, shares := range map[string]struct {
		*memory.Shares

		total int64
	}{"reads": {m.reads, maxReads}, "imports": {m.imports, maxImportReads}, "small renders": {m.smallRenders, MaxSmallRenders}, "large renders": {m.largeRenders, MaxLargeRenders}} {
		for _, half := range []string{"one", "other"} {
			release, err := shares.Acquire(soon, half, shares.total/2)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			defer release()
		}
	}
	for name, parts := range map[string]struct {
		*memory.Parts

		total int64
	}{"places": {m.places, defaultInFlight * 3 / 4}, "small bodies": {m.smallBodies, MaxSmallBodies}, "large bodies": {m.largeBodies, MaxLargeBodies}} {
		release, err := parts.Acquire(soon, "one", parts.total/2)
		for err != nil && soon.Err() == nil { // the answer arrives before the end of the handler
			runtime.Gosched()
			release, err = parts.Acquire(soon, "one", parts.total/2)
		}
		if err != nil {
			return fmt.Errorf("%s are not given back", name)
		}
		release()
	}
	return nil
}

// TestBusy holds that requests of a namespace whose reads are not answered get 429 above its part, that other namespaces are
// served meanwhile, and that everything is given back.
func TestBusy(t *testing.T) {
	const most = (defaultInFlight*3/4 + 1) / 2 // places of one namespace
	m := newGates(defaultInFlight)
	started, proceed := make(chan struct{}, 1000), make(chan struct{})
	cluster := &backend{template: templateOf(t, minimal, ""), read: func(namespace string) {
		if namespace == "a" {
			started <- struct{}{}
			<-proceed
		}
	}}
	m.wait = time.Hour // only places decide
	s := serve(t, cluster, m)
	codes := make(chan int, 1000)
	var group sync.WaitGroup
	for range 2 * most {
		group.Go(func() {
			code, header := post(t, s, "create", strings.NewReader("{}"))
			if code == http.StatusTooManyRequests && header.Get("Retry-After") != "1" {
				t.Errorf("Retry-After is %q", header.Get("Retry-After"))
			}
			codes <- code
		})
	}
	for range maxReads / 2 {
		<-started
	}
	for range most { // those above the part are answered while the reads hang
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Errorf("a request above the part of its namespace is answered with %d", code)
		}
	}
	for i := range 20 {
		for _, subresource := range []string{"create", "process"} {
			if code, _ := postTo(t, s, fmt.Sprintf("n%d", i), subresource, strings.NewReader("{}")); code != http.StatusCreated {
				t.Errorf("%s of another namespace is answered with %d", subresource, code)
			}
		}
	}
	close(proceed)
	group.Wait()
	close(codes)
	for code := range codes {
		if code != http.StatusCreated {
			t.Errorf("a request with a place is answered with %d", code)
		}
	}
	if err := m.returned(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestWait holds that a request that gets no memory in time is answered with 429.
func TestWait(t *testing.T) {
	m := newGates(defaultInFlight)
	m.wait = 50 * time.Millisecond
	release, err := m.smallRenders.Acquire(t.Context(), "namespace a", MaxSmallRenders/2)
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, &backend{template: templateOf(t, minimal, "")}, m)
	if code, header := post(t, s, "create", strings.NewReader("{}")); code != http.StatusTooManyRequests || header.Get("Retry-After") != "1" {
		t.Errorf("answered with %d, Retry-After %q", code, header.Get("Retry-After"))
	}
	release()
	if code, _ := post(t, s, "create", strings.NewReader("{}")); code != http.StatusCreated {
		t.Errorf("afterwards: %d", code)
	}
	if err := m.returned(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestDeadlines holds that each call to the API server ends, also if it is never answered.
func TestDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		call func(context.Context, Cluster) error
		want time.Duration
	}{
		"template":  {func(ctx context.Context, c Cluster) error { _, err := c.Template(ctx, "a", "b"); return err }, readTimeout},
		"templates": {func(ctx context.Context, c Cluster) error { _, _, err := c.Templates(ctx, 1, ""); return err }, readTimeout},
		"import":    {func(ctx context.Context, c Cluster) error { _, err := c.Import(ctx, "a", "b"); return err }, readTimeout},
		"guard": {func(ctx context.Context, c Cluster) error {
			_, err := c.GuardedSince(ctx, &admissionpolicies.Guard{})
			return err
		}, readTimeout},
		"namespace":  {func(ctx context.Context, c Cluster) error { _, err := c.Namespace(ctx, "a"); return err }, readTimeout},
		"DataSource": {func(ctx context.Context, c Cluster) error { _, err := c.DataSource(ctx, "a", "b"); return err }, readTimeout},
		"VirtualMachine": {func(ctx context.Context, c Cluster) error {
			_, err := c.CreateVirtualMachine(ctx, nil, metav1.CreateOptions{})
			return err
		}, createTimeout},
		"status": {func(ctx context.Context, c Cluster) error { return c.WriteApproval(ctx, nil, nil, metav1.Condition{}) }, statusTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := c.call(t.Context(), timed{silent{}})
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, not %v", took, c.want)
				}
				if !apierrors.IsTimeout(err) {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}

// silent never answers.
type silent struct{}

func (silent) Template(ctx context.Context, _, _ string) (*v1beta1.VirtualMachineTemplate, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Templates(ctx context.Context, _ int64, _ string) (page []v1beta1.VirtualMachineTemplate, next string, err error) {
	<-ctx.Done()
	return nil, "", ctx.Err()
}

func (silent) Import(ctx context.Context, _, _ string) (*v1beta1.VirtualMachineTemplateImport, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) GuardedSince(ctx context.Context, _ *admissionpolicies.Guard) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func (silent) Namespace(ctx context.Context, _ string) (*corev1.Namespace, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) DataSource(ctx context.Context, _, _ string) (*cdiv1beta1.DataSource, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) CreateVirtualMachine(ctx context.Context, _ *kubevirtv1.VirtualMachine, _ metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) WriteApproval(ctx context.Context, _ *v1beta1.VirtualMachineTemplate, _ *v1beta1.TemplateApproval, _ metav1.Condition) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestAuthorizing holds that one user whose permissions are not answered leaves room for others.
func TestAuthorizing(t *testing.T) {
	const places = 50
	waiting, proceed := make(chan struct{}, places), make(chan struct{})
	f := &fair{places: memory.NewParts(places), Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetUser().GetName() == "mallory" {
			waiting <- struct{}{}
			<-proceed
		}
		return authorizer.DecisionAllow, "", nil
	})}
	of := func(name string) authorizer.Attributes {
		return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name}}
	}
	var group sync.WaitGroup
	for range places / 2 {
		group.Go(func() { _, _, _ = f.Authorize(t.Context(), of("mallory")) })
	}
	for range places / 2 {
		<-waiting
	}
	if decision, _, err := f.Authorize(t.Context(), of("mallory")); decision != authorizer.DecisionNoOpinion || err == nil {
		t.Errorf("one more of the user: %v, %v", decision, err)
	}
	if decision := f.ConditionsAwareAuthorize(t.Context(), of("mallory")); decision.IsAllow() {
		t.Error("one more of the user is allowed")
	}
	if decision, _, err := f.Authorize(t.Context(), of("alice")); decision != authorizer.DecisionAllow {
		t.Errorf("another user: %v, %v", decision, err)
	}
	close(proceed)
	group.Wait()
}

// TestBodies holds that large bodies, and clients that send them slowly, do not take the memory of others.
func TestBodies(t *testing.T) {
	m := newGates(defaultInFlight)
	m.bodyTimeout = 500 * time.Millisecond
	s := serve(t, &backend{template: templateOf(t, minimal, "")}, m)
	large := []byte(`{"parameters":{"A":"` + strings.Repeat("a", MaxRequestBody) + `"}}`)
	if code, _ := post(t, s, "process", bytes.NewReader(large)); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: %d", code)
	}
	if code, _ := post(t, s, "process", io.MultiReader(bytes.NewReader(large))); code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large, without its length: %d", code)
	}
	if err := m.returned(t.Context()); err != nil {
		t.Fatal(err)
	}
	release, _ := m.largeBodies.Acquire(t.Context(), "namespace a", MaxLargeBodies/2)
	middle := []byte(`{"parameters":{"A":"` + strings.Repeat("a", 100<<10) + `"}}`)
	if code, _ := post(t, s, "process", bytes.NewReader(middle)); code != http.StatusTooManyRequests {
		t.Errorf("a large body without memory: %d", code)
	}
	if code, _ := post(t, s, "process", strings.NewReader("{}")); code != http.StatusCreated {
		t.Errorf("a small body beside large ones: %d", code)
	}
	if code, _ := postTo(t, s, "b", "process", bytes.NewReader(middle)); code != http.StatusCreated && code != http.StatusUnprocessableEntity {
		t.Errorf("a large body of another namespace: %d", code)
	}
	release()

	connection, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	fmt.Fprintf(connection, "POST %sprocess HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", at)
	began := time.Now()
	if err := connection.SetReadDeadline(began.Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	// The server answers that the body is late. Whether the answer arrives depends on when the server closes the connection.
	answer, err := http.ReadResponse(bufio.NewReader(connection), nil) //nolint:bodyclose // the connection is closed
	if took := time.Since(began); took >= 30*time.Second {
		t.Errorf("the connection with a slow body ends after %s: %v", took, err)
	}
	if err == nil && answer.StatusCode != http.StatusGatewayTimeout {
		t.Errorf("a slow body: %s", answer.Status)
	}
	if err := m.returned(t.Context()); err != nil { // it is given back after the answer
		t.Error(err)
	}
}
