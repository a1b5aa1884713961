package platform

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/virtward/virtward/limits/memory"
)

func TestSessionReservesUntilItsEnd(t *testing.T) {
	s := newReadShares()
	ctx, end := begin(t.Context(), s, "a")
	for _, bytes := range []int64{reserveSmall, reserveSmall, reserveTyped, reserveLarge, reserveSmall} {
		done, err := reserve(ctx, s, bytes)
		if err != nil {
			t.Fatal(err)
		}
		done()
	}
	if !isFree(t, s.small, maxSmallReads-reserveSmall) || !isFree(t, s.large, maxLargeReads-reserveLarge) {
		t.Error("each read counts once, until the end")
	}
	end()
	for _, bytes := range []int64{reserveSmall, reserveLarge} {
		done, err := reserve(t.Context(), s, bytes) // without a session
		if err != nil {
			t.Fatal(err)
		}
		done()
	}
	if !isFree(t, s.small, maxSmallReads) || !isFree(t, s.large, maxLargeReads) {
		t.Error("a read without a session holds on to what it read")
	}
}

// isFree reports whether an amount is free, and not more.
func isFree(t *testing.T, shares *memory.Shares, amount int64) bool {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel() // nothing waits
	held := &memory.Held{}
	defer held.Release()
	for i := 0; amount > 0; i++ { // a holder gets at most half of the total
		part := min(amount, 4<<20)
		release, err := shares.Acquire(ended, fmt.Sprint("holder-", i), part)
		if err != nil {
			return false
		}
		held.Keep(release)
		amount -= part
	}
	_, err := shares.Acquire(ended, "another", 1)
	return err != nil
}

// Many requests of one namespace that first read a small object and then larger ones do not wait for each other's memory.
func TestReadsOfOneNamespaceDoNotBlockEachOther(t *testing.T) {
	s := newReadShares()
	var group sync.WaitGroup
	ready := make(chan struct{})
	for range 40 {
		group.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ctx, end := begin(ctx, s, "a")
			defer end()
			<-ready
			for _, bytes := range []int64{reserveSmall, reserveTyped, ReserveMachine, reserveLarge} {
				done, err := reserve(ctx, s, bytes)
				if err != nil {
					t.Error(err)
					return
				}
				defer done()
				runtime.Gosched()
			}
		})
	}
	close(ready)
	group.Wait()
}

func TestObjectCache(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	r := newObjectCache(10*(costPerEntry+costPerByte*100), now)
	for i := range 20 {
		r.add(fmt.Sprint(i), i, 100, time.Second)
		r.get("0") // used last, so it is not evicted first
	}
	if _, ok := r.get("0"); !ok {
		t.Error("what is used is forgotten")
	}
	if _, ok := r.get("1"); ok {
		t.Error("what is not used is kept")
	}
	r.add("19", 20, 100, time.Minute)
	if got, _ := r.get("19"); got != 20 {
		t.Errorf("it was replaced, and is %v", got)
	}
	r.add("large", 1, maxCachedObject+1, time.Minute)
	if _, ok := r.get("large"); ok {
		t.Error("what is too large is remembered")
	}
	if stats := r.statistics(); stats.Entries != 10 || stats.Bytes != r.most || stats.Evicted != 10 {
		t.Errorf("statistics %+v", stats)
	}
	now.SetTime(time.Unix(1, 0))
	if _, ok := r.get("0"); ok {
		t.Error("it outlives its time")
	}
	if _, ok := r.get("19"); !ok {
		t.Error("it is forgotten before its time")
	}
}
