package pending

import (
	"hash/fnv"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/virtward/virtward/api/rollout/v1alpha1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/rollouts"
)

// mostSince bounds the reasons of a VM whose times are remembered: all that its annotation can have.
const mostSince = 16

// stamp is a reason, as a hash, and when it was seen first.
type stamp struct {
	reason uint64
	since  int64 // seconds
}

// observed is what is known of a running VM.
type observed struct {
	generation int64
	// annotated is the value of the annotation; has is false without one.
	annotated string
	has       bool
	// stamps are those of an earlier reconciliation; nil after a start of the process. Then the annotation has the times.
	stamps []stamp
	// started is when the instance was created: no change is pending for longer.
	started time.Time
	result  rollouts.Result
	now     time.Time
}

// decision is what to write.
type decision struct {
	// annotation is the value to write; empty removes it.
	annotation string
	write      bool
	// events are for the reasons that are new.
	events []events.Event
	stamps []stamp
}

// plan decides what to write about a running VM. It is pure.
func plan(o *observed) decision {
	if len(o.result.Changes) == 0 {
		return decision{write: o.has}
	}
	stamps := o.stamps
	if stamps == nil {
		stamps = o.stampsOfAnnotation()
	}
	d := decision{}
	summary := o.result.Summary(o.generation)
	for i := range summary.Changes {
		c := &summary.Changes[i]
		s := stamp{reason: reasonOf(c), since: o.now.Unix()}
		if at := slices.IndexFunc(stamps, func(known stamp) bool { return known.reason == s.reason }); at >= 0 {
			s.since = stamps[at].since
		} else {
			d.events = append(d.events, eventOf(c))
		}
		c.Since = metav1.NewTime(time.Unix(s.since, 0).UTC())
		d.stamps = append(d.stamps, s)
	}
	d.annotation = summary.String()
	d.write = !o.has || d.annotation != o.annotated
	return d
}

// stampsOfAnnotation reads the times of an annotation that another process wrote, or a user: a time before the start of the
// instance, or in the future, does not count.
func (o *observed) stampsOfAnnotation() []stamp {
	annotated, err := v1alpha1.PendingOf(map[string]string{v1alpha1.AnnotationPending: o.annotated})
	if err != nil || annotated == nil {
		return nil
	}
	var stamps []stamp
	for i := range annotated.Changes[:min(len(annotated.Changes), mostSince)] {
		c := &annotated.Changes[i]
		since := c.Since.Time
		if since.Before(o.started) {
			since = o.started
		}
		if since.After(o.now) {
			since = o.now
		}
		stamps = append(stamps, stamp{reason: reasonOf(c), since: since.Unix()})
	}
	return stamps
}

// reasonOf is a hash of when a change takes effect, and why.
func reasonOf(c *v1alpha1.PendingChange) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Takes + "\n" + c.Reason)) // a hash takes everything
	return h.Sum64()
}

// The reasons of events.
const (
	eventMigration = "PendingMigration"
	eventRestart   = "PendingRestart"
	eventBlocked   = "PendingBlocked"
	eventNever     = "PendingNever"
)

// Events are the reasons of the events on virtual machines.
var Events = events.Table{
	events.Normal(eventMigration, "a change is applied with the next live migration"),
	events.Warning(eventRestart, "a change is applied with the next restart"),
	events.Warning(eventBlocked, "something prevents a change"),
	events.Warning(eventNever, "a change has no effect on the running virtual machine, also after a restart"),
}

func eventOf(c *v1alpha1.PendingChange) events.Event {
	message := c.Fields[0] + " is pending. " + c.Reason
	if more := len(c.Fields) - 1 + c.More; more > 0 {
		message = c.Fields[0] + " and other fields are pending. " + c.Reason
	}
	if c.WayOut != "" {
		message += " " + c.WayOut
	}
	switch rollouts.Takes(c.Takes) {
	case rollouts.LiveOnMigration:
		return Events.Event(eventMigration, message)
	case rollouts.Blocked:
		return Events.Event(eventBlocked, message)
	case rollouts.Never:
		return Events.Event(eventNever, message)
	}
	return Events.Event(eventRestart, message)
}
