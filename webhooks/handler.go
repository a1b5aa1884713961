package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/decodelimits"
	"github.com/virtward/virtward/platform"
)

// Bounds of requests. The API server accepts objects of about 3 MB, and the review of an update has two. The bytes in
// memory at once are bounded too, and so is the time to send a body and to receive the response: the API server's timeout
// is a few seconds.
const (
	maxReview    = 7 << 20
	maxInFlight  = 8 << 20
	sendTimeout  = 2 * time.Second
	writeTimeout = 5 * time.Second
	// A body reserves memory in chunks while it arrives. The first one has firstChunk bytes, and each next one is twice as
	// large, up to chunk. So a client that sends slowly reserves little.
	firstChunk = 4 << 10
	chunk      = 64 << 10
	// A body is large if its Content-Length is more than largeBody or unknown. Large bodies together get at most
	// largeBodies of maxInFlight.
	largeBody   = 64 << 10
	largeBodies = maxInFlight - 768<<10
)

// The memory of requests, in bytes. A body is kept three times: as received, in a buffer that grows, and as the raw
// objects in it.
const (
	// MaxBodies bounds the bodies of all requests.
	MaxBodies = 3 * maxInFlight
	// MaxDecoded bounds the decoded objects of all requests, by an estimate: perByte for each byte of JSON, and perValue
	// for each object and list. A few bytes of JSON can become a struct of a kilobyte, which is copied.
	MaxDecoded = 40 << 20
	perByte    = 3
	perValue   = 2 << 10
	// perTemplate is for the virtual machine that is rendered, at most 1.5 MiB in a buffer that grows, and for its two
	// evaluations, each with at most evaluator.MaxRenderedValues more objects and lists than the template.
	perTemplate = 8 << 20
)

// Limits bound the memory of the requests in progress, for all webhooks that share it, and the cores that large requests
// use.
type Limits struct {
	bytes, large *semaphore.Weighted
	decoded      *platform.Shares
	// turns has one unit for each core. A large request takes one, and the requests of one namespace get at most half of
	// them, so that small requests of other namespaces do not wait.
	turns *platform.Shares
}

// NewLimits returns Limits for a few requests of the largest size.
func NewLimits() *Limits {
	return &Limits{
		bytes: semaphore.NewWeighted(maxInFlight), large: semaphore.NewWeighted(largeBodies),
		decoded: platform.NewShares(MaxDecoded), turns: platform.NewShares(int64(max(2, runtime.GOMAXPROCS(0)))),
	}
}

// bodyMemory is the memory that the body of one request reserves.
type bodyMemory struct {
	*Limits
	large bool
	held  int64
}

// grow reserves more memory. It waits until the context ends, and returns ErrBusy then.
func (b *bodyMemory) grow(ctx context.Context, amount int64) error {
	if b.large {
		if err := b.Limits.large.Acquire(ctx, amount); err != nil {
			return platform.ErrBusy
		}
	}
	if err := b.bytes.Acquire(ctx, amount); err != nil {
		if b.large {
			b.Limits.large.Release(amount)
		}
		return platform.ErrBusy
	}
	b.held += amount
	return nil
}

func (b *bodyMemory) release() {
	b.bytes.Release(b.held)
	if b.large {
		b.Limits.large.Release(b.held)
	}
}

// decodedSize returns the most memory that the objects of a request take. An object with too many values is not decoded.
func decodedSize(request *admissionv1.AdmissionRequest) int64 {
	total := int64(0)
	for _, raw := range [][]byte{request.Object.Raw, request.OldObject.Raw} {
		total += int64(perByte*len(raw) + perValue*min(decodelimits.Brackets(raw), decodelimits.MaxValues))
	}
	if request.Kind.Kind == apikinds.VirtualMachineTemplate {
		total += perTemplate
	}
	return total
}

// handler decodes HTTP requests into admission requests, and encodes the responses.
type handler struct {
	// name of the webhook in metrics and the log: mutate or validate.
	name string
	// answer returns the response, and the verdict for the metrics.
	answer  func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string)
	metrics *Metrics
	log     logr.Logger
	clock   clock.PassiveClock
	limits  *Limits
}

