package platform

import (
	"container/list"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Bounds of what is remembered of objects that were read live.
const (
	// MaxRemembered bounds the memory that remembered objects take, by an estimate: costPerByte for each byte of JSON,
	// and costPerEntry for each object.
	MaxRemembered = 8 << 20
	costPerByte   = 16
	costPerEntry  = 1 << 10
	// largestRemembered bounds the JSON of one object that is remembered.
	largestRemembered = 64 << 10
	// recently is how long an object is remembered that may change. A virtual machine that is evaluated by what an object
	// was a second ago is no danger: the instance that runs is evaluated as it arrives.
	recently = time.Second
	// long is how long an object is remembered that cannot change. Its name may come back with another content, when a
	// virtual machine is deleted and made again.
	long = 10 * time.Minute
	// absentFor is how long it is remembered that the API server does not serve a kind.
	absentFor = 10 * time.Second
	// tooLargeFor is how long it is remembered that something is too large to be read. It costs the API server more than
	// us, and who makes it smaller may wait.
	tooLargeFor = 5 * time.Second
)

// remembered are values by their keys, those used last, and no more of them than a number of bytes.
type remembered struct {
	clock clock.PassiveClock
	most  int64

	mu      sync.Mutex
	cost    int64
	entries map[string]*list.Element
	// recent has the entry that was used last in front.
	recent *list.List
	stats  RememberedStats
}

// RememberedStats are what has become of questions for remembered objects, and what is remembered.
type RememberedStats struct {
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

func newRemembered(most int64, clock clock.PassiveClock) *remembered {
	return &remembered{clock: clock, most: most, entries: map[string]*list.Element{}, recent: list.New()}
}

// get is a value that is still good.
func (r *remembered) get(key string) (any, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	element, ok := r.entries[key]
	if ok {
		e := element.Value.(*entry)
		if r.clock.Now().Before(e.until) {
			r.recent.MoveToFront(element)
			r.stats.Hits++
			return e.value, true
		}
		r.remove(element)
	}
	r.stats.Misses++
	return nil, false
}

// add remembers a value of a number of bytes of JSON for a time, unless it is too large; the longest unused give way.
func (r *remembered) add(key string, value any, size int64, lasts time.Duration) {
	if size > largestRemembered {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if element, ok := r.entries[key]; ok {
		r.remove(element)
	}
	e := &entry{key: key, value: value, cost: costPerEntry + costPerByte*size, until: r.clock.Now().Add(lasts)}
	r.entries[key] = r.recent.PushFront(e)
	for r.cost += e.cost; r.cost > r.most; r.stats.Evicted++ {
		r.remove(r.recent.Back())
	}
}

func (r *remembered) remove(element *list.Element) {
	e := r.recent.Remove(element).(*entry)
	delete(r.entries, e.key)
	r.cost -= e.cost
}

// failed counts a read that failed for what was to be read, or for others that read.
func (r *remembered) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(err, ErrTooLarge):
		r.stats.TooLarge++
	case errors.Is(err, ErrBusy):
		r.stats.Rejected++
	}
}

func (r *remembered) statistics() RememberedStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := r.stats
	stats.Entries, stats.Bytes = len(r.entries), r.cost
	return stats
}
