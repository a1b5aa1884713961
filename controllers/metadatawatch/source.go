package metadatawatch

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Source makes the watch a source of a reconciler: a changed object requests the reconciliation of keys. The watch runs
// as long as the reconciler. It must have no Changed.
func (w Watch) Source(keys func(types.NamespacedName) []reconcile.Request) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		w.Changed = func(name types.NamespacedName) {
			for _, key := range keys(name) {
				queue.AddAfter(key, w.Delay)
			}
		}
		go func() { _ = w.Run(ctx) }() // its errors are logged, and it has no other end than the context's
		return nil
	})
}

// Itself is for objects that are the keys of the reconciler.
func Itself(name types.NamespacedName) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: name}}
}
