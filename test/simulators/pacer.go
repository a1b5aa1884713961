package simulators

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// pacer keeps objects in each of their phases for some time.
type pacer struct {
	mu    sync.Mutex
	phase time.Duration
	since map[types.UID]time.Time
}

func newPacer() *pacer { return &pacer{since: map[types.UID]time.Time{}} }

func (p *pacer) set(phase time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.phase = phase
}

// left is how long an object stays in its phase. The time begins with the first call, and again after it has passed.
func (p *pacer) left(object types.UID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	since, known := p.since[object]
	if !known {
		since = time.Now()
	}
	if left := p.phase - time.Since(since); p.phase > 0 && left > 0 {
		p.since[object] = since
		return left
	}
	delete(p.since, object)
	return 0
}
