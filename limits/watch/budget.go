package watch

import (
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Budget bounds the memory of the objects of a watch, in bytes. Each object has a key, and counts once: a new reservation
// replaces the one before. The transform of the informer reserves memory, because there an object can still be left out.
// The events of the informer make the count exact.
type Budget struct {
	limit int64

	mu    sync.Mutex
	total int64
	costs map[string]int64
}

// NewBudget returns a Budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit, costs: map[string]int64{}} }

// Take reserves memory for an object. If there is too little, it returns false, and the object has no reservation.
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

// Set sets the memory of an object of the watch; 0 removes it.
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

// Used returns the memory of all objects, in bytes.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Sized is an object of an informer.
type Sized interface {
	// Cost returns the memory of the object, in bytes.
	Cost() int64
}

// Handler updates the budget from the events of an informer whose objects are Sized.
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
