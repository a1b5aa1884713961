package webhooks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/limits/decode"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/references"
)

// MutatePath is the path of the Mutator.
const MutatePath = "/mutate"

// maxPatch bounds a patch, in bytes. Its size depends on the number of disks, not on the size of the object.
const maxPatch = 1 << 20

// Mutator completes virtual machines when they are created, and records the
// authors of rollouts, of restores, of clones and of exceptions of policies. An object that it cannot complete is admitted
// unchanged, with a warning. It denies, with 429 or 503, only what would be denied later in any case because it is not complete:
// then clients see the cause, and send the request again.
type Mutator struct {
	// Evaluator completes virtual machines.
	Evaluator *evaluator.Evaluator
	// ReserveReads bounds what a request reads of the objects that a VM refers to.
	ReserveReads platform.ReserveReads

	Metrics *Metrics
	Log     logr.Logger
	Clock   clock.PassiveClock

	// Limits are shared by the webhooks of a process; nil for a new one.
	Limits *Limits

	*handler
}

// NewMutator returns a Mutator that can serve requests.
func NewMutator(m Mutator) *Mutator {
	if m.Limits == nil {
		m.Limits = NewLimits()
	}
	m.handler = &handler{name: "mutate", answer: m.respond, unevaluated: m.unevaluated, metrics: m.Metrics, log: m.Log, clock: m.Clock, limits: m.Limits}
	return &m
}

func (m *Mutator) respond(ctx context.Context, r *review) (*admissionv1.AdmissionResponse, string) {
	request := r.request
	written := request.Operation == admissionv1.Create || request.Operation == admissionv1.Update
	if groupKind(request) == rolloutKind && written && request.SubResource == "" {
		return m.recordRequester(request)
	}
	if groupKind(request) == exceptionKind && written && request.SubResource == "" {
		wants, err := exempterWanted(request)
		return m.record(request, policyv1alpha1.AnnotationExemptedBy, wants, err)
	}
	if kind := groupKind(request); (kind == restoreKind || kind == cloneKind) && written && request.SubResource == "" {
		return m.recordAuthor(ctx, request, r.waits)
	}
	if request.Operation != admissionv1.Create || request.SubResource != "" {
		return &admissionv1.AdmissionResponse{Allowed: true}, verdictIgnored
	}
	if kind := groupKind(request); kind != evaluator.VirtualMachine && kind != evaluator.VirtualMachineInstance {
		return &admissionv1.AdmissionResponse{Allowed: true}, verdictIgnored
	}
	response, verdict := m.completed(ctx, r)
	m.withoutProvenance(request, response)
	return response, verdict
}

// completed returns the response with the patch that completes an object.
func (m *Mutator) completed(ctx context.Context, r *review) (*admissionv1.AdmissionResponse, string) {
	request, response := r.request, &admissionv1.AdmissionResponse{Allowed: true}
	result, err := m.complete(ctx, r.request, r.waits)
	if errors.Is(err, references.ErrPresets) {
		response.Warnings = []string{"virtward did not complete this object: " + err.Error()}
		return response, verdictUnchanged
	}
	if err == nil && result.Verdict == nil {
		return m.passed(request, response, result)
	}
	if err == nil {
		err = m.patch(request, result, response)
	}
	if err != nil && required(request) {
		m.Log.Error(err, "denied an object that could not be completed", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		why := failureOf(err)
		return why.denial("complete"), why.verdict
	}
	if err != nil {
		m.Log.Error(err, "admitted an object without completion", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"virtward could not complete this object: " + err.Error()}}, verdictFailed
	}
	switch {
	case len(response.Patch) > maxPatch:
		response = &admissionv1.AdmissionResponse{Allowed: true}
		return m.skip(request, response, "its patch is larger than 1 MiB"), verdictSkipped
	case response.Patch == nil:
		return response, verdictUnchanged
	}
	return response, verdictPatched
}

// skip admits an object that exceeds a limit, with a warning to the user and a line in the log.
func (m *Mutator) skip(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse, why string) *admissionv1.AdmissionResponse {
	m.Log.Info("admitted an object without completion: it exceeds a limit", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name, "reason", why)
	response.Warnings = []string{"virtward did not complete this object: " + why}
	return response
}

// passed admits an object for which there is no verdict.
func (m *Mutator) passed(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse, result *evaluator.Result) (*admissionv1.AdmissionResponse, string) {
	var limit *field.Error
	switch {
	case errors.As(result.Unreadable, &limit):
		return m.skip(request, response, decode.Describe(limit)), verdictSkipped
	case result.Unreadable != nil: // the API server rejects it by its schema, with a better message
		m.Log.V(1).Info("admitted an object that cannot be decoded", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name, "reason", result.Unreadable.Error())
		return response, verdictUnchanged
	}
	return response, verdictIgnored
}

// complete computes the missing fields. It ignores a deletion timestamp: at creation, only the user can have set it, and
// the API server drops it later.
func (m *Mutator) complete(ctx context.Context, request *admissionv1.AdmissionRequest, waits time.Time) (*evaluator.Result, error) {
	snapshot, err := m.Evaluator.Snapshot(m.Clock.Now())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, waits)
	defer cancel()
	ctx, end := m.ReserveReads.Begin(ctx, request.Namespace)
	defer end()
	result, err := snapshot.Complete(ctx, evaluator.Request{Object: request.Object.Raw, Kind: request.Kind, Namespace: request.Namespace, Name: request.Name})
	if result != nil {
		result.Warnings = slices.Concat(snapshot.Facts().Warnings, result.Warnings)
	}
	return result, err
}

// patch sets the patch, the warnings and the audit annotations of the response.
func (m *Mutator) patch(request *admissionv1.AdmissionRequest, result *evaluator.Result, response *admissionv1.AdmissionResponse) error {
	verdict := result.Verdict
	patch, err := Patch(request.Object.Raw, verdict.Persist)
	if err != nil {
		return err
	}
	response.Warnings = bounded(result.Warnings, 0)
	if patch == nil { // on reinvocation: keep the annotations of the first call
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
