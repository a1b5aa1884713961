package memory

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Gate bounds an amount, such as bytes or turns, that requests use at once. The gates differ in who gets it, and in whether
// a request waits for it. A request above the most that its holder can get takes this most; Parts reject it with ErrBusy.
type Gate interface {
	// Acquire takes an amount for a holder. Call release once to return it. The error is ErrBusy, or that of the context.
	Acquire(ctx context.Context, holder string, amount int64) (release func(), err error)
}

// Claim is an amount of a Gate.
type Claim struct {
	Gate   Gate
	Amount int64
}

// AcquireAll takes several amounts in their order, or none. release returns them in the reverse order.
func AcquireAll(ctx context.Context, holder string, claims ...Claim) (release func(), err error) {
	held := &Held{}
	for _, c := range claims {
		release, err := c.Gate.Acquire(ctx, holder, c.Amount)
		if err != nil {
			held.Release()
			return nil, err
		}
		held.Keep(release)
	}
	return held.Release, nil
}

// Held is what a request holds until it ends. Several goroutines can use it. The zero value is ready to use.
type Held struct {
	mu       sync.Mutex
	ended    bool
	releases []func()
}

// Keep keeps an amount until Release. After Release, it is returned at once.
func (h *Held) Keep(release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		release()
		return
	}
	h.releases = append(h.releases, release)
}

// Release returns everything that is held, the last amount first. It does nothing when it is called again.
func (h *Held) Release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for i := len(h.releases) - 1; i >= 0; i-- {
		h.releases[i]()
	}
	h.releases = nil
}

// Lanes are a Gate of two parts, so that small requests do not wait for large ones.
type Lanes struct {
	// Small is for small requests. Large is for the others; nil if there are none. A small request also takes what is free
	// of it.
	Small, Large *Shares
	// Threshold is the most that a small request takes.
	Threshold int64
}

// Acquire implements Gate, as Shares does.
func (l Lanes) Acquire(ctx context.Context, holder string, amount int64) (release func(), err error) {
	if amount > l.Threshold {
		return l.Large.Acquire(ctx, holder, amount)
	}
	for _, lane := range []*Shares{l.Small, l.Large} {
		if lane == nil {
			continue
		}
		if release, ok := lane.tryAcquire(holder, amount); ok {
			return release, nil
		}
	}
	return l.Small.Acquire(ctx, holder, amount)
}

// Queue is a Gate that serves in the order of arrival, and ignores the holder. It is for the work of one controller, not for
// requests of users.
type Queue struct {
	total int64
	free  *semaphore.Weighted
}

// NewQueue returns a Queue of a total.
func NewQueue(total int64) *Queue { return &Queue{total: total, free: semaphore.NewWeighted(total)} }

// Acquire implements Gate. An amount above the total takes the total. The error is that of the context.
func (q *Queue) Acquire(ctx context.Context, _ string, amount int64) (release func(), err error) {
	amount = min(amount, q.total)
	if q.free.Acquire(ctx, amount) != nil {
		return nil, context.Cause(ctx)
	}
	return func() { q.free.Release(amount) }, nil
}
