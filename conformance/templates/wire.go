package templates

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"sigs.k8s.io/yaml"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/template/subresources"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/apiserver"
	"github.com/virtward/virtward/templates/approvals"
)

// WireCase is a request to the aggregated API: a line of wire.jsonl.
type WireCase struct {
	ID      string `json:"id"`
	Area    string `json:"area"`
	Denied  bool   `json:"denied"`
	Request struct {
		Method  string            `json:"method"`
		Path    string            `json:"path"`
		Query   string            `json:"query"`
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
		RawBody *string           `json:"rawBody"`
	} `json:"request"`
	Templates            []v1beta1.VirtualMachineTemplate `json:"templates"`
	TemplateAnswer       *metav1.Status                   `json:"templateAnswer"`
	VirtualMachineAnswer *metav1.Status                   `json:"virtualMachineAnswer"`
	Expect               WireAnswer                       `json:"expect"`
}

// WireAnswer is what virt-template answered.
type WireAnswer struct {
	Code     int             `json:"code"`
	Body     json.RawMessage `json:"body"`
	Warnings []Cause         `json:"warnings"`
	Calls    []struct {
		Method string          `json:"method"`
		Path   string          `json:"path"`
		Body   json.RawMessage `json:"body"`
	} `json:"calls"`
}

// startWire starts the server that answers the requests of cases.
func startWire(Options) (Replay, error) {
	wire, err := NewWire()
	if err != nil {
		return nil, err
	}
	return func(line []byte) (Result, error) {
		var c WireCase
		if err := json.Unmarshal(line, &c); err != nil {
			return Result{}, err
		}
		return wire.Run(&c), nil
	}, nil
}

// Wire answers the requests of cases by Virtward's API, with a scripted cluster behind it.
type Wire struct {
	handler http.Handler
	// current is the case that is answered, and calls is what it did.
	current *WireCase
	calls   []string
	created *kubevirtv1.VirtualMachine
}

// NewWire makes the server.
func NewWire() (*Wire, error) {
	w := &Wire{}
	scheme := apiserver.NewScheme()
	codecs := serializer.NewCodecFactory(scheme)
	config := apiserver.NewConfig(codecs, scheme, nil)
	config.ExternalAddress = "localhost:443"
	config.LoopbackClientConfig = &rest.Config{}
	config.Authentication.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "joe", Groups: []string{"system:authenticated"}}}, true, nil
	})
	config.Authorization.Authorizer = authorizer.AuthorizerFunc(w.authorize)
	server, err := config.Complete().New("virtward", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	if err := apiserver.Install(server, scheme, codecs, &apiserver.Services{
		Cluster: w, Keys: w, Authorizer: config.Authorization.Authorizer, Random: rand.New(rand.NewPCG(1, 2)), Clock: clock.RealClock{}, //nolint:gosec // a test
	}); err != nil {
		return nil, err
	}
	w.handler = server.Handler
	return w, nil
}

func (w *Wire) authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if w.current.Denied || a.GetSubresource() == subresources.Instantiate {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionAllow, "", nil
}

// Template implements apiserver.Cluster.
func (w *Wire) Template(_ context.Context, namespace, name string) (*v1beta1.VirtualMachineTemplate, error) {
	w.calls = append(w.calls, "GET")
	if w.current.TemplateAnswer != nil {
		return nil, &apierrors.StatusError{ErrStatus: *w.current.TemplateAnswer}
	}
	for i := range w.current.Templates {
		if t := &w.current.Templates[i]; t.Namespace == namespace && t.Name == name {
			return t, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "template.kubevirt.io", Resource: "virtualmachinetemplates"}, name)
}

// Namespace implements apiserver.Cluster: no namespace of the cases is approved-only.
func (w *Wire) Namespace(_ context.Context, name string) (*corev1.Namespace, error) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}

// Import implements apiserver.Cluster. virt-template has no imports.
func (w *Wire) Import(_ context.Context, _, name string) (*v1beta1.VirtualMachineTemplateImport, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "template.kubevirt.io", Resource: "virtualmachinetemplateimports"}, name)
}

