package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	sigsjson "sigs.k8s.io/json"

	"github.com/virtward/virtward/webhooks/serving"
)

// Bounds of the time to send a body and to receive the answer.
const (
	sendTimeout  = 2 * time.Second
	writeTimeout = 5 * time.Second
	// maxDrained bounds what is read, and not kept, of a body that is not evaluated. A client that is still sending when it
	// gets its answer may take the connection for broken.
	maxDrained = 2 * maxReview
)

// review is a request under way.
type review struct {
	request *admissionv1.AdmissionRequest
	// holder is the name of its shares of limits.
	holder string
	limits *Limits
	// waits is when it stops waiting for others.
	waits time.Time
}

// handler decodes HTTP requests into admission requests, and encodes the responses.
type handler struct {
	// name of the webhook in metrics and the log: mutate or validate.
	name string
	// answer returns the response, and the verdict for the metrics.
	answer func(context.Context, *review) (*admissionv1.AdmissionResponse, string)
	// early returns the response to a request that is not evaluated by its head, and nil for others; nil for none.
	early func(head *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse
	// unevaluated returns the response to a request that cannot be evaluated, by its head.
	unevaluated func(head *admissionv1.AdmissionRequest, why *failure) *admissionv1.AdmissionResponse
	// punctual answers when the patience ends, without waiting for an evaluation.
	punctual bool
	metrics  *Metrics
	log      logr.Logger
	clock    clock.PassiveClock
	limits   *Limits
}

// ServeHTTP answers one AdmissionReview. A request that is not evaluated, because it is too large, malformed or one too many,
// is answered in an AdmissionReview too: an HTTP error is a failed call, which is admitted if the webhook fails open. Only a
// body without the uid of a request is answered with 400.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, timeout := h.clock.Now(), timeoutOf(r)
	a := &arrival{handler: h, http: r, waits: began.Add(patience(timeout)), arrives: began.Add(min(sendTimeout, patience(timeout)))}
	controller := http.NewResponseController(w)
	_ = errors.Join( // not every writer supports deadlines
		controller.SetReadDeadline(a.arrives),
		controller.SetWriteDeadline(began.Add(writeTimeout)))
	ctx, cancel := context.WithDeadline(r.Context(), began.Add(timeout))
	defer cancel()
	answer, err := a.answer(ctx)
	if err != nil {
		h.metrics.count(h.name, "none", "none", verdictMalformed)
		h.log.V(1).Info("answered a request that is not an AdmissionReview", "reason", err.Error())
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client is gone if this fails
}

// arrival is a request that arrives.
type arrival struct {
	*handler

	http *http.Request
	// arrives is when its body must have arrived, waits when it stops waiting for others.
	arrives, waits time.Time

	// head identifies it; nil until it is known.
	head   *admissionv1.AdmissionRequest
	holder string
	limits *Limits
	body   []byte
	// ignored is the response to a request that is answered by its head.
	ignored *admissionv1.AdmissionResponse
	// release returns the memory of the body; nil for none.
	release func()
}

// answer returns the encoded response. The error says that the body is not an AdmissionReview, so that it cannot be answered
// with one.
func (a *arrival) answer(ctx context.Context) (answer []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			answer, err = a.panicked(a.head, cause)
		}
	}()
	err = a.receive(ctx)
	if a.head == nil {
		return nil, err
	}
	serving.Received(a.http.Context())
	var why *failure
	switch {
	case errors.As(err, &why):
	case err != nil: // the connection is broken
		return nil, err
	case a.ignored != nil:
		return a.encode(a.head, a.ignored, verdictIgnored, a.clock.Now())
	case !a.punctual:
		defer a.free()
		return a.evaluate(ctx, a.body, a.review())
	default:
		return a.evaluateInTime(ctx)
	}
	defer a.free()
	_, _ = io.CopyN(io.Discard, a.http.Body, maxDrained)
	return a.answerUnevaluated(a.head, why)
}

func (a *arrival) free() {
	if a.release != nil {
		a.release()
	}
}

func (a *arrival) review() *review {
	return &review{request: a.head, holder: a.holder, limits: a.limits, waits: a.waits}
}

