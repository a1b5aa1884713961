package platform

import (
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

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
	if s.free > MaxReads-reserveLarge {
		t.Error("what was read does not count any more")
	}
	if s.free < MaxReads-reserveLarge {
		t.Error("what was read counts more than once")
	}
	end()
	done, err := reserve(t.Context(), s, reserveLarge) // without a session
	if err != nil {
		t.Fatal(err)
	}
	done()
	if s.free != MaxReads {
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
