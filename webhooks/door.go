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

	"github.com/virtward/virtward/decodelimits"
	"github.com/virtward/virtward/platform"
)

// Bounds of what is read. The API server accepts objects of about 3 MB, and the review of an update carries
// two. What is in memory at once is bounded too, and so is the time that a caller may take to send or receive:
// the API server waits no longer than a few seconds for the whole answer.
const (
	maxReview    = 7 << 20
	maxInFlight  = 8 << 20
	sendTimeout  = 2 * time.Second
	writeTimeout = 5 * time.Second
	// chunk is how much is read before more room is asked for. It is firstChunk at first and doubles: whoever sends
	// little slowly takes little room away from others.
	firstChunk = 4 << 10
	chunk      = 64 << 10
	// A body that is announced with more than largeBody is a large one, and so is one of unknown size. Large ones leave
	// some room to the others.
	largeBody   = 64 << 10
	largeBodies = maxInFlight - 768<<10
)

// What requests take in memory, in bytes. The bodies are kept three times: as they came, in a buffer that grows, and as
// the objects in them.
const (
	// MaxBodies is what the bodies of all requests take.
	MaxBodies = 3 * maxInFlight
	// MaxDecoded is what the decoded objects of all requests take, by an estimate: perByte for each byte of JSON, and
	// perValue for each object and list, a few bytes of which become a struct of a kilobyte and are copied.
	MaxDecoded = 40 << 20
	perByte    = 3
	perValue   = 2 << 10
)

// Room bounds the memory of the requests that are worked on at once, over all webhooks that share it, and the cores that
// the large ones use.
type Room struct {
	bytes, large *semaphore.Weighted
	decoded      *platform.Shares
	// turns are taken by large requests, one each: those of one namespace use half of the cores, so that small requests
	// of others do not wait for them.
	turns *platform.Shares
}

// NewRoom has place for a few requests of the largest size.
func NewRoom() *Room {
	return &Room{
		bytes: semaphore.NewWeighted(maxInFlight), large: semaphore.NewWeighted(largeBodies),
		decoded: platform.NewShares(MaxDecoded), turns: platform.NewShares(int64(max(2, runtime.GOMAXPROCS(0)))),
	}
}

// bodyRoom is what the body of one request holds of the room.
type bodyRoom struct {
	*Room
	large bool
	held  int64
}

// grow takes more room, or waits for it until the context ends.
func (b *bodyRoom) grow(ctx context.Context, amount int64) error {
	if b.large {
		if err := b.Room.large.Acquire(ctx, amount); err != nil {
			return platform.ErrBusy
		}
	}
	if err := b.bytes.Acquire(ctx, amount); err != nil {
		if b.large {
			b.Room.large.Release(amount)
		}
		return platform.ErrBusy
	}
	b.held += amount
	return nil
}

func (b *bodyRoom) giveBack() {
	b.bytes.Release(b.held)
	if b.large {
		b.Room.large.Release(b.held)
	}
}

// decodedSize is what the objects of a request take, at the most. An object with more values is never decoded.
func decodedSize(request *admissionv1.AdmissionRequest) int64 {
	total := int64(0)
	for _, raw := range [][]byte{request.Object.Raw, request.OldObject.Raw} {
		total += int64(perByte*len(raw) + perValue*min(decodelimits.Brackets(raw), decodelimits.MaxValues))
	}
	return total
}

// door turns HTTP requests into admission requests, and their answers back.
type door struct {
	// name is that of the webhook in metrics and the log: mutate or validate.
	name string
	// answer decides about a request, and says under which verdict it counts.
	answer  func(context.Context, *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, string)
	metrics *Metrics
	log     logr.Logger
	clock   clock.PassiveClock
	room    *Room
}

