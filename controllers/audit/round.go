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
	"github.com/virtward/virtward/decodelimits"
)

// Bounds of what is evaluated at once.
const (
	// waiting is how many objects per processor are: some wait for the API server to answer what they refer to.
	waiting = 2
	// maxEvaluating bounds the estimated memory of all of them together, in bytes. What needs more is evaluated alone.
	maxEvaluating = 64 << 20
)

// The estimate of the memory that evaluating an object takes. An empty object of three bytes becomes a struct of about a
// kilobyte, of which the pipeline and the policies make copies; a text is copied whole.
const (
	bytesPerValue = 4 << 10
	bytesPerByte  = 8
)

// weight estimates what evaluating an object takes, in bytes, and never more than there is. words is what its results take
// at the most.
func weight(object []byte, words int64) int64 {
	return min(maxEvaluating, int64(decodelimits.Brackets(object))*bytesPerValue+int64(len(object))*bytesPerByte+words)
}

// maxWords is what the results of one object take at the most, in bytes: see Condense.
func maxWords(bounds auditresults.Limits) int64 { return 2 * maxMessage * int64(bounds.PerNamespace) }

// evaluated is an object and what came of evaluating it.
type evaluated struct {
	subject auditresults.Subject
	results []auditresults.Result
	skipped bool
	// done tells that it was evaluated; takes is what its results may take in memory, in bytes.
	done  bool
	takes int64
}

// round evaluates everything that exists. Objects that are gone are forgotten at the end; with an error, what was evaluated
// so far counts, and nothing is forgotten. found is told of every fresh violation.
func (c *conditions) round(ctx context.Context, stored Stored, into *auditresults.Ledger, found func(auditresults.Held)) error {
	into.Begin()
	for _, kind := range Kinds() {
		for from, more := "", true; more; {
			objects, next, err := stored.Page(ctx, kind, from)
			if err != nil {
				return err
			}
			if err := c.page(ctx, kind, objects, into, found); err != nil {
				return err
			}
			if more = next != ""; more && next == from {
				return fmt.Errorf("listing %s: a page follows itself", kind.Resource)
			}
			from = next
		}
	}
	into.End()
	return nil
}

// page evaluates objects of a kind side by side, and notes them in their order, each as soon as those before are noted. What
// is in memory is bounded by bytes: of the objects being evaluated, and of the results that wait for others.
func (c *conditions) page(ctx context.Context, kind Kind, objects []pages.Object, into *auditresults.Ledger, found func(auditresults.Held)) error {
	group, evaluating := errgroup.WithContext(ctx)
	group.SetLimit(waiting * runtime.GOMAXPROCS(0))
	room := semaphore.NewWeighted(maxEvaluating)
	words := maxWords(into.Limits())
	line := &line{all: make([]evaluated, len(objects)), note: func(j *evaluated) {
		j.note(into, found)
		room.Release(j.takes)
	}}
	for i := range objects {
		takes := weight(objects[i].JSON, words)
		if room.Acquire(evaluating, takes) != nil {
			break // one failed, and Wait says why
		}
		group.Go(func() (err error) {
			j := evaluated{takes: min(takes, words)}
			defer room.Release(takes - j.takes)
			j.subject, j.results, j.skipped, err = c.evaluate(evaluating, kind, &objects[i])
			objects[i].JSON = nil // it is as large as all that is known of it is small
			if err == nil {
				j.results = into.Limits().Condense(j.results)
				line.done(i, j)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// line notes what is evaluated in its order.
type line struct {
	note func(*evaluated)

	mu  sync.Mutex
	all []evaluated
	// next is the first that is not noted.
	next int
}

// done notes one, and those behind it that have waited for it.
func (l *line) done(i int, j evaluated) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j.done = true
	for l.all[i] = j; l.next < len(l.all) && l.all[l.next].done; l.next++ {
		l.note(&l.all[l.next])
		l.all[l.next] = evaluated{}
	}
}

// note puts an object into the ledger, or takes it out if there is nothing to evaluate any more.
func (j *evaluated) note(into *auditresults.Ledger, found func(auditresults.Held)) {
	if j.skipped {
		into.Remove(j.subject.Key)
		return
	}
	for _, fresh := range into.Put(j.subject, j.results) {
		found(fresh)
	}
}

// again evaluates single objects. Those that do not exist are forgotten.
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
