package audit

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/virtward/virtward/controllers/auditresults"
)

// Pace is how often all objects are evaluated.
type Pace struct {
	// Interval is the longest time between two rounds.
	Interval time.Duration
	// Least is the shortest time between the beginnings of two rounds.
	Least time.Duration
	// Quiet is how long a round, or the evaluation of changed objects, waits after the last change: changes come in
	// groups.
	Quiet time.Duration
}

// Bounds of the waits.
const (
	// patience is how often a round can be delayed by Quiet while changes continue.
	patience = 5
	// mostSingle is the number of changed objects that are read one by one. For more, a round is cheaper.
	mostSingle = 1000
	// The delays before a retry, doubled after each failure.
	firstRetry, lastRetry = 5 * time.Second, 2 * time.Minute
)

// task is the next work.
type task struct {
	// round: evaluate all objects. why lists what requested it, sorted.
	round bool
	why   []string
	// keys are objects to evaluate again.
	keys []auditresults.Key
	// publish: publish again after a failure.
	publish bool
}

// agenda has the pending work and its time. The caller passes the time.
type agenda struct {
	pace Pace

	mu     sync.Mutex
	why    map[string]bool
	since  time.Time // when a round was first asked for; zero if none is
	latest time.Time // when one was last asked for
	began  time.Time // when the last round did
	// until is when the conditions of the last round expire; zero if never.
	until time.Time

	keys      map[auditresults.Key]bool
	keysSince time.Time

	publish bool
	// failures are consecutive; nothing runs before notBefore.
	failures  int
	notBefore time.Time
}

func newAgenda(pace Pace) *agenda {
	return &agenda{pace: pace, why: map[string]bool{}, keys: map[auditresults.Key]bool{}}
}

// ask requests a round.
func (a *agenda) ask(why string, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.askLocked(why, now)
}

func (a *agenda) askLocked(why string, now time.Time) {
	if a.since.IsZero() {
		a.since = now
	}
	a.latest = now
	a.why[why] = true
}

// changed requests the evaluation of an object.
func (a *agenda) changed(key auditresults.Key, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.keys) == 0 {
		a.keysSince = now
	}
	if a.keys[key] = true; len(a.keys) > mostSingle {
		clear(a.keys)
		a.askLocked("many objects changed", now)
	}
}

// next returns the work that is due now; if there is none, how long to wait unless something is requested.
func (a *agenda) next(now time.Time) (t task, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notAfter(now)
	if wait := a.notBefore.Sub(now); wait > 0 {
		return task{}, wait
	}
	due := a.roundDue()
	if !now.Before(due) {
		t = task{round: true, why: slices.Sorted(maps.Keys(a.why))}
		if len(t.why) == 0 {
			t.why = []string{"it is time"}
		}
		clear(a.why)
		clear(a.keys) // the round evaluates them too
		a.since, a.latest, a.began, a.until, a.publish = time.Time{}, time.Time{}, now, time.Time{}, false
		return t, 0
	}
	wait = due.Sub(now)
	if len(a.keys) > 0 {
		if left := a.keysSince.Add(a.pace.Quiet).Sub(now); left > 0 {
			wait = min(wait, left)
		} else {
			t.keys = slices.SortedFunc(maps.Keys(a.keys), auditresults.Key.Compare)
			clear(a.keys)
		}
	}
	if t.publish, a.publish = a.publish, false; t.publish || len(t.keys) > 0 {
		return t, 0
	}
	return t, wait
}

// singles returns the objects to evaluate again, and forgets them.
func (a *agenda) singles() []auditresults.Key {
	a.mu.Lock()
	defer a.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(a.keys), auditresults.Key.Compare)
	clear(a.keys)
	return keys
}

// notAfter corrects the times if the clock was set back: no past event is later than now.
func (a *agenda) notAfter(now time.Time) {
	for _, past := range []*time.Time{&a.since, &a.latest, &a.began, &a.keysSince} {
		if past.After(now) {
			*past = now
		}
	}
	if latest := now.Add(lastRetry); a.notBefore.After(latest) {
		a.notBefore = latest
	}
}

// roundDue returns when the next round begins.
func (a *agenda) roundDue() time.Time {
	if a.began.IsZero() && a.since.IsZero() {
		return time.Time{}
	}
	due := a.began.Add(a.pace.Interval)
	if a.began.IsZero() {
		due = a.since.Add(a.pace.Interval)
	}
	if !a.until.IsZero() {
		due = earlier(due, a.until)
	}
	if !a.since.IsZero() {
		due = earlier(due, earlier(a.latest.Add(a.pace.Quiet), a.since.Add(patience*a.pace.Quiet)))
	}
	if least := a.began.Add(a.pace.Least); !a.began.IsZero() && due.Before(least) {
		return least
	}
	return due
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ends sets when the conditions of the last round expire.
func (a *agenda) ends(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = at
}

// failed requests a task again, after a delay.
func (a *agenda) failed(t task, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait = firstRetry << min(a.failures, 10)
	wait = min(wait, lastRetry)
	a.failures++
	a.notBefore = now.Add(wait)
	if t.round {
		a.askLocked("the one before failed", now)
	}
	for _, key := range t.keys {
		a.keys[key], a.keysSince = true, now
	}
	a.publish = a.publish || t.publish
	return wait
}

// succeeded resets the delay of retries.
func (a *agenda) succeeded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures, a.notBefore = 0, time.Time{}
}
