package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// ErrBusy is the error for a request that gets nothing before its deadline, or at once if too many wait already.
var ErrBusy = errors.New("virtward is busy with other requests")

// Bounds of those that wait for one Shares, together and of one holder.
const (
	maxWaiting       = 384
	maxWaitingOfEach = 96
)

// maxHolders bounds the holders that are remembered for what they used before.
const maxHolders = 4096

// Shares bound an amount that requests use at once, and divide it fairly among holders, such as namespaces. All requests
// together get the total, and those of one holder at most a part of it. Of those that wait, the one goes first that would
// end first if every holder were served at the same rate, as in weighted fair queueing. A request costs the amount, times
// how long it is held; before that is known, as long as the holder's requests were held before. So a holder that uses
// little does not wait behind others, of any number.
//
// At most 384 requests wait, 96 of one holder. One more is rejected at once: that which came last of the holder with the
// most.
type Shares struct {
	total, each int64
	clock       clock.PassiveClock

	mu      sync.Mutex
	free    int64
	holders map[string]*holder
	// waiting is the number of those that wait.
	waiting int
	// virtual is the time of the queue: where the holder began that was served last.
	virtual float64
}

// holder is one of those that share.
type holder struct {
	taken int64
	// users are its requests, with or without what they wait for.
	users int
	// finish is the virtual time until which it has been served: when the first one that waits begins.
	finish float64
	// typical is how long its requests hold what they take: an average, in which the last ones count most.
	typical time.Duration
	queue   []*waiter
}

// waiter is a request that waits.
type waiter struct {
	amount int64
	// done receives nil, or why the request is rejected. It has room for one.
	done chan error
	// charged is what it is assumed to cost while it is served.
	charged float64
}

// NewShares returns Shares of a total, of which one holder gets at most half.
func NewShares(total int64) *Shares { return newShares(total, total/2, clock.RealClock{}) }

// NewUndividedShares returns Shares of a total, of which one holder gets all if no other one waits.
func NewUndividedShares(total int64) *Shares { return newShares(total, total, clock.RealClock{}) }

func newShares(total, each int64, clock clock.PassiveClock) *Shares {
	return &Shares{total: total, each: each, free: total, holders: map[string]*holder{}, clock: clock}
}

// Total returns the total.
func (s *Shares) Total() int64 { return s.total }

// Acquire implements Gate. It takes an amount, or the part of one holder if that is less. It waits until the context ends; the
// error is ErrBusy then, or at once if too many wait.
func (s *Shares) Acquire(ctx context.Context, name string, amount int64) (release func(), err error) {
	amount = min(amount, s.each)
	w, h, err := s.enter(name, amount)
	if err != nil {
		return nil, err
	}
	select {
	case err = <-w.done:
	case <-ctx.Done():
		err = s.abandon(h, w)
	}
	if err != nil {
		s.leave(name, h)
		return nil, busy(name)
	}
	began := s.clock.Now()
	return func() { s.release(name, h, w, began) }, nil
}

