package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	v1 "kubevirt.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/limits"
	"github.com/virtward/virtward/lookup"
	"github.com/virtward/virtward/platform"
)

// MutatePath is where the Mutator is served.
const MutatePath = "/mutate"

// Bounds of what is read. The API server accepts objects of about 3 MB, and the review of a create carries
// one. What is in memory at once is bounded too, and so is the time that a caller may take to send or receive.
const (
	maxReview   = 6 << 20
	maxInFlight = 24 << 20
	ioTimeout   = 5 * time.Second
)

// maxPatch bounds an answer, in bytes. A patch does not grow with the object, but with its number of disks.
const maxPatch = 1 << 20

// The kinds that are completed.
const (
	kindVM  = "VirtualMachine"
	kindVMI = "VirtualMachineInstance"
)

// Mutator completes virtual machines when they are created. It answers every well-formed request with
// "allowed": what it cannot complete passes as it is.
type Mutator struct {
	Pipeline *effective.Pipeline
	// Facts returns the present facts; nil while there are none.
	Facts   func() *platform.Facts
	Objects lookup.Objects
	Metrics *Metrics
	Log     logr.Logger
	Clock   clock.PassiveClock

	inFlight *semaphore.Weighted
}

// NewMutator prepares a Mutator for serving.
func NewMutator(m Mutator) *Mutator {
	m.inFlight = semaphore.NewWeighted(maxInFlight)
	return &m
}

// ServeHTTP answers one AdmissionReview. What is none is answered with 400, what is too large with 413, and
// with 503 what finds no room until its caller gives up.
func (m *Mutator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer m.recover(w)
	deadline := m.Clock.Now().Add(ioTimeout)
	controller := http.NewResponseController(w)
	_ = errors.Join(controller.SetReadDeadline(deadline), controller.SetWriteDeadline(deadline)) // not every writer can

	size := r.ContentLength
	if size < 0 || size > maxReview {
		size = maxReview
	}
	if err := m.inFlight.Acquire(r.Context(), size); err != nil {
		http.Error(w, "virtward is busy with other requests", http.StatusServiceUnavailable)
		return
	}
	defer m.inFlight.Release(size)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReview))
	if err != nil {
		m.malformed(w, err)
		return
	}
	answer, err := m.Review(r.Context(), body)
	if err != nil {
		m.malformed(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client is gone if this fails
}

func (m *Mutator) malformed(w http.ResponseWriter, err error) {
	m.Metrics.count("none", "none", verdictMalformed)
	m.Log.V(1).Info("refused a request that is no AdmissionReview", "reason", err.Error())
	code := http.StatusBadRequest
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, err.Error(), code)
}

// recover keeps one request from taking the server down. The API server takes the answer for a failed call.
func (m *Mutator) recover(w http.ResponseWriter) {
	if cause := recover(); cause != nil {
		m.Metrics.count("none", "none", verdictFailed)
		m.Log.Error(fmt.Errorf("%v", cause), "a request made the pipeline panic", "stack", string(debug.Stack()))
		http.Error(w, "virtward failed on this request: its log says where", http.StatusInternalServerError)
	}
}

// Review answers an AdmissionReview, bytes in and bytes out. The error says why it is none.
func (m *Mutator) Review(ctx context.Context, body []byte) ([]byte, error) {
	started := m.Clock.Now()
	request, err := decodeReview(body)
	if err != nil {
		return nil, err
	}
	response, verdict := m.respond(ctx, request)
	response.UID = request.UID
	answer, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	kind, operation := labels(request)
	m.Metrics.observe(kind, operation, verdict, m.Clock.Since(started))
	m.Log.V(1).Info("answered", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name,
		"operation", request.Operation, "verdict", verdict, "uid", request.UID)
	return answer, nil
}

// decodeReview reads a request. Only the version of the API that our configuration names is taken.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, fmt.Errorf("the body is not an AdmissionReview: %.200s", err.Error())
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" {
		return nil, fmt.Errorf("the body is %.50q %.50q, not an AdmissionReview of %s", review.APIVersion, review.Kind, admissionv1.SchemeGroupVersion)
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, fmt.Errorf("the AdmissionReview holds no request with a uid")
	}
	return review.Request, nil
}

// labels keep the cardinality of the metrics bounded, whatever arrives.
func labels(request *admissionv1.AdmissionRequest) (kind, operation string) {
	kind, operation = "other", "other"
	if request.Kind.Kind == kindVM || request.Kind.Kind == kindVMI {
		kind = request.Kind.Kind
	}
	switch request.Operation {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect:
		operation = string(request.Operation)
	}
	return kind, operation
}

