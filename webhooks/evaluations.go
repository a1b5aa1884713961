package webhooks

import (
	"context"
	"errors"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/virtward/virtward/policies"
)

// EvaluationMemory bounds the memory of all policy evaluations in progress, in bytes. RequestMemory bounds the bodies of
// requests.
const (
	EvaluationMemory = 64 << 20
	RequestMemory    = maxInFlight
)

// An evaluation of an object of some ten kilobytes is small. A part of the memory is reserved for small evaluations, so
// that they do not wait for large ones.
const (
	smallEvaluation = 8 << 20
	smallMemory     = 16 << 20
	largeMemory     = EvaluationMemory - smallMemory
)

// evaluations bounds the memory of policy evaluations. An evaluation waits for memory until the API server's timeout.
type evaluations struct {
	small, large *semaphore.Weighted
	metrics      *Metrics
}

func newEvaluations(metrics *Metrics) *evaluations {
	return &evaluations{small: semaphore.NewWeighted(smallMemory), large: semaphore.NewWeighted(largeMemory), metrics: metrics}
}

var errNoMemory = errors.New("too many policies are being evaluated at once")

// begin reserves memory to evaluate policies on an object of a number of bytes. Call done to release it.
func (e *evaluations) begin(ctx context.Context, object int) (done func(), err error) {
	memory, weight := e.large, min(policies.Memory(object), largeMemory)
	if weight <= smallEvaluation {
		if memory = e.small; !memory.TryAcquire(weight) {
			memory = e.large
		}
		if memory == e.small || memory.TryAcquire(weight) {
			return e.reserved(memory, weight), nil
		}
		memory = e.small
	}
	e.metrics.waiting.Inc()
	defer e.metrics.waiting.Dec()
	if err := memory.Acquire(ctx, weight); err != nil {
		e.metrics.rejected.Inc()
		return nil, errNoMemory
	}
	return e.reserved(memory, weight), nil
}

func (e *evaluations) reserved(memory *semaphore.Weighted, weight int64) (done func()) {
	e.metrics.evaluating.Add(float64(weight))
	return func() {
		memory.Release(weight)
		e.metrics.evaluating.Sub(float64(weight))
	}
}

// Bounds of the API server's timeout, which it sends with each call (?timeout=3s).
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = 30 * time.Second
)

// timeoutOf returns the timeout of the caller.
func timeoutOf(r *http.Request) time.Duration {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		return defaultTimeout
	}
	return min(timeout, maxTimeout)
}

// errTooLate is the error after the timeout of the caller. The findings may be incomplete then.
var errTooLate = errors.New("the evaluation took longer than the API server's timeout")

// gone reports whether the timeout of the caller has passed.
func (e *examination) gone() bool { return e.ctx.Err() != nil }

// hurry reports whether half of the timeout has passed. Policies that do not deny are skipped then.
func (e *examination) hurry() bool {
	deadline, known := e.ctx.Deadline()
	return known && e.Clock.Now().Add(deadline.Sub(e.began)/2).After(deadline)
}
