package webhooks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/virtward/virtward/policies"
)

// EvaluationMemory is what all evaluations of policies that are under way may take together, in bytes. With
// RequestMemory it is what requests take of the memory limit of the chart.
const (
	EvaluationMemory = 64 << 20
	RequestMemory    = maxInFlight
)

// An evaluation about an object of up to some ten kilobytes is a small one. A part of the memory is theirs alone, so
// that they do not wait for large ones.
const (
	smallEvaluation = 8 << 20
	smallMemory     = 16 << 20
	largeMemory     = EvaluationMemory - smallMemory
)

// evaluations bounds the memory of evaluations. One that finds no room waits until its caller gives up.
type evaluations struct {
	small, large *semaphore.Weighted
	metrics      *Metrics
}

func newEvaluations(metrics *Metrics) *evaluations {
	return &evaluations{small: semaphore.NewWeighted(smallMemory), large: semaphore.NewWeighted(largeMemory), metrics: metrics}
}

var errNoRoom = errors.New("too many policies are being evaluated at once")

// begin takes room for evaluating policies about an object of so many bytes, and returns what gives it back.
func (e *evaluations) begin(ctx context.Context, object int) (done func(), err error) {
	room, weight := e.large, min(policies.Memory(object), largeMemory)
	if weight <= smallEvaluation {
		if room = e.small; !room.TryAcquire(weight) {
			room = e.large
		}
		if room == e.small || room.TryAcquire(weight) {
			return e.under(room, weight), nil
		}
		room = e.small
	}
	e.metrics.waiting.Inc()
	defer e.metrics.waiting.Dec()
	if err := room.Acquire(ctx, weight); err != nil {
		e.metrics.noRoom.Inc()
		return nil, errNoRoom
	}
	return e.under(room, weight), nil
}

func (e *evaluations) under(room *semaphore.Weighted, weight int64) (done func()) {
	e.metrics.evaluating.Add(float64(weight))
	return func() {
		room.Release(weight)
		e.metrics.evaluating.Sub(float64(weight))
	}
}

// Bounds of how long the API server waits for an answer, which it says with each call (?timeout=3s).
const (
	defaultWait = 10 * time.Second
	longestWait = 30 * time.Second
)

// patience is how long the caller waits.
func patience(r *http.Request) time.Duration {
	said, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || said <= 0 {
		return defaultWait
	}
	return min(said, longestWait)
}

// errTooLate says that the caller has given up. What was found by then is not the whole.
var errTooLate = errors.New("evaluating took longer than the API server waits")

// gone tells that nobody waits for the answer any more.
func (e *examination) gone() bool { return e.ctx.Err() != nil }

// hurry tells that half of the time for the answer is over: there is none for policies that do not deny.
func (e *examination) hurry() bool {
	deadline, known := e.ctx.Deadline()
	return known && e.Clock.Now().Add(deadline.Sub(e.began)/2).After(deadline)
}
