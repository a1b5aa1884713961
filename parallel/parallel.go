// Package parallel does many independent things at once, with the outcome that they would have one after the other.
//
// What enters: how many there are, and what is to be done for each. What leaves: the error of the first that has one,
// whichever ends first. It starts no more goroutines than there are processors, and waits for all of them.
package parallel

import (
	"context"
	"runtime"
	"sync"
)

// Each does something for each of so many things, as many at once as there are processors. Nothing is begun behind one
// that failed, nor once the context has ended, whose error is returned then. A panic becomes one of the caller.
func Each(ctx context.Context, count int, do func(i int) error) error {
	r := &run{do: do, failed: count}
	var workers sync.WaitGroup
	for range min(count, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i, ok := r.begin(ctx); ok; i, ok = r.begin(ctx) {
				r.attempt(i)
			}
		})
	}
	workers.Wait()
	if r.panicked != nil {
		panic(r.panicked)
	}
	if r.failed < count {
		return r.err
	}
	return ctx.Err()
}

type run struct {
	do func(i int) error

	mu sync.Mutex
	// next is the first that is not begun, failed the first that failed, err why.
	next, failed int
	err          error
	panicked     any
}

func (r *run) begin(ctx context.Context) (i int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i = r.next; i >= r.failed || r.panicked != nil || ctx.Err() != nil {
		return 0, false
	}
	r.next++
	return i, true
}

func (r *run) attempt(i int) {
	var err error
	defer func() {
		cause := recover()
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case cause != nil:
			r.panicked = cause
		case err != nil && i < r.failed:
			r.failed, r.err = i, err
		}
	}()
	err = r.do(i)
}