// GuardedSince implements apiserver.Cluster. The cases have no imports.
func (w *Wire) GuardedSince(context.Context, *admissionpolicies.Guard) (time.Time, error) {
	return time.Time{}, nil
}

// Templates implements apiserver.Cluster. No request lists templates.
func (w *Wire) Templates(context.Context, int64, string) (page []v1beta1.VirtualMachineTemplate, next string, err error) {
	return nil, "", errors.New("the cases list no templates")
}

// Read implements apiserver.Keys. virt-template has no approvals.
func (w *Wire) Read(context.Context) (*approvals.Keyring, error) { return &approvals.Keyring{}, nil }

// Change implements apiserver.Keys.
func (w *Wire) Change(context.Context, func(*approvals.Keyring)) (*approvals.Keyring, error) {
	return nil, errors.New("the cases have no approvals")
}

// DataSource implements apiserver.Cluster: the cases have none, and virt-template reads none.
func (w *Wire) DataSource(_ context.Context, _, name string) (*cdiv1beta1.DataSource, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "cdi.kubevirt.io", Resource: "datasources"}, name)
}

// WriteApproval implements apiserver.Cluster. virt-template has no approvals.
func (w *Wire) WriteApproval(context.Context, *v1beta1.VirtualMachineTemplate, *v1beta1.TemplateApproval, metav1.Condition) error {
	return errors.New("the cases have no approvals")
}

// CreateVirtualMachine implements apiserver.Cluster.
func (w *Wire) CreateVirtualMachine(_ context.Context, vm *kubevirtv1.VirtualMachine, _ metav1.CreateOptions) (*kubevirtv1.VirtualMachine, error) {
	w.calls = append(w.calls, "POST")
	if answer := w.current.VirtualMachineAnswer; answer != nil && answer.Code != http.StatusCreated {
		return nil, &apierrors.StatusError{ErrStatus: *answer}
	}
	w.created = vm.DeepCopy()
	created := vm.DeepCopy()
	created.UID, created.ResourceVersion = "uid-of-vm", "1"
	return created, nil
}

// Run answers the request of a case and compares.
func (w *Wire) Run(c *WireCase) Result {
	w.current, w.calls, w.created = c, nil, nil
	body := c.Request.Body
	var text string
	if json.Unmarshal(body, &text) == nil {
		body = []byte(text)
	}
	if c.Request.RawBody != nil {
		body = []byte(*c.Request.RawBody)
	}
	url := c.Request.Path
	if c.Request.Query != "" {
		url += "?" + c.Request.Query
	}
	request := httptest.NewRequestWithContext(context.Background(), c.Request.Method, url, bytes.NewReader(body))
	for name, value := range c.Request.Headers {
		request.Header.Set(name, value)
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, request)
	x := &wireRun{WireCase: c, code: recorder.Code, header: recorder.Header(), body: recorder.Body.Bytes(), calls: w.calls, sent: body, created: w.created}
	result := Result{ID: c.ID, Area: c.Area, Outcome: Other}
	if result.Difference = x.difference(); result.Difference == "" {
		result.Outcome = Equal
		return result
	}
	for _, class := range wireClasses {
		if class.of(x) && class.right(x) {
			result.Outcome, result.Class = Better, class.name
			return result
		}
	}
	return result
}

// wireRun is a case with Virtward's answer.
type wireRun struct {
	*WireCase

	code       int
	header     http.Header
	body, sent []byte
	calls      []string
	// created is the VirtualMachine that was sent to the API server; nil if none was.
	created *kubevirtv1.VirtualMachine
}

// ruleID is how each cause of Virtward names its rule.
var ruleID = regexp.MustCompile(`\[virtward/template-([a-z0-9-]+)\]`)

