package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/virtward/virtward/limits/parallel"
)

func TestEachIsDoneOnce(t *testing.T) {
	const count = 1000
	var done [count]atomic.Int32
	var running, most atomic.Int32
	if err := parallel.Each(t.Context(), count, func(i int) error {
		if now := running.Add(1); now > most.Load() {
			most.Store(now)
		}
		defer running.Add(-1)
		done[i].Add(1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range done {
		if n := done[i].Load(); n != 1 {
			t.Fatalf("%d is done %d times", i, n)
		}
	}
	if n := int(most.Load()); n > runtime.GOMAXPROCS(0) {
		t.Errorf("%d at once", n)
	}
}

// The error is that of the first, even if another one fails before it.
func TestTheErrorIsThatOfTheFirst(t *testing.T) {
	var begun sync.Map
	err := parallel.Each(t.Context(), 1000, func(i int) error {
		begun.Store(i, true)
		switch i {
		case 3:
			time.Sleep(10 * time.Millisecond) // so that 5 fails first, where there is more than one processor
			return errors.New("three")
		case 5:
			return errors.New("five")
		}
		return nil
	})
	if err == nil || err.Error() != "three" {
		t.Errorf("got %v", err)
	}
	if _, ok := begun.Load(900); ok && runtime.GOMAXPROCS(0) < 100 {
		t.Error("it goes on behind an error")
	}
}

func TestItEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var done atomic.Int32
	err := parallel.Each(ctx, 1_000_000, func(int) error {
		if done.Add(1) == 10 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || done.Load() > int32(10+runtime.GOMAXPROCS(0)) { //nolint:gosec // there are not so many
		t.Errorf("%d done, %v", done.Load(), err)
	}
}

func TestAPanicIsOfTheCaller(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); got != "oh" {
			t.Errorf("got %s", got)
		}
	}()
	_ = parallel.Each(t.Context(), 10, func(int) error { panic("oh") })
}

// TestBounded: as many tasks wait at the same time as the bound permits.
func TestBounded(t *testing.T) {
	const bound = 5
	var running, most atomic.Int32
	arrived := make(chan struct{})
	if err := parallel.Bounded(t.Context(), bound, 50, func(int) error {
		now := running.Add(1)
		defer running.Add(-1)
		for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
		}
		if now == bound {
			select {
			case <-arrived:
			default:
				close(arrived)
			}
		}
		select {
		case <-arrived:
			return nil
		case <-time.After(30 * time.Second):
			return errors.New("the others do not start")
		}
	}); err != nil {
		t.Fatal(err)
	}
	if n := most.Load(); n != bound {
		t.Errorf("%d at once", n)
	}
}

func TestNothing(t *testing.T) {
	if err := parallel.Each(t.Context(), 0, nil); err != nil {
		t.Error(err)
	}
}
