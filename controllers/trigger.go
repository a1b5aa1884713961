package controllers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/virtward/virtward/configcache"
)

// Trigger requests reconciliations when something changes that no informer of the manager watches, such as the
// active policies of configcache. It keeps no objects. Make one with NewTrigger.
type Trigger struct {
	events chan event.GenericEvent
}

// NewTrigger makes a Trigger that has fired once, so that a reconciler starts with every key.
func NewTrigger() *Trigger {
	t := &Trigger{events: make(chan event.GenericEvent, 1)}
	t.Fire()
	return t
}

// Fire requests a reconciliation of every key. It never blocks: several calls before the reconciler reads the keys
// count once, and so do calls in a replica that does not lead.
func (t *Trigger) Fire() {
	select {
	case t.events <- event.GenericEvent{}:
	default: // one is pending
	}
}

// Source is for WatchesRawSource. Keys lists the keys at the time of the event.
func (t *Trigger) Source(keys func() []reconcile.Request) source.Source {
	return source.Channel(t.events, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return keys() }))
}

// SourceAfter is Source with a delay: several calls of Fire within it count once.
func (t *Trigger) SourceAfter(keys func() []reconcile.Request, delay time.Duration) source.Source {
	return source.Channel(t.events, handler.Funcs{
		GenericFunc: func(_ context.Context, _ event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			for _, key := range keys() {
				queue.AddAfter(key, delay)
			}
		},
	})
}

// Keys are the requests for the active policies, and for others of which a reconciler remembers something.
func Keys(active []configcache.Compiled, remembered []types.NamespacedName) []reconcile.Request {
	requests := make([]reconcile.Request, 0, len(active))
	for i := range active {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: active[i].Object.Name}})
	}
	for _, key := range remembered {
		if configcache.Named(active, key.Name) == nil {
			requests = append(requests, reconcile.Request{NamespacedName: key})
		}
	}
	return requests
}

// The delays between two attempts to reconcile the same key: doubled at each failure.
const firstRetry, lastRetry = 200 * time.Millisecond, 30 * time.Second

// syncTimeout bounds the wait for the first list of a watch. After that the process ends and is started again.
const syncTimeout = 10 * time.Minute

// Options are those of every reconciler: one key at a time, retried at a rate of its own.
func Options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: 1,
		CacheSyncTimeout:        syncTimeout,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}
