package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/virtward/virtward/controllers/ledger"
	"github.com/virtward/virtward/policies"
)

// waiting is how many objects per processor are judged at once: some wait for the API server to answer what they
// refer to.
const waiting = 2

// judged is an object and what came of judging it.
type judged struct {
	subject ledger.Subject
	results []ledger.Result
	skipped bool
}

// Fresh is a violation that an object did not have before.
type Fresh struct {
	ledger.Subject
	ledger.Result
}

// String says what is wrong, by which policy and where, as refusals do.
func (f *Fresh) String() string {
	text := f.Message + " [virtward/" + policies.RulePrefix + f.Source.Name + "]"
	if f.Field != "" {
		text = f.Field + ": " + text
	}
	if f.Remedy != "" {
		text += " " + f.Remedy
	}
	return text
}

// round judges everything that exists. Objects that are gone are forgotten at the end; with an error, what was judged
// so far counts, and nothing is forgotten. found is told of every fresh violation, and whether the object was known.
func (c *conditions) round(ctx context.Context, stored Stored, into *ledger.Ledger, found func(Fresh, bool)) error {
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

// page judges objects of a kind side by side, and notes them in their order.
func (c *conditions) page(ctx context.Context, kind Kind, objects []json.RawMessage, into *ledger.Ledger, found func(Fresh, bool)) error {
	all := make([]judged, len(objects))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(waiting * runtime.GOMAXPROCS(0))
	for i := range objects {
		group.Go(func() (err error) {
			j := &all[i]
			j.subject, j.results, j.skipped, err = c.judge(ctx, kind, objects[i])
			objects[i] = nil // it is as large as all that is known of it is small
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range all {
		all[i].note(into, found)
	}
	return nil
}

// note puts an object into the ledger, or takes it out if there is nothing to judge any more.
func (j *judged) note(into *ledger.Ledger, found func(Fresh, bool)) {
	if j.skipped {
		into.Remove(j.subject.Key)
		return
	}
	fresh, known := into.Put(j.subject, j.results)
	for i := range fresh {
		found(Fresh{j.subject, fresh[i]}, known)
	}
}

// again judges single objects. Those that do not exist are forgotten.
func (c *conditions) again(ctx context.Context, stored Stored, keys []ledger.Key, into *ledger.Ledger, found func(Fresh, bool)) error {
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
		if err := c.page(ctx, kind, []json.RawMessage{object}, into, found); err != nil {
			return err
		}
	}
	return nil
}

func kindOf(key ledger.Key) (Kind, bool) {
	for _, kind := range Kinds() {
		if kind.Kind == key.Kind {
			return kind, true
		}
	}
	return Kind{}, false
}
