package transfers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := New[string](ctx, Limits{Running: 4, Namespace: 3})
		var mu sync.Mutex
		now, most := map[string]int{}, map[string]int{}
		run := func(namespace string) func(context.Context, *Progress) (string, error) {
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				for _, key := range []string{namespace, ""} {
					now[key] += n
					most[key] = max(most[key], now[key])
				}
			}
			return func(ctx context.Context, progress *Progress) (string, error) {
				count(1)
				defer count(-1)
				progress.Set(5, 10)
				select {
				case <-ctx.Done():
					return "", ctx.Err()
				case <-time.After(time.Minute):
					return namespace, nil
				}
			}
		}
		for i := range 20 {
			for range 2 { // the second start changes nothing
				if err := p.Start(fmt.Sprint("a", i), "a", run("a"), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := p.Start("b", "b", run("b"), nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if b, _ := p.Get("b"); !b.Running || b.Done != 5 || b.Total != 10 {
			t.Errorf("the namespace b waits for a: %+v", b)
		}
		if last, _ := p.Get("a19"); last.Running || last.Ended || last.Ahead != 16 {
			t.Errorf("the last task: %+v", last)
		}
		if !p.Forget("a19") || p.Forget("a0") || !p.Forget("never") {
			t.Error("only a task that does not run is forgotten at once")
		}
		synctest.Wait()
		if ended, _ := p.Get("a0"); !ended.Ended || !errors.Is(ended.Err, context.Canceled) || !p.Forget("a0") {
			t.Errorf("the task that was ended: %+v", ended)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for i := 1; i < 19; i++ {
			if task, _ := p.Get(fmt.Sprint("a", i)); !task.Ended || task.Result != "a" || task.Err != nil {
				t.Errorf("task %d: %+v", i, task)
			}
		}
		if most["a"] != 3 || most[""] != 4 || len(p.places) != 0 || p.running != 0 {
			t.Errorf("at most %d tasks ran, %d of a namespace; places %v", most[""], most["a"], p.places)
		}
		panics := func(context.Context, *Progress) (string, error) { panic("broken") }
		notified := false
		ended := func() {
			task, _ := p.Get("panic")
			notified = task.Ended
		}
		if err := p.Start("panic", "a", panics, ended); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if task, _ := p.Get("panic"); task.Err == nil || !notified {
			t.Errorf("a panic is the error %v; notified %v", task.Err, notified)
		}
	})
}

// TestFairness: a namespace without a running task is served before those that wait longer.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New[int](t.Context(), Limits{Running: 4, Namespace: 2})
		minute := func(context.Context, *Progress) (int, error) {
			time.Sleep(time.Minute)
			return 0, nil
		}
		for i := range 40 {
			for _, namespace := range []string{"a", "b"} {
				if err := p.Start(fmt.Sprint(namespace, i), namespace, minute, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Second)
		if err := p.Start("c", "c", minute, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c, _ := p.Get("c"); !c.Running {
			t.Errorf("it still waits behind the tasks of other namespaces: %+v", c)
		}
		time.Sleep(time.Hour)
	})
}

// TestTurns: with one place, namespaces take turns, also if one of them adds each task when the one before it ended.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New[int](t.Context(), Limits{Running: 1, Namespace: 1})
		var order []string
		var start func(key, namespace string, again bool)
		start = func(key, namespace string, again bool) {
			err := p.Start(key, namespace, func(context.Context, *Progress) (int, error) {
				time.Sleep(time.Minute)
				order = append(order, key)
				if again {
					start(key+"+", namespace, len(key) < 3)
				}
				return 0, nil
			}, nil)
			if err != nil {
				t.Error(err)
			}
		}
		for i := range 4 {
			start(fmt.Sprint("a", i), "a", false)
		}
		start("c", "c", true)
		start("b", "b", false)
		if last, _ := p.Get("a3"); last.Ahead != 4 {
			t.Errorf("%d tasks are ahead of the last one", last.Ahead)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got, want := strings.Join(order, " "), "a0 a1 c b a2 c+ a3 c++ c+++"; got != want {
			t.Errorf("got the order %s", got)
		}
	})
}

func TestFull(t *testing.T) {
	p := New[int](t.Context(), Limits{})
	for i := range MaxTasks {
		if err := p.Start(fmt.Sprint(i), "a", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Start("more", "a", nil, nil); !errors.Is(err, ErrFull) {
		t.Error(err)
	}
	if !p.Forget("0") || p.Start("more", "a", nil, nil) != nil {
		t.Error("a place that is free is not taken")
	}
}
