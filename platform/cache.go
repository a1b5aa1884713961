package platform

import (
	"container/list"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/virtward/virtward/limits/memory"
)

// Bounds of the cache of referenced objects.
const (
	// MaxCached bounds the memory of cached objects in bytes, by an estimate: costPerByte for each byte of JSON, and
	// costPerEntry for each object.
	MaxCached    = 8 << 20
	costPerByte  = 16
	costPerEntry = 1 << 10
	// maxCachedObject bounds the JSON of one cached object.
	maxCachedObject = 64 << 10
	// objectTTL is how long an object is cached that may change. It is safe to evaluate a VM with the object of a second
	// ago: its instance is evaluated again, as it runs.
	objectTTL = time.Second
	// immutableTTL is how long an object is cached that cannot change. Its name may refer to a new object if a VM is
	// deleted and created again.
	immutableTTL = 10 * time.Minute
	// absentTTL is how long it is cached that the API server does not serve a kind.
	absentTTL = 10 * time.Second
	// tooLargeTTL is how long it is cached that an object is too large to be read.
	tooLargeTTL = 5 * time.Second
)

// objectCache is an LRU cache whose values expire, and whose memory is bounded in bytes.
type objectCache struct {
	clock clock.PassiveClock
	most  int64

	mu      sync.Mutex
	cost    int64
	entries map[string]*list.Element
	// recent has the last used entry at its front.
	recent *list.List
	stats  CacheStats
}

// CacheStats are the counts of reads, and the size of the cache.
type CacheStats struct {
	Hits, Misses, Evicted, TooLarge, Rejected uint64
	Entries                                   int
	Bytes                                     int64
}

type entry struct {
	key   string
	value any
	cost  int64
	until time.Time
}

func newObjectCache(most int64, clock clock.PassiveClock) *objectCache {
	return &objectCache{clock: clock, most: most, entries: map[string]*list.Element{}, recent: list.New()}
}

// get returns a value that has not expired.
func (c *objectCache) get(key string) (any, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[key]
	if ok {
		e := element.Value.(*entry)
		if c.clock.Now().Before(e.until) {
			c.recent.MoveToFront(element)
			c.stats.Hits++
			return e.value, true
		}
		c.remove(element)
	}
	c.stats.Misses++
	return nil, false
}

// add caches a value with size bytes of JSON, unless it is too large. It evicts the values that were not used for longest.
func (c *objectCache) add(key string, value any, size int64, ttl time.Duration) {
	if size > maxCachedObject {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if element, ok := c.entries[key]; ok {
		c.remove(element)
	}
	e := &entry{key: key, value: value, cost: costPerEntry + costPerByte*size, until: c.clock.Now().Add(ttl)}
	c.entries[key] = c.recent.PushFront(e)
	for c.cost += e.cost; c.cost > c.most; c.stats.Evicted++ {
		c.remove(c.recent.Back())
	}
}

func (c *objectCache) remove(element *list.Element) {
	e := c.recent.Remove(element).(*entry)
	delete(c.entries, e.key)
	c.cost -= e.cost
}

// failed counts a read that failed because the object is too large, or because there was no memory.
func (c *objectCache) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case errors.Is(err, ErrTooLarge):
		c.stats.TooLarge++
	case errors.Is(err, memory.ErrBusy):
		c.stats.Rejected++
	}
}

func (c *objectCache) statistics() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	stats := c.stats
	stats.Entries, stats.Bytes = len(c.entries), c.cost
	return stats
}
