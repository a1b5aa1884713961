package webhooks

import (
	"errors"
	"net/http"
	"time"
)

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

// patience returns the part of a timeout in which a request waits for others: two thirds. The rest is for its evaluation,
// or for the answer that there was no time.
func patience(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

// errTooLate is the error if the timeout of the caller passed before all policies that deny were evaluated.
var errTooLate = errors.New("the evaluation took longer than the API server's timeout")

// progress is that of the evaluation of policies of one request.
type progress struct {
	// failed is why policies that deny are not evaluated; nil while they are.
	failed error
	// endTurn ends the turn of the evaluation, which began at began; nil outside of one.
	endTurn func()
	began   time.Time
}

// evaluating takes memory and a turn for the policies, and measures their duration. Without memory, no policy is evaluated:
// the request fails.
func (e *examination) evaluating(previews int64) (done func()) {
	nothing := func() {}
	if e.progress.failed != nil {
		return nothing
	}
	e.Metrics.waiting.Inc()
	bytes, free, err := e.limits.evaluate(e.ctx, e.holder, objectSize(e.request), previews)
	if err == nil {
		if err = e.takeTurn(); err != nil {
			free()
		}
	}
	e.Metrics.waiting.Dec()
	if err != nil {
		e.Metrics.rejected.Inc()
		e.progress.failed = err
		return nothing
	}
	e.Metrics.evaluating.Add(float64(bytes))
	started := e.Clock.Now()
	return func() {
		e.Metrics.evaluated.Observe(e.Clock.Since(started).Seconds())
		e.progress.end()
		free()
		e.Metrics.evaluating.Sub(float64(bytes))
	}
}

func (e *examination) takeTurn() (err error) {
	if e.progress.endTurn, err = e.limits.turns.Acquire(e.ctx, e.holder, 1); err != nil {
		e.progress.endTurn = nil
		return err
	}
	e.progress.began = e.Clock.Now()
	return nil
}

func (p *progress) end() {
	if p.endTurn != nil {
		p.endTurn()
		p.endTurn = nil
	}
}

// gone reports whether the evaluation of policies ends. It is called before each policy that denies, and gives the turn to
// the request of another namespace that has waited for it.
func (e *examination) gone() bool {
	p := e.progress
	if p.failed == nil && e.whole.Err() != nil {
		p.failed = errTooLate
	}
	if p.failed == nil && p.endTurn != nil && e.limits.turns.Contended(e.holder, 1, p.began) {
		p.end()
		p.failed = e.takeTurn()
	}
	return p.failed != nil
}

// hurry reports whether half of the timeout has passed. Policies that do not deny are skipped then.
func (e *examination) hurry() bool {
	deadline, known := e.whole.Deadline()
	return e.progress.failed != nil || e.whole.Err() != nil || known && e.Clock.Now().Add(deadline.Sub(e.began)/2).After(deadline)
}