// ServeHTTP answers one AdmissionReview. What is none is answered with 400, what is too large with 413, and
// with 503 what finds no room until its caller gives up.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer d.recover(w)
	controller := http.NewResponseController(w)
	_ = errors.Join( // not every writer can
		controller.SetReadDeadline(d.clock.Now().Add(sendTimeout)),
		controller.SetWriteDeadline(d.clock.Now().Add(writeTimeout)))

	room := &bodyRoom{Room: d.room, large: r.ContentLength < 0 || r.ContentLength > largeBody}
	defer room.giveBack()
	body, err := d.read(r.Context(), room, http.MaxBytesReader(w, r.Body, maxReview), r.ContentLength)
	if errors.Is(err, platform.ErrBusy) {
		d.busy(w, err)
		return
	}
	if err != nil {
		d.malformed(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience(r))
	defer cancel()
	answer, err := d.Review(ctx, body)
	if errors.Is(err, platform.ErrBusy) {
		d.busy(w, err)
		return
	}
	if err != nil {
		d.malformed(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the client is gone if this fails
}

// busy answers a request that found no room: who sent it may try again.
func (d *door) busy(w http.ResponseWriter, err error) {
	d.metrics.count(d.name, "none", "none", verdictBusy)
	w.Header().Set("Retry-After", "1")
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// read reads a body, and takes room for what has arrived and a little more: whoever announces much and sends
// nothing takes little away from others.
func (d *door) read(ctx context.Context, room *bodyRoom, body io.Reader, announced int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	var all bytes.Buffer
	if announced > 0 && announced < chunk {
		all.Grow(int(announced) + bytes.MinRead)
	}
	for next := int64(firstChunk); ; next = min(2*next, chunk) {
		if err := room.grow(ctx, next); err != nil {
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

func (d *door) malformed(w http.ResponseWriter, err error) {
	d.metrics.count(d.name, "none", "none", verdictMalformed)
	d.log.V(1).Info("rejected a request that is no AdmissionReview", "reason", err.Error())
	code := http.StatusBadRequest
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		code = http.StatusRequestEntityTooLarge
	}
	http.Error(w, err.Error(), code)
}

// recover keeps one request from taking the server down. The API server takes the answer for a failed call.
func (d *door) recover(w http.ResponseWriter) {
	if cause := recover(); cause != nil {
		d.metrics.count(d.name, "none", "none", verdictFailed)
		d.log.Error(fmt.Errorf("%v", cause), "a request made the pipeline panic", "stack", string(debug.Stack()))
		http.Error(w, "virtward failed on this request: its log says where", http.StatusInternalServerError)
	}
}

// Review answers an AdmissionReview, bytes in and bytes out. The error says why it is none.
func (d *door) Review(ctx context.Context, body []byte) ([]byte, error) {
	started := d.clock.Now()
	request, err := decodeReview(body)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	giveBack, err := d.room.decoded.Take(waiting, request.Namespace, decodedSize(request))
	if err != nil {
		return nil, err
	}
	defer giveBack()
	if len(body) > largeBody {
		endTurn, err := d.room.turns.Take(waiting, request.Namespace, 1)
		if err != nil {
			return nil, err
		}
		defer endTurn()
	}
	response, verdict := d.answer(ctx, request)
	response.UID = request.UID
	answer, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: response,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	kind, operation := metricLabels(request)
	d.metrics.observe(d.name, kind, operation, verdict, d.clock.Since(started))
	d.log.V(1).Info("answered", "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name,
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

// metricLabels keep the cardinality of the metrics bounded, whatever arrives.
func metricLabels(request *admissionv1.AdmissionRequest) (kind, operation string) {
	kind, operation = "other", "other"
	if examinationOf(groupKind(request)) != nil {
		kind = request.Kind.Kind
	}
	switch request.Operation {
	case admissionv1.Create, admissionv1.Update, admissionv1.Delete, admissionv1.Connect:
		operation = string(request.Operation)
	}
	return kind, operation
}

// maxWarnings bounds what a user is told at once; the API server cuts longer lists off without a word.
const maxWarnings = 20

// bounded cuts a list of warnings, and says how many more there are; left are those that are not even in it.
func bounded(warnings []string, left int) []string {
	if more := len(warnings) + left - maxWarnings; more > 0 {
		return append(warnings[:maxWarnings:maxWarnings], fmt.Sprintf("and %d more warnings", more))
	}
	return warnings
}
