package audit

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/pages"
	"github.com/virtward/virtward/limits/decode"
)

// Bounds of parallel evaluations.
const (
	// waiting is the number of objects per processor. Some wait for the API server to return objects that they refer
	// to.
	waiting = 2
	// maxEvaluating bounds the estimated memory of all of them together, in bytes. A larger object is evaluated by
	// itself.
	maxEvaluating = 64 << 20
)

// The estimate of the memory that evaluating an object takes. An empty object of three bytes becomes a struct of about a
// kilobyte, of which the pipeline and the policies make copies; a text is copied whole.
const (
	bytesPerValue = 4 << 10
	bytesPerByte  = 8
)

// weight estimates the memory that evaluating an object needs, in bytes, and at most maxEvaluating. words is the most
// that its results need.
func weight(object []byte, words int64) int64 {
	return min(maxEvaluating, int64(decode.Brackets(object))*bytesPerValue+int64(len(object))*bytesPerByte+words)
}

// maxWords returns the most memory that the results of one object need, in bytes: see Condense.
func maxWords(bounds auditresults.Limits) int64 { return 2 * maxMessage * int64(bounds.PerNamespace) }

// evaluated is an object and its results.
type evaluated struct {
	subject auditresults.Subject
	results []auditresults.Result
	skipped bool
	// done reports whether it was evaluated; takes is the memory of its results, in bytes.
	done  bool
	takes int64
}

// round evaluates all existing objects. At the end, the results of deleted objects are removed. After an error, the
// results so far are kept, and none is removed. found is called for every fresh violation, and between after every page.
func (c *conditions) round(ctx context.Context, stored Stored, into *auditresults.Ledger, found func(auditresults.Held), between func(context.Context)) error {
	into.Begin()
	for _, kind := range Kinds() {
		for from, more := "", true; more; {
			objects, next, err := stored.Page(ctx, kind, from)
			if err != nil {
				return err
			}
			if err := c.renew(); err != nil {
				return err
			}
			if err := c.page(ctx, kind, objects, into, found); err != nil {
				return err
			}
			between(ctx)
			if more = next != ""; more && next == from {
				return fmt.Errorf("listing %s: a page follows itself", kind.Resource)
			}
			from = next
		}
	}
	into.End()
	return nil
}

// page evaluates objects of a kind in parallel, and notes their results in order. Memory is bounded by bytes: of the
// objects being evaluated, and of the results that wait for others.
func (c *conditions) page(ctx context.Context, kind Kind, objects []pages.Object, into *auditresults.Ledger, found func(auditresults.Held)) error {
	group, evaluating := errgroup.WithContext(ctx)
	room := semaphore.NewWeighted(maxEvaluating)
	words := maxWords(into.Limits())
	line := &line{all: make([]evaluated, len(objects)), note: func(j *evaluated) {
		j.note(into, found)
		room.Release(j.takes)
	}}
	work := make(chan func() error)
	for range waiting * runtime.GOMAXPROCS(0) { // each evaluates many objects, because the stack of an evaluation grows slowly
		group.Go(func() error {
			for evaluate := range work {
				if err := evaluate(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range objects {
		takes := weight(objects[i].JSON, words)
		if room.Acquire(evaluating, takes) != nil {
			break // one failed, and Wait says why
		}
		select {
		case <-evaluating.Done():
		case work <- func() (err error) {
			j := evaluated{takes: min(takes, words)}
			defer room.Release(takes - j.takes)
			j.subject, j.results, j.skipped, err = c.evaluate(evaluating, kind, &objects[i])
			objects[i].JSON = nil // it is as large as all that is known of it is small
			if err == nil {
				j.results = into.Limits().Condense(j.results)
				line.done(i, j)
			}
			return err
		}:
		}
	}
	close(work)
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// line notes results in the order of their objects.
type line struct {
	note func(*evaluated)

	mu  sync.Mutex
	all []evaluated
	// next is the first one that is not noted.
	next int
}

// done notes a result, and the following ones that waited for it.
func (l *line) done(i int, j evaluated) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.done = true
	for l.all[i] = j; l.next < len(l.all) && l.all[l.next].done; l.next++ {
		l.note(&l.all[l.next])
		l.all[l.next] = evaluated{}
	}
}

// note puts an object into the ledger, or removes it if there is nothing to evaluate.
func (j *evaluated) note(into *auditresults.Ledger, found func(auditresults.Held)) {
	if j.skipped {
		into.Remove(j.subject.Key)
		return
	}
	for _, fresh := range into.Put(j.subject, j.results) {
		found(fresh)
	}
}

// again evaluates single objects, and removes those that do not exist.
func (c *conditions) again(ctx context.Context, stored Stored, keys []auditresults.Key, into *auditresults.Ledger, found func(auditresults.Held)) error {
	for _, key := range keys {
		kind, ok := kindOf(key)
		if !ok {
			continue
		}
		object, err := stored.Get(ctx, kind, key)
		if err != nil {
			return err
		}
		if object == nil {
			into.Remove(key)
			continue
		}
		if err := c.page(ctx, kind, []pages.Object{*object}, into, found); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(key auditresults.Key) (Kind, bool) {
	for _, kind := range Kinds() {
		if kind.Kind == key.Kind {
			return kind, true
		}
	}
	return Kind{}, false
}
