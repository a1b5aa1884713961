package memory

import (
	"context"
	"sync"
)

// Parts are a Gate that never waits: one holder, such as a namespace, gets at most half of
// what the others leave. So there is something left for another one, also beside several that take all they get.
type Parts struct {
	total int64

	mu    sync.Mutex
	all   int64
	taken map[string]int64
}

// NewParts returns Parts of a total.
func NewParts(total int64) *Parts { return &Parts{total: total, taken: map[string]int64{}} }

// Acquire implements Gate. The error is ErrBusy if the holder's part is used up.
func (p *Parts) Acquire(_ context.Context, holder string, amount int64) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.taken[holder]
	if left := p.total - (p.all - own); own+amount > (left+1)/2 {
		return nil, ErrBusy
	}
	p.all += amount
	p.taken[holder] = own + amount
	return func() { p.release(holder, amount) }, nil
}

func (p *Parts) release(holder string, amount int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all -= amount
	if p.taken[holder] -= amount; p.taken[holder] == 0 {
		delete(p.taken, holder)
	}
}
