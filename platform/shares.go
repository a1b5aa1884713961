package platform

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// ErrBusy is the error for a request that gets no memory before its deadline.
var ErrBusy = errors.New("virtward is busy with other requests")

// Shares bound an amount that requests use at once: all requests together get total, and those of one namespace get at
// most half of it. So one namespace cannot block the others. The zero Shares have nothing.
type Shares struct {
	total int64
	all   *semaphore.Weighted

	mu         sync.Mutex
	namespaces map[string]*share
}

// share is the part of one namespace.
type share struct {
	taken *semaphore.Weighted
	users int
}

// NewShares returns Shares of a total.
func NewShares(total int64) *Shares {
	return &Shares{total: total, all: semaphore.NewWeighted(total), namespaces: map[string]*share{}}
}

// Take takes an amount, or half of the total if that is less. It waits until the context ends; the error is ErrBusy then.
// Call release to return the amount.
func (s *Shares) Take(ctx context.Context, namespace string, amount int64) (release func(), err error) {
	amount = min(amount, s.total/2)
	part := s.enter(namespace)
	if err := part.taken.Acquire(ctx, amount); err != nil {
		s.leave(namespace, part)
		return nil, fmt.Errorf("%w, most of them in namespace %q", ErrBusy, namespace)
	}
	if err := s.all.Acquire(ctx, amount); err != nil {
		part.taken.Release(amount)
		s.leave(namespace, part)
		return nil, ErrBusy
	}
	return func() {
		s.all.Release(amount)
		part.taken.Release(amount)
		s.leave(namespace, part)
	}, nil
}

// enter returns the share of a namespace. It is removed when the last request leaves.
func (s *Shares) enter(namespace string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	part := s.namespaces[namespace]
	if part == nil {
		part = &share{taken: semaphore.NewWeighted(s.total / 2)}
		s.namespaces[namespace] = part
	}
	part.users++
	return part
}

func (s *Shares) leave(namespace string, part *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if part.users--; part.users == 0 {
		delete(s.namespaces, namespace)
	}
}