// evaluateInTime returns the response of the evaluation, or a failure when the patience ends. The evaluation ends soon after
// its context.
func (a *arrival) evaluateInTime(ctx context.Context) ([]byte, error) {
	type response struct {
		body []byte
		err  error
	}
	evaluated := make(chan response, 1)
	go func() {
		defer a.free()
		body, err := a.evaluate(ctx, a.body, a.review())
		evaluated <- response{body, err}
	}()
	timer := time.NewTimer(a.waits.Sub(a.clock.Now()))
	defer timer.Stop()
	select {
	case r := <-evaluated:
		return r.body, r.err
	case <-timer.C:
		return a.answerUnevaluated(a.head, busy(errTooLate))
	}
}

// receive reads the head of the body, and the rest once there is memory for it, unless the head suffices for an answer. The error is a
// failure if the request can be answered.
func (a *arrival) receive(ctx context.Context) error {
	size := a.http.ContentLength
	beginning := make([]byte, serving.HeadBytes)
	if size >= 0 && size < serving.HeadBytes {
		beginning = beginning[:size]
	}
	n, err := io.ReadFull(a.http.Body, beginning)
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	beginning = beginning[:n]
	if a.head = headOf(beginning); a.head == nil {
		return noHead(beginning)
	}
	a.holder, a.limits = holderOf(a.http.RemoteAddr, a.head), a.handler.limits
	if a.early != nil {
		a.ignored = a.early(a.head)
	}
	switch {
	case a.ignored != nil:
		_, _ = io.CopyN(io.Discard, a.http.Body, maxDrained)
		return nil
	case size == int64(n) || size < 0 && ended:
		a.body = beginning
		return nil
	case err != nil:
		return busy(fmt.Errorf("the review did not arrive in time: %w", err))
	case size > maxReview:
		return tooLarge()
	}
	return a.receiveRest(ctx, beginning, size)
}

// noHead says why a body has no head.
func noHead(body []byte) error {
	_, err := decodeReview(body)
	if err == nil || len(body) >= serving.HeadBytes {
		return fmt.Errorf("the body has no request with a uid before its byte %d", serving.HeadBytes)
	}
	return err
}

// receiveRest reads the rest of a body. An unknown size is negative.
func (a *arrival) receiveRest(ctx context.Context, beginning []byte, size int64) (err error) {
	if size < 0 {
		size = maxReview
	}
	a.limits = a.limits.of(size)
	waiting, cancel := context.WithDeadline(ctx, a.arrives)
	defer cancel()
	if a.release, err = a.limits.body(waiting, a.holder, size); err != nil {
		return busy(err)
	}
	all := bytes.NewBuffer(beginning)
	if _, err := all.ReadFrom(io.LimitReader(a.http.Body, size-int64(len(beginning))+1)); err != nil {
		return busy(fmt.Errorf("the review did not arrive in time: %w", err))
	}
	if int64(all.Len()) > size {
		return tooLarge()
	}
	a.body = all.Bytes()
	return nil
}

// Review answers an encoded AdmissionReview. The error says why the body is not an AdmissionReview.
func (h *handler) Review(ctx context.Context, body []byte) ([]byte, error) {
	head := headOf(body)
	if head == nil {
		return nil, noHead(body)
	}
	waits, known := ctx.Deadline()
	if !known {
		waits = h.clock.Now().Add(patience(maxTimeout))
	}
	return h.evaluate(ctx, body, &review{request: head, holder: holderOf("", head), limits: h.limits.of(int64(len(body))), waits: waits})
}

// evaluate answers an encoded AdmissionReview, of which r has the head. A panic fails this request only.
func (h *handler) evaluate(ctx context.Context, body []byte, r *review) (answer []byte, err error) {
	started, head := h.clock.Now(), r.request
	defer func() {
		if cause := recover(); cause != nil {
			answer, err = h.panicked(head, cause)
		}
	}()
	waiting, cancel := context.WithDeadline(ctx, r.waits)
	defer cancel()
	release, err := r.limits.decode(waiting, r.holder, decodedSize(body, head.Kind.Kind))
	if err != nil {
		return h.answerUnevaluated(head, busy(err))
	}
	defer release()
	if r.request, err = decodeReview(body); err == nil && !sameRequest(head, r.request) {
		err = errors.New("the body has a field of the request twice")
	}
	if err != nil {
		return h.answerUnevaluated(head, malformed(err))
	}
	response, verdict := h.answer(ctx, r)
	return h.encode(r.request, response, verdict, started)
}

