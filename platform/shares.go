package platform

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// ErrBusy says that there is no room for a request before its deadline, because others take it.
var ErrBusy = errors.New("virtward is busy with other requests")

// Shares bound what requests take of something at once: all of them together, and those of one namespace to half of it,
// so that whoever fills one namespace leaves room for the others. The zero Shares have no room.
type Shares struct {
	total int64
	all   *semaphore.Weighted

	mu         sync.Mutex
	namespaces map[string]*share
}

// share is that of the requests of one namespace.
type share struct {
	taken *semaphore.Weighted
	users int
}

// NewShares have room for a total.
func NewShares(total int64) *Shares {
	return &Shares{total: total, all: semaphore.NewWeighted(total), namespaces: map[string]*share{}}
}

// Take waits for room until the context ends; the error is ErrBusy then. Nobody gets more than half of the total, so that
// one who asks for more takes that. What is taken is to be given back.
func (s *Shares) Take(ctx context.Context, namespace string, amount int64) (giveBack func(), err error) {
	amount = min(amount, s.total/2)
	of := s.enter(namespace)
	if err := of.taken.Acquire(ctx, amount); err != nil {
		s.leave(namespace, of)
		return nil, fmt.Errorf("%w, most of them in namespace %q", ErrBusy, namespace)
	}
	if err := s.all.Acquire(ctx, amount); err != nil {
		of.taken.Release(amount)
		s.leave(namespace, of)
		return nil, ErrBusy
	}
	return func() {
		s.all.Release(amount)
		of.taken.Release(amount)
		s.leave(namespace, of)
	}, nil
}

// enter is the share of a namespace, which is forgotten when the last of its users leaves.
func (s *Shares) enter(namespace string) *share {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.namespaces[namespace]
	if of == nil {
		of = &share{taken: semaphore.NewWeighted(s.total / 2)}
		s.namespaces[namespace] = of
	}
	of.users++
	return of
}

func (s *Shares) leave(namespace string, of *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of.users--; of.users == 0 {
		delete(s.namespaces, namespace)
	}
}
