package memory

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

// recorded is a Gate that notes what is acquired and released. It has nothing for the amount 0.
type recorded struct {
	name string
	log  *[]string
}

func (g recorded) Acquire(_ context.Context, _ string, amount int64) (release func(), err error) {
	if amount == 0 {
		return nil, ErrBusy
	}
	*g.log = append(*g.log, "+"+g.name)
	return func() { *g.log = append(*g.log, "-"+g.name) }, nil
}

// All amounts are acquired in their order, or none is held.
func TestAcquireAll(t *testing.T) {
	for name, c := range map[string]struct {
		last int64
		want []string
	}{
		"all":         {1, []string{"+a", "+b", "+c", "-c", "-b", "-a"}},
		"one is busy": {0, []string{"+a", "+b", "-b", "-a"}},
	} {
		var log []string
		release, err := AcquireAll(t.Context(), "team", Claim{recorded{"a", &log}, 1}, Claim{recorded{"b", &log}, 1}, Claim{recorded{"c", &log}, c.last})
		switch {
		case (err != nil) != (c.last == 0) || err != nil && !errors.Is(err, ErrBusy):
			t.Errorf("%s: %v", name, err)
		case err == nil:
			release()
			release() // does nothing
		}
		if !slices.Equal(log, c.want) {
			t.Errorf("%s: %v, not %v", name, log, c.want)
		}
	}
}

// What is kept after the end of a request is returned at once.
func TestHeld(t *testing.T) {
	returned := 0
	h := &Held{}
	h.Keep(func() { returned++ })
	if returned != 0 {
		t.Error("it is returned before the end")
	}
	h.Release()
	h.Keep(func() { returned++ })
	if returned != 2 {
		t.Errorf("%d of 2 are returned", returned)
	}
}

// A small request uses what large ones leave, and a large one never waits for small ones.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Lanes{Small: NewUndividedShares(10), Large: NewUndividedShares(20), Threshold: 5}
		for range 6 {
			if _, err := l.Acquire(t.Context(), "a", 5); err != nil {
				t.Fatal(err)
			}
		}
		if l.Small.free != 0 || l.Large.free != 0 {
			t.Errorf("%d and %d are free", l.Small.free, l.Large.free)
		}
		soon, cancel := context.WithTimeout(t.Context(), 1)
		defer cancel()
		if _, err := l.Acquire(soon, "b", 5); !errors.Is(err, ErrBusy) {
			t.Errorf("above the total: %v", err)
		}
		l = Lanes{Small: NewUndividedShares(10), Large: NewUndividedShares(20), Threshold: 5}
		if _, err := l.Acquire(t.Context(), "a", 20); err != nil || l.Small.free != 10 || l.Large.free != 0 {
			t.Errorf("a large request: %v, %d and %d are free", err, l.Small.free, l.Large.free)
		}
	})
}

// A Queue waits for an amount, and gives the total to a request for more.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(10)
		release, err := q.Acquire(t.Context(), "", 100)
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("it takes too long")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error)
		go func() { _, err := q.Acquire(ctx, "", 1); got <- err }()
		synctest.Wait()
		cancel(cause)
		if err := <-got; !errors.Is(err, cause) {
			t.Errorf("the error of a request that waits is %v", err)
		}
		release()
		if _, err := q.Acquire(t.Context(), "", 10); err != nil {
			t.Error(err)
		}
	})
}
