package boundedwatch

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Budget bounds the memory of the objects of a watch, in bytes. Each object has a key, and counts once: taking room
// for it again replaces what it took before. An informer takes room in its transform, where an object can still be
// left out, and hands the budget its events, which make the count exact.
type Budget struct {
	limit int64

	mu    sync.Mutex
	total int64
	costs map[string]int64
}

// NewBudget of so many bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit, costs: map[string]int64{}} }

// Take takes room for an object, or reports that there is none. Without room the object keeps none.
func (b *Budget) Take(key string, bytes int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.total-b.costs[key]+bytes > b.limit {
		b.set(key, 0)
		return false
	}
	b.set(key, bytes)
	return true
}

// Set notes what an object takes that the watch holds; 0 if it holds none.
func (b *Budget) Set(key string, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.set(key, bytes)
}

func (b *Budget) set(key string, bytes int64) {
	b.total += bytes - b.costs[key]
	if bytes == 0 {
		delete(b.costs, key)
		return
	}
	b.costs[key] = bytes
}

// Used is how many bytes the objects take together.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Sized is an object that an informer holds.
type Sized interface {
	// Cost is what the object takes, in bytes.
	Cost() int64
}

// Handler keeps a budget up to date with the events of an informer, whose objects are Sized.
func (b *Budget) Handler() cache.ResourceEventHandler {
	set := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			if sized, ok := object.(Sized); ok {
				b.Set(key, sized.Cost())
			}
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    set,
		UpdateFunc: func(_, after any) { set(after) },
		DeleteFunc: func(gone any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(gone); err == nil {
				b.Set(key, 0)
			}
		},
	}
}