func (m *Mutator) respond(ctx context.Context, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string) {
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if request.Operation != admissionv1.Create || request.SubResource != "" {
		return response, verdictIgnored
	}
	input, err := m.input(request)
	var outOfProportion *field.Error
	if errors.As(err, &outOfProportion) {
		return m.skip(request, response, limits.Describe(outOfProportion)), verdictSkipped
	}
	if err != nil { // the API server will refuse it by its schema, which says it better
		m.Log.V(1).Info("passed an object that does not decode", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name, "reason", err.Error())
		return response, verdictUnchanged
	}
	if input == nil {
		return response, verdictIgnored
	}
	if err := m.complete(ctx, request, input, response); err != nil {
		m.Log.Error(err, "passed an object that could not be completed", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"virtward could not complete this object: " + err.Error()}}, verdictFailed
	}
	switch {
	case len(response.Patch) > maxPatch:
		response = &admissionv1.AdmissionResponse{Allowed: true}
		return m.skip(request, response, "what would have to be added is larger than 1 MiB"), verdictSkipped
	case response.Patch == nil:
		return response, verdictUnchanged
	}
	return response, verdictPatched
}

// skip lets an object pass that is out of all proportion. Whoever sent it is told, and so is the admin.
func (m *Mutator) skip(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse, why string) *admissionv1.AdmissionResponse {
	m.Log.Info("passed an object that is out of all proportion", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name, "reason", why)
	response.Warnings = []string{"virtward did not complete this object: " + why}
	return response
}

// input decodes the object of a request; nil for one that is not ours or is on its way out.
func (m *Mutator) input(request *admissionv1.AdmissionRequest) (*effective.Input, error) {
	if request.Kind.Group != v1.GroupVersion.Group {
		return nil, nil
	}
	in := &effective.Input{}
	switch request.Kind.Kind {
	case kindVM:
		in.VM = &v1.VirtualMachine{}
		if err := decode(request.Object.Raw, in.VM); err != nil {
			return nil, err
		}
		if in.VM.DeletionTimestamp != nil || in.VM.Spec.Template == nil {
			return nil, nil
		}
		in.VM.Namespace = request.Namespace
	case kindVMI:
		in.VMI = &v1.VirtualMachineInstance{}
		if err := decode(request.Object.Raw, in.VMI); err != nil {
			return nil, err
		}
		if in.VMI.DeletionTimestamp != nil {
			return nil, nil
		}
		in.VMI.Namespace = request.Namespace
	default:
		return nil, nil
	}
	return in, nil
}

// conflicts are what nobody can complete; KubeVirt refuses most of them.
func conflicts(verdict *effective.Verdict) []string {
	texts := make([]string, 0, len(verdict.Conflicts))
	for _, c := range verdict.Conflicts {
		texts = append(texts, c.Error())
	}
	return texts
}

// maxWarnings bounds what a user is told at once; the API server cuts longer lists off without a word.
const maxWarnings = 20

func bounded(warnings []string) []string {
	if more := len(warnings) - maxWarnings; more > 0 {
		return append(warnings[:maxWarnings:maxWarnings], fmt.Sprintf("and %d more warnings", more))
	}
	return warnings
}

// decode reads an object, unless doing so would take all day: a *field.Error names the field then.
func decode[T any](object []byte, into *T) error {
	if err := limits.Object(object, reflect.TypeFor[T]()); err != nil {
		return err
	}
	return sigsjson.UnmarshalCaseSensitivePreserveInts(object, into)
}

// complete evaluates the input and writes its changes, warnings and audit annotations into the response.
func (m *Mutator) complete(ctx context.Context, request *admissionv1.AdmissionRequest, in *effective.Input, response *admissionv1.AdmissionResponse) error {
	if in.Facts = m.Facts(); in.Facts == nil {
		return errors.New("the KubeVirt resource has not been read yet")
	}
	references, warnings, err := lookup.For(ctx, m.Objects, in.VM, in.VMI)
	if err != nil {
		return err
	}
	in.References = references
	verdict, err := m.Pipeline.Evaluate(*in)
	if err != nil {
		return err
	}
	patch, err := Patch(request.Object.Raw, verdict.Persist)
	if err != nil {
		return err
	}
	response.Warnings = bounded(slices.Concat(in.Facts.Warnings, warnings, conflicts(verdict)))
	if patch == nil { // annotations of an earlier call for the same request must not be written again
		return nil
	}
	kind := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &kind
	response.AuditAnnotations = map[string]string{
		"hypervisor": verdict.Hypervisor + "/" + verdict.Architecture,
		"layers":     strings.Join(effective.Layers(verdict.Persist), ","),
	}
	return nil
}
