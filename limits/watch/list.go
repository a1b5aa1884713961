package watch

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// pageSize is the number of objects in a page of a list.
const pageSize = 50

// List is a list of objects, as a client returns it.
type List interface {
	runtime.Object
	metav1.ListInterface
}

// Client lists and watches the objects of one kind. The dynamic client and the metadata client have such clients.
type Client[L List] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// ListWatch lists and watches for an informer. If the API server streams lists, the informer's transform reduces each
// object as it arrives. Otherwise lists are read page by page, and shrink, if not nil, reduces the objects of a page
// before the next page is read, because a whole list has no bound. source is the client that the client of the kind is
// from; a fake one reports that it does not stream.
func ListWatch[L List](source any, client Client[L], shrink func(runtime.Object)) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return Pages(ctx, options, func(ctx context.Context, options metav1.ListOptions) (L, error) {
				page, err := client.List(ctx, options)
				if err != nil || shrink == nil {
					return page, err
				}
				return page, meta.EachListItem(page, func(object runtime.Object) error {
					shrink(object)
					return nil
				})
			})
		},
		WatchFuncWithContext: client.Watch,
	}, source)
}

// Pages reads a whole list page by page. If the list expires meanwhile, it returns the API server's error, and the
// informer starts again.
func Pages[L List](ctx context.Context, options metav1.ListOptions, page func(context.Context, metav1.ListOptions) (L, error)) (L, error) {
	var none L
	options.Limit, options.ResourceVersion, options.ResourceVersionMatch = pageSize, "", ""
	first, err := page(ctx, options)
	if err != nil {
		return none, err
	}
	items, err := meta.ExtractList(first)
	if err != nil {
		return none, err
	}
	for next := first.GetContinue(); next != ""; {
		options.Continue = next
		more, err := page(ctx, options)
		if err != nil {
			return none, err
		}
		found, err := meta.ExtractList(more)
		if err != nil {
			return none, err
		}
		items, next = append(items, found...), more.GetContinue()
		first.SetResourceVersion(more.GetResourceVersion())
	}
	first.SetContinue("")
	first.SetRemainingItemCount(nil)
	return first, meta.SetList(first, items)
}