// difference is empty if the answer is the recorded one.
func (x *wireRun) difference() string {
	if normalCode(x.code) != normalCode(x.Expect.Code) {
		return fmt.Sprintf("code %d, recorded %d: %.300s", x.code, x.Expect.Code, x.body)
	}
	if len(x.calls) != len(x.Expect.Calls) {
		return fmt.Sprintf("calls %v, recorded %d", x.calls, len(x.Expect.Calls))
	}
	if diff := unequal(x.Expect.Warnings, x.warnings()); diff != "" {
		return "warnings: " + diff
	}
	got, want := x.parsed(x.body), x.parsed(x.Expect.Body)
	if x.code >= http.StatusBadRequest {
		return x.differentStatus(got, want)
	}
	if g, w := withoutAdditions(got), withoutAdditions(want); g != w {
		return fmt.Sprintf("body %.600s, recorded %.600s", g, w)
	}
	return ""
}

func normalCode(code int) int {
	if code == http.StatusCreated {
		return http.StatusOK
	}
	return code
}

// parsed is a body as an object: JSON, YAML, or YAML as the cases record it.
func (x *wireRun) parsed(body []byte) map[string]any {
	var object map[string]any
	if json.Unmarshal(body, &object) == nil {
		if text, ok := object["text"].(string); ok && len(object) == 1 {
			body, object = []byte(text), nil
		} else {
			return object
		}
	}
	if yaml.Unmarshal(body, &object) != nil {
		return map[string]any{"unparsed": true}
	}
	return object
}

// withoutAdditions is a body without what Virtward adds to a VirtualMachine, and without what means nothing.
func withoutAdditions(object map[string]any) string {
	if vm, ok := object["virtualMachine"].(map[string]any); ok {
		if status, ok := vm["status"].(map[string]any); ok && len(status) == 0 {
			delete(vm, "status")
		}
		if metadata, ok := vm["metadata"].(map[string]any); ok {
			delete(metadata, "creationTimestamp")
			if annotations, ok := metadata["annotations"].(map[string]any); ok {
				maps.DeleteFunc(annotations, func(key string, _ any) bool { return strings.HasPrefix(key, "template.kubevirt.io/") })
				if len(annotations) == 0 {
					delete(metadata, "annotations")
				}
			}
			if metadata["namespace"] == "" {
				delete(metadata, "namespace")
			}
		}
	}
	written, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(written)
}

// differentStatus compares answers that are errors.
func (x *wireRun) differentStatus(got, want map[string]any) string {
	if len(want) == 0 || want["protobufStatus"] != nil || want["unparsed"] != nil {
		return ""
	}
	if got["reason"] != want["reason"] {
		return fmt.Sprintf("reason %v, recorded %v: %v", got["reason"], want["reason"], got["message"])
	}
	if diff := unequal(recordedCauses(want), causesOf(got)); diff != "" {
		return diff
	}
	return ""
}

func recordedCauses(status map[string]any) (causes []Cause) {
	details, _ := status["details"].(map[string]any)
	list, _ := details["causes"].([]any)
	for _, one := range list {
		if cause, ok := one.(map[string]any); ok {
			class, _ := cause["class"].(string)
			at, _ := cause["field"].(string)
			causes = append(causes, Cause{class, at})
		}
	}
	return causes
}

func causesOf(status map[string]any) (causes []Cause) {
	details, _ := status["details"].(map[string]any)
	list, _ := details["causes"].([]any)
	for _, one := range list {
		if cause, ok := one.(map[string]any); ok {
			message, _ := cause["message"].(string)
			at, _ := cause["field"].(string)
			if m := ruleID.FindStringSubmatch(message); m != nil {
				causes = append(causes, Cause{m[1], at})
			}
		}
	}
	return causes
}

func (x *wireRun) warnings() (causes []Cause) {
	for _, header := range x.header.Values("Warning") {
		if m := ruleID.FindStringSubmatch(header); m != nil {
			_, text, _ := strings.Cut(header, `"`)
			at, _, _ := strings.Cut(text, ": ")
			causes = append(causes, Cause{m[1], at})
		}
	}
	return causes
}