// panicked answers a request that caused a panic, so that the others are not affected.
func (h *handler) panicked(head *admissionv1.AdmissionRequest, cause any) ([]byte, error) {
	h.log.Error(fmt.Errorf("%v", cause), "a request caused a panic", "stack", string(debug.Stack()))
	if head == nil {
		return nil, errPanic
	}
	return h.answerUnevaluated(head, unavailable(errPanic))
}

// sameRequest reports whether a request is the one of a head.
func sameRequest(head, request *admissionv1.AdmissionRequest) bool {
	return head.UID == request.UID && head.Namespace == request.Namespace && head.Operation == request.Operation && head.Kind == request.Kind && head.SubResource == request.SubResource
}

// answerUnevaluated returns the encoded response to a request that is not evaluated.
func (h *handler) answerUnevaluated(head *admissionv1.AdmissionRequest, why *failure) ([]byte, error) {
	h.log.V(1).Info("not evaluated", "kind", head.Kind.Kind, "namespace", head.Namespace, "name", head.Name, "operation", head.Operation, "uid", head.UID, "reason", why.message)
	return h.encode(head, h.unevaluated(head, why), why.verdict, h.clock.Now())
}

// encode encodes the response to a request, and counts it.
func (h *handler) encode(request *admissionv1.AdmissionRequest, response *admissionv1.AdmissionResponse, verdict string, started time.Time) ([]byte, error) {
	response.UID = request.UID
	answer, err := answerWith(response)
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	kind, operation := metricLabels(request)
	h.metrics.observe(h.name, kind, operation, verdict, h.clock.Since(started))
	if log := h.log.V(1); log.Enabled() {
		log.Info("answered", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name,
			"operation", request.Operation, "verdict", verdict, "uid", request.UID)
	}
	return answer, nil
}

// The response that only admits a request, without its uid.
const (
	beforeUID = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":`
	afterUID  = `,"allowed":true}}`
)

// answerWith encodes a response in its AdmissionReview.
func answerWith(response *admissionv1.AdmissionResponse) ([]byte, error) {
	if response.Allowed && response.Result == nil && response.Patch == nil && response.PatchType == nil && len(response.AuditAnnotations) == 0 && len(response.Warnings) == 0 {
		uid, err := json.Marshal(response.UID)
		if err != nil {
			return nil, err
		}
		answer := make([]byte, 0, len(beforeUID)+len(uid)+len(afterUID))
		return append(append(append(answer, beforeUID...), uid...), afterUID...), nil
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	})
}

// decodeReview decodes a request. It accepts only the API version that Virtward's webhook configurations name. The objects are
// parts of the body.
func decodeReview(body []byte) (*admissionv1.AdmissionRequest, error) {
	var review admissionv1.AdmissionReview
	buffer := envelopes.Get().(*[outside]byte)
	defer envelopes.Put(buffer) // what is decoded has copies
	rest, object, old, cut := cutOut(buffer[:], body)
	if !cut {
		rest = body
	}
	if err := sigsjson.UnmarshalCaseSensitivePreserveInts(rest, &review); err != nil {
		return nil, fmt.Errorf("the body is not an AdmissionReview: %.200s", err.Error())
	}
	if review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" {
		return nil, fmt.Errorf("the body is %.50q %.50q, not an AdmissionReview of %s", review.APIVersion, review.Kind, admissionv1.SchemeGroupVersion)
	}
	if review.Request == nil || review.Request.UID == "" {
		return nil, fmt.Errorf("the AdmissionReview has no request with a uid")
	}
	if cut {
		review.Request.Object.Raw, review.Request.OldObject.Raw = object, old
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