// ServeHTTP answers one AdmissionReview. It answers 400 if the body is not an AdmissionReview, 413 if it is too large,
// and 503 if there is no memory for it before the timeout.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer h.recover(w)
	controller := http.NewResponseController(w)
	_ = errors.Join( // not every writer supports deadlines
		controller.SetReadDeadline(h.clock.Now().Add(sendTimeout)),
		controller.SetWriteDeadline(h.clock.Now().Add(writeTimeout)))

	memory := &bodyMemory{Limits: h.limits, large: r.ContentLength < 0 || r.ContentLength > largeBody}
	defer memory.release()
	body, err := h.read(r.Context(), memory, http.MaxBytesReader(w, r.Body, maxReview), r.ContentLength)
	if errors.Is(err, platform.ErrBusy) {
		h.busy(w, err)
		return
	}
	if err != nil {
		h.malformed(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeoutOf(r))
	defer cancel()
	answer, err := h.Review(ctx, body)
	if errors.Is(err, platform.ErrBusy) {
		h.busy(w, err)
		return
	}
	if err != nil {
		h.malformed(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client is gone if this fails
}

// busy answers a request for which there is no memory. The caller may send it again.
func (h *handler) busy(w http.ResponseWriter, err error) {
	h.metrics.count(h.name, "none", "none", verdictBusy)
	w.Header().Set("Retry-After", "1")
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// read reads a body. It reserves memory for the bytes that have arrived and for the next chunk, not for the announced
// length.
func (h *handler) read(ctx context.Context, memory *bodyMemory, body io.Reader, announced int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var all bytes.Buffer
	if announced > 0 && announced < chunk {
		all.Grow(int(announced) + bytes.MinRead)
	}
	for next := int64(firstChunk); ; next = min(2*next, chunk) {
		if err := memory.grow(ctx, next); err != nil {
			return nil, err
		}
		_, err := io.CopyN(&all, body, next)
		if errors.Is(err, io.EOF) {
			return all.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (h *handler) malformed(w http.ResponseWriter, err error) {
	h.metrics.count(h.name, "none", "none", verdictMalformed)
	h.log.V(1).Info("answered a request that is not an AdmissionReview", "reason", err.Error())
	code := http.StatusBadRequest
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, err.Error(), code)
}

// recover answers 500 if the evaluation panics, so that one request does not end the process.
func (h *handler) recover(w http.ResponseWriter) {
	if cause := recover(); cause != nil {
		h.metrics.count(h.name, "none", "none", verdictFailed)
		h.log.Error(fmt.Errorf("%v", cause), "a request caused a panic", "stack", string(debug.Stack()))
		http.Error(w, "virtward failed on this request: see its log", http.StatusInternalServerError)
	}
}

// Review answers an encoded AdmissionReview. The error is ErrBusy, or says why the body is not an AdmissionReview.
func (h *handler) Review(ctx context.Context, body []byte) ([]byte, error) {
	started := h.clock.Now()
	request, err := decodeReview(body)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	release, err := h.limits.decoded.Take(waiting, request.Namespace, decodedSize(request))
	if err != nil {
		return nil, err
	}
	defer release()
	if len(body) > largeBody {
		endTurn, err := h.limits.turns.Take(waiting, request.Namespace, 1)
		if err != nil {
			return nil, err
		}
		defer endTurn()
	}
	response, verdict := h.answer(ctx, request)
	response.UID = request.UID
	answer, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	kind, operation := metricLabels(request)
	h.metrics.observe(h.name, kind, operation, verdict, h.clock.Since(started))
	h.log.V(1).Info("answered", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name,
		"operation", request.Operation, "verdict", verdict, "uid", request.UID)
	return answer, nil
}

// decodeReview decodes a request. It accepts only the API version that Virtward's webhook configurations name.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(body, &review); err != nil {
		return nil, fmt.Errorf("the body is not an AdmissionReview: %.200s", err.Error())
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" {
		return nil, fmt.Errorf("the body is %.50q %.50q, not an AdmissionReview of %s", review.APIVersion, review.Kind, admissionv1.SchemeGroupVersion)
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, fmt.Errorf("the AdmissionReview has no request with a uid")
	}
	return review.Request, nil
}

// metricLabels returns the labels of a request, and "other" for unknown values, so that their number is bounded.
func metricLabels(request *admissionv1.AdmissionRequest) (kind, operation string) {
	kind, operation = "other", "other"
	if examinationOf(groupKind(request)) != nil || groupKind(request) == kubeVirtKind {
		kind = request.Kind.Kind
	}
	switch request.Operation {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect:
		operation = string(request.Operation)
	}
	return kind, operation
}

// maxWarnings bounds the warnings of one response. The API server truncates longer lists silently.
const maxWarnings = 20

// bounded truncates a list of warnings, and adds how many more there are. left counts those that are not in the list.
func bounded(warnings []string, left int) []string {
	if more := len(warnings) + left - maxWarnings; more > 0 {
		return append(warnings[:maxWarnings:maxWarnings], fmt.Sprintf("and %d more warnings", more))
	}
	return warnings
}
