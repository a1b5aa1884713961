package pending

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/rollouts"
)

var (
	now     = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	started = now.Add(-time.Hour)

	restart = rollouts.Change{Field: "spec.template.spec.hostname", Takes: rollouts.Restart, Reason: "Only at the start.", WayOut: "Restart it."}
	another = rollouts.Change{Field: "spec.template.spec.subdomain", Takes: rollouts.Restart, Reason: "Only at the start.", WayOut: "Restart it."}
	migrate = rollouts.Change{Field: "spec.template.spec.domain.cpu.sockets", Takes: rollouts.LiveOnMigration, Reason: "It migrates."}
	blocked = rollouts.Change{Field: "spec.template.spec.volumes", Takes: rollouts.Blocked, Reason: "It waits."}
	never   = rollouts.Change{Field: "spec.dataVolumeTemplates", Takes: rollouts.Never, Reason: "It exists."}
)

func pendingOf(changes ...rollouts.Change) *observed {
	return &observed{generation: 2, started: started, now: now, result: rollouts.Result{Changes: changes}}
}

// annotated has the annotation of an earlier plan at a time.
func (o *observed) annotatedAt(since time.Time, changes ...rollouts.Change) *observed {
	before := pendingOf(changes...)
	before.now = since
	o.annotated, o.has = plan(before).annotation, true
	return o
}

func (o *observed) edited(text string) *observed {
	o.annotated, o.has = text, true
	return o
}

func (o *observed) knows(since time.Time, changes ...rollouts.Change) *observed {
	before := pendingOf(changes...)
	before.now = since
	o.stamps = append([]stamp{}, plan(before).stamps...)
	return o
}

func TestPlan(t *testing.T) {
	early := now.Add(-10 * time.Minute)
	for name, test := range map[string]struct {
		observed *observed
		write    bool
		// since are the times of the annotation; nil for none.
		since  []time.Time
		events []string
	}{
		"nothing":          {pendingOf(), false, nil, nil},
		"nothing any more": {pendingOf().annotatedAt(early, restart), true, nil, nil},
		"the first change": {
			pendingOf(restart), true,
			[]time.Time{now},
			[]string{"Warning PendingRestart: spec.template.spec.hostname is pending. Only at the start. Restart it."},
		},
		"every kind": {
			pendingOf(migrate, restart, another, blocked, never), true,
			[]time.Time{now, now, now, now},
			[]string{
				"Normal PendingMigration: spec.template.spec.domain.cpu.sockets is pending. It migrates.",
				"Warning PendingRestart: spec.template.spec.hostname and other fields are pending. Only at the start. Restart it.",
				"Warning PendingBlocked: spec.template.spec.volumes is pending. It waits.",
				"Warning PendingNever: spec.dataVolumeTemplates is pending. It exists.",
			},
		},
		"the same":                                     {pendingOf(restart).annotatedAt(early, restart).knows(early, restart), false, []time.Time{early}, nil},
		"the same after a start of the process":        {pendingOf(restart).annotatedAt(early, restart), false, []time.Time{early}, nil},
		"one more field for the same reason":           {pendingOf(restart, another).annotatedAt(early, restart).knows(early, restart), true, []time.Time{early}, nil},
		"one more reason":                              {pendingOf(restart, blocked).annotatedAt(early, restart).knows(early, restart), true, []time.Time{early, now}, []string{"Warning PendingBlocked: spec.template.spec.volumes is pending. It waits."}},
		"one reason fewer":                             {pendingOf(restart).annotatedAt(early, restart, blocked).knows(early, restart, blocked), true, []time.Time{early}, nil},
		"an annotation that a user has removed":        {pendingOf(restart).knows(early, restart), true, []time.Time{early}, nil},
		"an annotation that a user has edited":         {pendingOf(restart).edited(`{"changes":[]}`).knows(early, restart), true, []time.Time{early}, nil},
		"a forged time":                                {pendingOf(restart).annotatedAt(started.Add(-time.Hour), restart), true, []time.Time{started}, nil},
		"a time in the future":                         {pendingOf(restart).annotatedAt(now.Add(time.Hour), restart), true, []time.Time{now}, nil},
		"a forged annotation of a VM without a change": {pendingOf().edited(`{"changes":[{"fields":["x"]}]}`).knows(early), true, nil, nil},
		"a forged reason of a VM that is known":        {pendingOf(restart).annotatedAt(early, restart).knows(early), true, []time.Time{now}, []string{"Warning PendingRestart: spec.template.spec.hostname is pending. Only at the start. Restart it."}},
		"an annotation that cannot be read":            {pendingOf(restart).edited("?"), true, []time.Time{now}, []string{"Warning PendingRestart: spec.template.spec.hostname is pending. Only at the start. Restart it."}},
		"an annotation that is too long":               {pendingOf().edited(strings.Repeat("x", 1<<20)), true, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := plan(test.observed)
			if d.write != test.write {
				t.Errorf("it writes: %t, want %t", d.write, test.write)
			}
			var told []string
			for _, e := range d.events {
				told = append(told, e.String())
			}
			if !slices.Equal(told, test.events) {
				t.Errorf("events %q, want %q", told, test.events)
			}
			var since []time.Time
			if d.annotation != "" {
				got, err := v1alpha1.PendingOf(map[string]string{v1alpha1.AnnotationPending: d.annotation})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range got.Changes {
					since = append(since, c.Since.UTC())
				}
			}
			if !slices.Equal(since, test.since) {
				t.Errorf("since %v, want %v", since, test.since)
			}
			// What it writes is what it finds next: then it writes nothing, and creates no event.
			next := *test.observed
			next.annotated, next.has, next.stamps = d.annotation, d.annotation != "", d.stamps
			if again := plan(&next); again.write || len(again.events) > 0 {
				t.Errorf("it is not stable: %+v", again)
			}
		})
	}
}
