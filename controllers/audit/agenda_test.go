package audit

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/virtward/virtward/controllers/auditresults"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// schedule has had its first round at the start.
func schedule(t *testing.T) *agenda {
	t.Helper()
	a := newAgenda(Pace{Interval: time.Hour, Least: 30 * time.Second, Quiet: 2 * time.Second})
	a.ask("it begins", after(-2))
	if got, _ := a.next(start); !got.round {
		t.Fatalf("the first task is %+v, no round", got)
	}
	a.succeeded()
	return a
}

func machine(name string) auditresults.Key {
	return auditresults.Key{Namespace: "default", Kind: "VirtualMachine", Name: name}
}

func TestAgenda(t *testing.T) {
	round := func(why ...string) task { return task{round: true, why: why} }
	for name, c := range map[string]struct {
		do   func(*agenda)
		at   int
		want task
		wait time.Duration
	}{
		"nothing is requested":                 {func(*agenda) {}, 60, task{}, 59 * time.Minute},
		"after an hour":                        {func(*agenda) {}, 3600, round("it is time"), 0},
		"something changed, and may again":     {func(a *agenda) { a.ask("policies", after(100)) }, 101, task{}, time.Second},
		"something changed":                    {func(a *agenda) { a.ask("policies", after(100)); a.ask("facts", after(100)) }, 102, round("facts", "policies"), 0},
		"it changed soon after the last round": {func(a *agenda) { a.ask("policies", after(5)) }, 20, task{}, 10 * time.Second},
		"and then it is time":                  {func(a *agenda) { a.ask("policies", after(5)) }, 30, round("policies"), 0},
		"it goes on and on changing": {func(a *agenda) {
			for i := range 20 {
				a.ask("policies", after(100+i))
			}
		}, 110, round("policies"), 0},
		"an exception ends":                {func(a *agenda) { a.ends(after(200)) }, 200, round("it is time"), 0},
		"an exception ends later":          {func(a *agenda) { a.ends(after(200)) }, 100, task{}, 100 * time.Second},
		"an object changed, and may again": {func(a *agenda) { a.changed(machine("b"), after(10)) }, 11, task{}, time.Second},
		"objects changed": {func(a *agenda) {
			a.changed(machine("b"), after(10))
			a.changed(machine("a"), after(11))
			a.changed(machine("b"), after(11))
		}, 12, task{keys: []auditresults.Key{machine("a"), machine("b")}}, 0},
		"a round evaluates what changed": {func(a *agenda) {
			a.changed(machine("b"), after(100))
			a.ask("policies", after(100))
		}, 110, round("policies"), 0},
		"very many objects changed": {func(a *agenda) {
			for i := range 1001 {
				a.changed(machine(fmt.Sprint(i)), after(100))
			}
		}, 102, round("many objects changed"), 0},
		"telling failed":                 {func(a *agenda) { a.failed(task{publish: true}, after(10)) }, 14, task{}, time.Second},
		"telling is tried again":         {func(a *agenda) { a.failed(task{publish: true}, after(10)) }, 15, task{publish: true}, 0},
		"a round that failed":            {func(a *agenda) { a.failed(round("policies"), after(40)) }, 45, round("the one before failed"), 0},
		"objects that could not be read": {func(a *agenda) { a.failed(task{keys: []auditresults.Key{machine("a")}}, after(10)) }, 15, task{keys: []auditresults.Key{machine("a")}}, 0},
		"it fails and fails": {func(a *agenda) {
			for range 20 {
				a.failed(task{publish: true}, after(10))
			}
		}, 12, task{}, 118 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := schedule(t)
			c.do(a)
			got, wait := a.next(after(c.at))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(task{})); diff != "" {
				t.Errorf("task (-want +got):\n%s", diff)
			}
			if wait != c.wait {
				t.Errorf("it waits for %s, not %s", wait, c.wait)
			}
		})
	}
}

func TestAgendaForgetsWhatWasDone(t *testing.T) {
	a := schedule(t)
	a.ask("policies", after(100))
	a.changed(machine("a"), after(100))
	if got, _ := a.next(after(110)); !got.round {
		t.Fatalf("the task is %+v", got)
	}
	if got, wait := a.next(after(120)); got.round || len(got.keys) > 0 || wait != 3590*time.Second {
		t.Errorf("what was done comes again: %+v, after %s", got, wait)
	}
}