// tryAcquire takes an amount if it is free and no request waits for it.
func (s *Shares) tryAcquire(name string, amount int64) (release func(), ok bool) {
	s.mu.Lock()
	h := s.holders[name]
	ok = s.waiting == 0 && amount <= s.free && amount <= s.each && (h == nil || h.taken+amount <= s.each)
	s.mu.Unlock()
	if !ok {
		return nil, false
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel() // another one may have been faster
	release, err := s.Acquire(ended, name, amount)
	return release, err == nil
}

// Contended reports whether a request of another holder waits, and would be served before this holder if this one released
// now what it took at a time.
func (s *Shares) Contended(name string, amount int64, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, next := s.holders[name], s.next()
	return next != nil && own != nil && next != own && s.end(next) < own.finish+s.cost(min(amount, s.each), s.clock.Since(since))
}

func busy(name string) error { return fmt.Errorf("%w, many of them of %q", ErrBusy, name) }

// enter adds a request of a holder, which is served at once if it can be.
func (s *Shares) enter(name string, amount int64) (*waiter, *holder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holders[name]
	if h == nil {
		h = &holder{finish: s.virtual, typical: assumed}
		s.holders[name] = h
	}
	w := &waiter{amount: amount, done: make(chan error, 1)}
	h.users++
	if len(h.queue) == 0 {
		h.finish = max(h.finish, s.virtual)
	}
	h.queue = append(h.queue, w)
	s.waiting++
	s.serve()
	if err := s.reject(h); err != nil {
		s.forget(name, h)
		return nil, nil, err
	}
	return w, h, nil
}

// reject keeps the number of those that wait within its bounds. It rejects the last one of the holder with the most; that is
// the error if it is the one that has just been added.
func (s *Shares) reject(added *holder) error {
	most := added
	switch {
	case len(added.queue) > maxWaitingOfEach:
	case s.waiting > maxWaiting:
		for _, name := range slices.Sorted(maps.Keys(s.holders)) {
			if h := s.holders[name]; len(h.queue) > len(most.queue) {
				most = h
			}
		}
	default:
		return nil
	}
	last := most.queue[len(most.queue)-1]
	most.queue = most.queue[:len(most.queue)-1]
	s.waiting--
	if most == added {
		added.users--
		return fmt.Errorf("%w: too many wait", ErrBusy)
	}
	last.done <- ErrBusy
	return nil
}

// next is the holder whose first request is served next; nil if none can be. A request that needs more than is free
// is waited for, so that smaller ones do not keep it from being served.
func (s *Shares) next() *holder {
	var found *holder
	for _, h := range s.holders {
		if len(h.queue) == 0 || h.taken+h.queue[0].amount > s.each {
			continue
		}
		if found == nil || s.end(h) < s.end(found) {
			found = h
		}
	}
	return found
}

// end is the virtual time at which the first waiting request of a holder would end.
func (s *Shares) end(h *holder) float64 {
	return h.finish + s.cost(h.queue[0].amount, h.typical)
}

// serve gives what is free to those that wait.
func (s *Shares) serve() {
	for s.waiting > 0 {
		h := s.next()
		if h == nil || h.queue[0].amount > s.free {
			return
		}
		w := h.queue[0]
		h.queue = slices.Delete(h.queue, 0, 1)
		s.waiting--
		s.virtual = max(s.virtual, h.finish)
		w.charged = s.cost(w.amount, h.typical)
		h.finish += w.charged
		h.taken += w.amount
		s.free -= w.amount
		w.done <- nil
	}
}

// assumed is how long the first request of a holder is assumed to hold what it takes, and recent the part of an average
// that the last request has.
const (
	assumed = time.Millisecond
	recent  = 4
)

// cost is what a request uses: the part of the total, times the seconds.
func (s *Shares) cost(amount int64, held time.Duration) float64 {
	return float64(amount) / float64(max(s.total, 1)) * held.Seconds()
}

// abandon ends the wait of a request. It returns nil if the request has been served meanwhile.
func (s *Shares) abandon(h *holder, w *waiter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	default:
	}
	h.queue = slices.DeleteFunc(h.queue, func(one *waiter) bool { return one == w })
	s.waiting--
	s.serve() // those behind it may need less
	return ErrBusy
}

func (s *Shares) release(name string, h *holder, w *waiter, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := max(s.clock.Since(began), 0)
	h.finish += s.cost(w.amount, held) - w.charged
	h.typical += (held - h.typical) / recent
	h.taken -= w.amount
	s.free += w.amount
	h.users--
	s.serve()
	s.forget(name, h)
}

func (s *Shares) leave(name string, h *holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.users--
	s.forget(name, h)
}

// forget removes holders without requests that used no more than others, and all of them when there are no requests.
func (s *Shares) forget(name string, h *holder) {
	if s.free == s.total && s.waiting == 0 {
		clear(s.holders)
		s.virtual = 0
		return
	}
	if h.users == 0 && h.finish <= s.virtual && s.holders[name] == h {
		delete(s.holders, name)
	}
	if len(s.holders) <= maxHolders {
		return
	}
	idle := slices.DeleteFunc(slices.Collect(maps.Keys(s.holders)), func(name string) bool { return s.holders[name].users > 0 })
	slices.SortFunc(idle, func(a, b string) int { return cmp.Compare(s.holders[a].finish, s.holders[b].finish) })
	for _, name := range idle[:len(idle)/2] {
		delete(s.holders, name)
	}
}
