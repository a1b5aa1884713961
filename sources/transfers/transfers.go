// Package transfers runs what takes long for images, such as reading a source: a bounded number at a time, and so that no
// namespace takes all places.
//
// What enters: functions, each with a key and a namespace. What leaves: their progress and their results, until they are
// forgotten. Memory has one record for each key; a process that ends loses all of them.
package transfers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// MaxTasks bounds the tasks that are remembered. More are not accepted until others are forgotten.
const MaxTasks = 5_000

// ErrFull is returned by Start when MaxTasks are remembered.
var ErrFull = errors.New("too many imports wait")

// Progress measures a task. It is safe for concurrent use.
type Progress struct{ done, total atomic.Int64 }

// Set notes the done bytes and all of them; 0 if they are not known.
func (p *Progress) Set(done, total int64) {
	p.done.Store(done)
	p.total.Store(total)
}

// Task is the state of a task.
type Task[T any] struct {
	// Ahead is the number of tasks that start before a task that waits.
	Ahead int
	// Running is set while the function runs, Ended once it returned Result and Err.
	Running, Ended bool
	Done, Total    int64
	Result         T
	Err            error
}

// Pool runs tasks. Create it with New.
type Pool[T any] struct {
	ctx    context.Context //nolint:containedctx // tasks outlive the calls that start them
	limits Limits

	mu    sync.Mutex
	tasks map[string]*task[T]
	// waiting are keys in the order of their rounds, and of their arrival. round is that of the last task that started.
	waiting []string
	running int
	round   int
	// places are the running tasks of namespaces.
	places map[string]int
}

// Limits bound the tasks that run at the same time, altogether and of one namespace.
type Limits struct{ Running, Namespace int }

type task[T any] struct {
	namespace string
	// round orders the tasks that wait: those of a namespace follow each other by one, so that namespaces take turns.
	round    int
	run      func(ctx context.Context, progress *Progress) (T, error)
	notify   func()
	cancel   context.CancelFunc
	progress Progress
	running  bool
	ended    bool
	result   T
	err      error
}

// New returns a pool whose tasks end with the context.
func New[T any](ctx context.Context, limits Limits) *Pool[T] {
	return &Pool[T]{ctx: ctx, limits: limits, tasks: map[string]*task[T]{}, places: map[string]int{}}
}

// Start adds a task. It does nothing if the key has one. The function ended, if it is not nil, is called once Get has the result.
func (p *Pool[T]) Start(key, namespace string, run func(ctx context.Context, progress *Progress) (T, error), ended func()) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks[key] != nil {
		return nil
	}
	if len(p.tasks) >= MaxTasks {
		return ErrFull
	}
	t := &task[T]{namespace: namespace, round: p.round + 1, run: run, notify: ended}
	p.tasks[key] = t
	at := len(p.waiting)
	for _, k := range slices.Backward(p.waiting) {
		if before := p.tasks[k]; before.namespace == namespace {
			t.round = max(t.round, before.round+1)
			break
		}
	}
	for at > 0 && p.tasks[p.waiting[at-1]].round > t.round {
		at--
	}
	p.waiting = slices.Insert(p.waiting, at, key)
	p.next()
	return nil
}

// next starts the tasks that have a place. Of those that wait, a task of the namespace with the fewest running ones is the
// first, and of several the one with the lowest round. The lock is held.
func (p *Pool[T]) next() {
	for p.running < p.limits.Running {
		first := p.first()
		if first < 0 {
			return
		}
		t := p.tasks[p.waiting[first]]
		p.waiting = slices.Delete(p.waiting, first, first+1)
		p.running++
		p.round = max(p.round, t.round)
		p.places[t.namespace]++
		t.running = true
		var ctx context.Context
		ctx, t.cancel = context.WithCancel(p.ctx) //nolint:gosec // execute calls it
		go p.execute(ctx, t)
	}
}

// first is the index of the task that starts next; -1 if none may.
func (p *Pool[T]) first() int {
	first, fewest := -1, p.limits.Namespace
	for i, key := range p.waiting {
		if places := p.places[p.tasks[key].namespace]; places < fewest {
			first, fewest = i, places
		}
	}
	return first
}

func (p *Pool[T]) execute(ctx context.Context, t *task[T]) {
	result, err := attempt(ctx, t)
	if t.notify != nil {
		defer t.notify()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t.cancel()
	t.running, t.ended, t.result, t.err = false, true, result, err
	p.running--
	if p.places[t.namespace]--; p.places[t.namespace] == 0 {
		delete(p.places, t.namespace)
	}
	p.next()
}

// attempt runs a task. A panic is its error.
func attempt[T any](ctx context.Context, t *task[T]) (result T, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	return t.run(ctx, &t.progress)
}

// Get returns the task of a key.
func (p *Pool[T]) Get(key string) (Task[T], bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[key]
	if t == nil {
		return Task[T]{}, false
	}
	return Task[T]{
		Ahead: max(0, slices.Index(p.waiting, key)), Running: t.running, Ended: t.ended, Result: t.result, Err: t.err,
		Done: t.progress.done.Load(), Total: t.progress.total.Load(),
	}, true
}

// Forget ends the task of a key, and reports whether it has returned: its key is free then.
func (p *Pool[T]) Forget(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[key]
	switch {
	case t == nil:
		return true
	case t.running:
		t.cancel()
		return false
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(k string) bool { return k == key })
	delete(p.tasks, key)
	return true
}
