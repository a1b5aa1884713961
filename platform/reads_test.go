package platform

import (
	"context"
	"errors"
	"fmt"
	"testing"
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
		back, err := s.Take(ctx, "greedy", 10)
		if i < 5 != (err == nil) || err != nil && !errors.Is(err, ErrBusy) {
			t.Fatalf("%d: %v", i, err)
		}
		if err == nil {
			release = append(release, back)
		}
	}
	back, err := s.Take(t.Context(), "innocent", 1000) // more than half of the total
	if err != nil {
		t.Fatalf("another namespace has to wait: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := s.Take(ctx, "third", 1); !errors.Is(err, ErrBusy) {
		t.Errorf("more is free than expected: %v", err)
	}
	for _, back := range append(release, back) {
		back()
	}
	if !s.all.TryAcquire(100) || len(s.namespaces) != 0 {
		t.Errorf("after the end something is taken, or known of namespaces %v", s.namespaces)
	}
}

func TestSessionReservesUntilItsEnd(t *testing.T) {
	s := NewShares(MaxReads)
	ctx, end := begin(t.Context(), s, "a")
	for _, bytes := range []int64{reserveSmall, reserveSmall, reserveLarge, reserveSmall} {
		done, err := reserve(ctx, s, bytes)
		if err != nil {
			t.Fatal(err)
		}
		done()
	}
	if s.all.TryAcquire(MaxReads - reserveLarge + 1) {
		t.Error("what was read does not count any more")
	}
	if !s.all.TryAcquire(MaxReads - reserveLarge) {
		t.Error("what was read counts more than once")
	}
	s.all.Release(MaxReads - reserveLarge)
	end()
	done, err := reserve(t.Context(), s, reserveLarge) // without a session
	if err != nil {
		t.Fatal(err)
	}
	done()
	if !s.all.TryAcquire(MaxReads) {
		t.Error("a read without a session holds on to what it read")
	}
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
