package glance

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// maxFailures is the number of calls without an answer in a row after which a pause begins.
const maxFailures = 3

// errPaused is the error of a call that is not made: the ones before had no answer.
var errPaused = errors.New("Glance does not answer") //nolint:staticcheck // a name

// breaker makes calls fail at once while a cloud does not answer, so that its images do not wait for each call, nor those of
// other classes behind them. After a pause, one call is made. Pauses grow from firstPause to lastPause.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	failures int
	until    time.Time
	pause    time.Duration
}

// begins reports whether a call may be made.
func (b *breaker) begins() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if b.failures < maxFailures {
		return true
	}
	if now.Before(b.until) && b.until.Sub(now) <= lastPause { // a clock that was set back does not extend the pause
		return false
	}
	b.until = now.Add(b.pause) // the others wait for this one
	return true
}

// ended notes whether a call had an answer.
func (b *breaker) ended(answered bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answered {
		b.failures, b.pause = 0, 0
		return
	}
	if b.failures++; b.failures >= maxFailures {
		b.pause = min(max(2*b.pause, firstPause), lastPause)
		b.until = b.now().Add(b.pause)
	}
}

// apart is a key of the context of a request whose service has a breaker of its own.
type apart struct{}

// guarded makes calls as a breaker permits. The streams of files are neither counted nor stopped: they end for other reasons too.
type guarded struct {
	inner http.RoundTripper
	state *breaker
}

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil && request.GetBody == nil {
		return g.inner.RoundTrip(request) //nolint:wrapcheck // the contract of a RoundTripper
	}
	state := g.state
	if own, ok := request.Context().Value(apart{}).(*breaker); ok && own != nil {
		state = own
	}
	if !state.begins() {
		return nil, errPaused
	}
	response, err := g.inner.RoundTrip(request)
	switch {
	case err == nil:
		state.ended(response.StatusCode < http.StatusInternalServerError)
	case !errors.Is(err, context.Canceled):
		state.ended(false)
	}
	return response, err //nolint:wrapcheck // the contract of a RoundTripper
}
