package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// TestSharesOfNamespaces verifies that the requests of one namespace do not block those of another.
func TestSharesOfNamespaces(t *testing.T) {
	s := NewShares(100)
	var release []func()
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		back, err := s.Acquire(ctx, "greedy", 10)
		if i < 5 != (err == nil) || err != nil && !errors.Is(err, ErrBusy) {
			t.Fatalf("%d: %v", i, err)
		}
		if err == nil {
			release = append(release, back)
		}
	}
	back, err := s.Acquire(t.Context(), "innocent", 1000) // more than half of the total
	if err != nil {
		t.Fatalf("another namespace has to wait: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := s.Acquire(ctx, "third", 1); !errors.Is(err, ErrBusy) {
		t.Errorf("more is free than expected: %v", err)
	}
	for _, back := range append(release, back) {
		back()
	}
	if s.free != 100 || len(s.holders) != 0 {
		t.Errorf("after the end %d of 100 are free, and known of namespaces is %v", s.free, s.holders)
	}
}

// TestSharesServeThoseWhoUseLittleFirst has fifty holders of long requests and one of short ones, which never waits for
// more than one of the long requests.
func TestSharesServeThoseWhoUseLittleFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const long = 100 * time.Millisecond
		var attackers sync.WaitGroup
		for i := range 50 {
			for range 4 {
				attackers.Go(func() {
					for ctx.Err() == nil {
						release, err := s.Acquire(ctx, fmt.Sprint("attacker-", i), 1)
						if err != nil {
							continue
						}
						time.Sleep(long)
						release()
					}
				})
			}
		}
		time.Sleep(10 * time.Second) // until it is known how long they take
		for i := range 100 {
			began := time.Now()
			release, err := s.Acquire(ctx, "innocent", 1)
			if err != nil {
				t.Fatalf("%d: %v", i, err)
			}
			if waited := time.Since(began); waited > long {
				t.Errorf("%d waited %s", i, waited)
			}
			time.Sleep(time.Millisecond)
			release()
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
		attackers.Wait()
	})
}

// TestSharesRejectTheExcessAtOnce fills the queue with requests of many holders, and adds one of another: it takes the
// place of the last one of the holder with the most.
func TestSharesRejectTheExcessAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var rejected atomic.Int64
		take := func(name string) {
			go func() {
				if _, err := s.Acquire(ctx, name, 1); err != nil && ctx.Err() == nil {
					rejected.Add(1)
				}
			}()
			synctest.Wait()
		}
		for range maxWaitingOfEach + 1 {
			take("first")
		}
		if rejected.Load() != 0 || s.waiting != maxWaitingOfEach {
			t.Fatalf("%d are rejected, %d wait", rejected.Load(), s.waiting)
		}
		take("first")
		if rejected.Load() != 1 {
			t.Errorf("one above the bound of a holder: %d are rejected", rejected.Load())
		}
		for i := range maxWaiting {
			take(fmt.Sprint("holder-", i%100))
		}
		before := rejected.Load()
		if s.waiting != maxWaiting {
			t.Fatalf("%d wait", s.waiting)
		}
		take("innocent")
		if s.waiting != maxWaiting || rejected.Load() != before+1 || len(s.holders["innocent"].queue) != 1 {
			t.Errorf("%d wait, %d more are rejected, the innocent one has %d", s.waiting, rejected.Load()-before, len(s.holders["innocent"].queue))
		}
		cancel()
		synctest.Wait()
		if s.waiting != 0 {
			t.Errorf("%d wait after the end", s.waiting)
		}
	})
}

// TestSharesDoNotStarveLargeRequests verifies that a large request is served although small ones arrive all the time.
func TestSharesDoNotStarveLargeRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(100)
		ctx, cancel := context.WithCancel(t.Context())
		var small sync.WaitGroup
		for i := range 40 {
			small.Go(func() {
				for ctx.Err() == nil {
					if release, err := s.Acquire(ctx, fmt.Sprint("small-", i), 5); err == nil {
						time.Sleep(time.Duration(1+i) * time.Millisecond)
						release()
					}
				}
			})
		}
		time.Sleep(time.Second)
		began := time.Now()
		release, err := s.Acquire(ctx, "large", 50)
		if err != nil || time.Since(began) > time.Second {
			t.Errorf("the large one waited %s: %v", time.Since(began), err)
		} else {
			release()
		}
		cancel()
		small.Wait()
	})
}

// TestSharesContended verifies who gives way to whom.
func TestSharesContended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(2)
		began := time.Now()
		one, err := s.Acquire(t.Context(), "long", 1)
		if err != nil {
			t.Fatal(err)
		}
		two, err := s.Acquire(t.Context(), "other", 1)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if s.Contended("long", 1, began) {
			t.Error("no request waits")
		}
		go func() {
			release, err := s.Acquire(t.Context(), "new", 1)
			if err == nil {
				release()
			}
		}()
		synctest.Wait()
		if !s.Contended("long", 1, began) {
			t.Error("a new one waits behind one that has used a second")
		}
		two()
		synctest.Wait()
		if s.Contended("long", 1, began) {
			t.Error("it was served")
		}
		one()
	})
}

// TestSharesAtRandom takes and releases at random, and holds that nothing is lost and no bound is exceeded.
func TestSharesAtRandom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total = 1000
		s := NewShares(total)
		var taken atomic.Int64
		var all sync.WaitGroup
		for i := range 60 {
			draw := rand.New(rand.NewPCG(uint64(i), 7)) //nolint:gosec // the same ones each time
			all.Go(func() {
				for range 200 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(draw.IntN(50))*time.Millisecond)
					amount := int64(1 + draw.IntN(800))
					release, err := s.Acquire(ctx, fmt.Sprint(i%7), amount)
					if err == nil {
						if now := taken.Add(min(amount, total/2)); now > total {
							t.Errorf("%d of %d are taken", now, total)
						}
						time.Sleep(time.Duration(draw.IntN(20)) * time.Millisecond)
						taken.Add(-min(amount, total/2))
						release()
					}
					cancel()
				}
			})
		}
		all.Wait()
		if s.free != total || s.waiting != 0 || len(s.holders) != 0 {
			t.Errorf("%d are free, %d wait, %d holders are known", s.free, s.waiting, len(s.holders))
		}
	})
}

// TestSharesForgetHolders bounds what is remembered of those that used something before.
func TestSharesForgetHolders(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	s := newShares(100, 50, now)
	forever, err := s.Acquire(t.Context(), "forever", 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxHolders {
		release, err := s.Acquire(t.Context(), fmt.Sprint(i), 10)
		if err != nil {
			t.Fatal(err)
		}
		now.SetTime(now.Now().Add(time.Second))
		release()
	}
	if len(s.holders) > maxHolders+1 {
		t.Errorf("%d holders are remembered", len(s.holders))
	}
	forever()
	if len(s.holders) != 0 {
		t.Errorf("%d holders are remembered when nothing is taken", len(s.holders))
	}
	if _, ok := s.tryAcquire("a", 50); !ok {
		t.Error("there is nothing for one that does not wait")
	}
	if _, ok := s.tryAcquire("a", 1); ok {
		t.Error("a holder takes more than half")
	}
	if _, ok := s.tryAcquire("b", 50); !ok {
		t.Error("another one gets nothing")
	}
}
