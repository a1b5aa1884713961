package simulators

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/schemas"
	"github.com/virtward/virtward/test/controlplane"
)

// Names under which KubeVirt registers its admission.
const (
	MutatorName    = "virt-api-mutator"
	ValidatorName  = "virt-api-validator"
	virtAPIService = "virt-api"
)

// maxReview is more than the API server ever sends: it limits objects to 3 MiB, and a review may hold two.
const maxReview = 16 << 20

// Call is one request that virt-api's admission received.
type Call struct {
	// Webhook is its name, such as virtualmachineinstances-mutator.kubevirt.io.
	Webhook   string
	Operation admissionv1.Operation
	Namespace string
	Name      string
	User      string
	DryRun    bool
	// Object and OldObject of the request, as JSON.
	Object, OldObject json.RawMessage
	// Allowed is how it was answered.
	Allowed bool
}

// VirtAPI simulates KubeVirt's virt-api: an HTTPS server that the API server calls as KubeVirt's own webhook configurations
// say, and to which it forwards the subresources start, stop, restart and migrate of VMs.
type VirtAPI struct {
	controlPlane *controlplane.ControlPlane
	server       *http.Server
	// account is a client with the permissions of virt-api.
	account client.Client
	port    int
	// schemas are those of the newest KubeVirt.
	schemas *schemas.Embedded

	mu         sync.Mutex
	calls      []Call
	unrecorded bool
}

// StartVirtAPI serves the admission and registers it. A Service of KubeVirt's name stands for this machine,
// so the configurations name a port, which KubeVirt's own do not.
func StartVirtAPI(ctx context.Context, c *controlplane.ControlPlane) (*VirtAPI, error) {
	if err := ensureAccounts(ctx, c); err != nil {
		return nil, err
	}
	certificate, bundle, err := c.ServingCertificate(virtAPIService + "." + Namespace + ".svc")
	if err != nil {
		return nil, err
	}
	port, err := c.TakePort()
	if err != nil {
		return nil, err
	}
	config, err := c.ServiceAccountConfig(ctx, Namespace, APIAccount)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	account, err := client.New(config, client.Options{Scheme: c.Client().Scheme()})
	if err != nil {
		return nil, err
	}
	v := &VirtAPI{controlPlane: c, port: port, account: account, schemas: schemas.Of(schemas.Newest())}
	if err := v.serve(certificate); err != nil {
		return nil, err
	}
	if err := v.register(ctx, bundle); err != nil {
		return nil, errors.Join(err, v.Stop(ctx))
	}
	return v, nil
}

func (v *VirtAPI) serve(certificate tls.Certificate) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(v.port)))
	if err != nil {
		return fmt.Errorf("simulating virt-api: %w", err)
	}
	mux := http.NewServeMux()
	for _, hook := range slices.Concat(mutators, validators) {
		mux.HandleFunc("POST "+hook.path, v.handler(hook))
	}
	v.serveSubresources(mux)
	v.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = v.server.ServeTLS(listener, "", "") }() // ends with Stop
	return nil
}

func (v *VirtAPI) register(ctx context.Context, bundle []byte) error {
	writer := v.controlPlane.Client()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: virtAPIService},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}
	if err := writer.Create(ctx, service); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("making Service %s: %w", virtAPIService, err)
	}
	for _, object := range append(v.configurations(bundle), v.apiService(bundle)) {
		if err := writer.Create(ctx, object); err != nil {
			return fmt.Errorf("registering virt-api: %w", err)
		}
	}
	return nil
}

// Stop deletes the configurations and the aggregated API, and stops the server.
func (v *VirtAPI) Stop(ctx context.Context) error {
	var errs []error
	for _, object := range append(v.configurations(nil), v.apiService(nil)) {
		errs = append(errs, client.IgnoreNotFound(v.controlPlane.Client().Delete(ctx, object)))
	}
	return errors.Join(append(errs, v.server.Close())...)
}

// Calls are the requests received so far, in the order of their arrival. Validating webhooks are called in
// parallel; their order means nothing.
func (v *VirtAPI) Calls() []Call {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.calls)
}

// Forget empties the record.
func (v *VirtAPI) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls = nil
}

// KeepNoRecord stops and empties the record, for tests with many requests.
func (v *VirtAPI) KeepNoRecord() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls, v.unrecorded = nil, true
}

func (v *VirtAPI) record(hook hook, request *admissionv1.AdmissionRequest, allowed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.unrecorded {
		return
	}
	v.calls = append(v.calls, Call{
		Webhook:   hook.name,
		Operation: request.Operation,
		Namespace: request.Namespace,
		Name:      request.Name,
		User:      request.UserInfo.Username,
		DryRun:    request.DryRun != nil && *request.DryRun,
		Object:    slices.Clone(request.Object.Raw),
		OldObject: slices.Clone(request.OldObject.Raw),
		Allowed:   allowed,
	})
}

func (v *VirtAPI) handler(hook hook) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review := admissionv1.AdmissionReview{}
		if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
			http.Error(w, "not an AdmissionReview with a request", http.StatusBadRequest)
			return
		}
		response := hook.answer(v, review.Request)
		response.UID = review.Request.UID
		v.record(hook, review.Request, response.Allowed)
		review.Request, review.Response = nil, response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review) // the API server has gone away; it reports that itself
	}
}
