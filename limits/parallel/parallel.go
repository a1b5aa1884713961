// Package parallel runs independent tasks in parallel, with the outcome that they have in sequence.
//
// Its input is the number of tasks and a function. Its output is the error of the first task in order that fails. It
// starts no more goroutines than there are processors, or than the caller permits, and waits for all of them.
package parallel

import (
	"context"
	"runtime"
	"sync"
)

// Each calls a function for the numbers below count, in as many goroutines as there are processors. It starts no task
// after one that failed, nor after the context is done, and returns the error of the context then. A panic of a task is
// a panic of the caller.
func Each(ctx context.Context, count int, do func(i int) error) error {
	return Bounded(ctx, runtime.GOMAXPROCS(0), count, do)
}

// Bounded is Each in a number of goroutines. It is for tasks that wait for others, not for a processor.
func Bounded(ctx context.Context, bound, count int, do func(i int) error) error {
	r := &run{do: do, failed: count}
	var workers sync.WaitGroup
	for range min(count, bound) {
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
	// next is the first task that is not started, failed the first that failed, and err its error.
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
