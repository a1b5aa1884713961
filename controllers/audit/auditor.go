package audit

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/controllers/auditresults"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/limits/memory"
)

// Auditor evaluates all existing objects repeatedly. Create it with New; only one runs in a cluster, in the leader.
type Auditor struct {
	Options

	agenda *agenda
	wake   chan struct{}
	ledger *auditresults.Ledger
	// garbage lets the heap become larger in a round.
	garbage memory.Garbage
	// complete reports whether a whole round has ended and was published.
	complete bool
	figures  Figures
	// published is when the results were last published in a round.
	published time.Time
	// fresh are new violations without an event, at most maxEvents; dropped is the number of further ones.
	fresh   []auditresults.Held
	dropped int
	// reports are the APIs of Reports that the cluster had at the last lookup, and asked is the time of that.
	reports []string
	asked   time.Time
	// everything reports whether all Reports must be compared, not only those of changed namespaces.
	everything bool
	foreign    map[string]bool
	once       sync.Once
}

// Options configure an Auditor.
type Options struct {
	*Criteria

	// Ready returns nil when everything that the evaluation reads is known. The first audit waits for it.
	Ready  func() error
	Stored Stored
	// Reports stores them; nil for none.
	Reports Reports
	Metrics *Metrics
	// Audited is called with the number of objects that violate each policy, and the time of the audit.
	Audited func(violations map[string]int, at time.Time)
	// Tell creates an event on the subject of a result.
	Tell  func(auditresults.Held, events.Event)
	Pace  Pace
	Limit auditresults.Limits
	Clock clock.Clock
	Log   logr.Logger
}

// New returns an Auditor.
func New(options Options) *Auditor {
	return &Auditor{
		Options: options, agenda: newAgenda(options.Pace), wake: make(chan struct{}, 1),
		ledger: auditresults.New(options.Limit), garbage: memory.Garbage{Least: leastHeap}, foreign: map[string]bool{},
	}
}

// Ask requests a round.
func (a *Auditor) Ask(why string) {
	a.agenda.ask(why, a.Clock.Now())
	a.rouse()
}

// Changed requests the evaluation of an object.
func (a *Auditor) Changed(key auditresults.Key) {
	a.agenda.changed(key, a.Clock.Now())
	a.rouse()
}

func (a *Auditor) rouse() {
	select {
	case a.wake <- struct{}{}:
	default: // it is awake
	}
}

// lookForReports is the interval of lookups of the APIs of Reports.
const lookForReports = 30 * time.Second

var (
	_ manager.Runnable               = (*Auditor)(nil)
	_ manager.LeaderElectionRunnable = (*Auditor)(nil)
)

// SetupWithManager adds the Auditor to a manager, in the replica that leads.
func (a *Auditor) SetupWithManager(mgr manager.Manager) error { return mgr.Add(a) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (a *Auditor) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it audits until the context ends.
func (a *Auditor) Start(ctx context.Context) error {
	if !a.ready(ctx) {
		return nil
	}
	a.once.Do(func() { a.Ask("the audit begins") })
	for ctx.Err() == nil {
		t, left := a.agenda.next(a.Clock.Now())
		if left == 0 {
			a.do(ctx, t)
			continue
		}
		if a.Reports != nil && a.complete {
			left = min(left, max(time.Second, lookForReports-a.Clock.Since(a.asked)))
		}
		timer := a.Clock.NewTimer(left)
		select {
		case <-ctx.Done():
		case <-a.wake:
		case <-timer.C():
			a.findReports(ctx)
		}
		timer.Stop()
	}
	return nil
}

// ready waits until Ready returns nil; it returns false if the context ends before.
func (a *Auditor) ready(ctx context.Context) bool {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) { return a.Ready() == nil, nil }) == nil
}

// Once evaluates all objects now, and publishes the results. It is for callers without Start.
func (a *Auditor) Once(ctx context.Context) error {
	if err := a.evaluate(ctx, task{round: true}); err != nil {
		return err
	}
	return a.publish(ctx)
}

// do runs a task, and requests it again if it fails.
func (a *Auditor) do(ctx context.Context, t task) {
	began := a.Clock.Now()
	err := a.evaluate(ctx, t)
	t.publish = true
	if err == nil {
		t.round, t.keys = false, nil
		err = a.publish(ctx)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		a.Metrics.failed.Inc()
		a.Log.Error(err, "the audit failed and will be retried", "after", a.agenda.failed(t, a.Clock.Now()).String())
	default:
		a.agenda.succeeded()
		if len(t.why) > 0 {
			a.Log.Info("audited", "because", t.why, "objects", a.figures.Objects, "took", a.Clock.Since(began).String())
		}
	}
}

// evaluate evaluates all objects, or some.
func (a *Auditor) evaluate(ctx context.Context, t task) error {
	if !t.round && (len(t.keys) == 0 || !a.complete) {
		return nil // what changes before the first round has ended is evaluated in it
	}
	began := a.Clock.Now()
	spare := spareTime
	if !t.round {
		spare = spareOfChanged
	}
	conditions, err := a.now(a.Clock, spare)
	if err != nil {
		return err
	}
	if !t.round {
		return conditions.again(ctx, a.Stored, t.keys, a.ledger, a.found)
	}
	defer a.garbage.Keep()()
	a.agenda.ends(a.nextExpiry(began))
	a.published = began
	if err := conditions.round(ctx, a.Stored, a.ledger, a.found, a.between); err != nil {
		return err
	}
	a.figures.Ended = a.Clock.Now()
	a.figures.Took, a.everything = a.figures.Ended.Sub(began), true
	return nil
}

// leastHeap is the size of the heap in a round before garbage is collected, in bytes.
const leastHeap = 48 << 20

// publishEvery is how often a round that takes long is interrupted to publish what it found, and to evaluate objects that
// changed meanwhile. So a namespace with very many objects does not delay the Reports of the others.
const publishEvery = time.Minute

// between publishes while a round is evaluated. What fails is repeated at the end of the round.
func (a *Auditor) between(ctx context.Context) {
	if !a.complete || a.Clock.Since(a.published) < publishEvery {
		return
	}
	keys := a.agenda.singles()
	err := a.evaluate(ctx, task{keys: keys})
	if err != nil {
		for _, key := range keys {
			a.agenda.changed(key, a.Clock.Now())
		}
	} else {
		err = a.publish(ctx)
	}
	if err != nil && ctx.Err() == nil {
		a.Log.Error(err, "publishing during an audit failed and will be repeated at its end")
	}
	a.published = a.Clock.Now()
}

// nextExpiry returns when the next exception expires; zero if none does.
func (a *Auditor) nextExpiry(now time.Time) time.Time {
	var next time.Time
	for _, p := range a.Evaluator.Configuration.Active().Policies.Policies() {
		if at := p.NextExpiry(now); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// maxEvents bounds the events of one round.
const maxEvents = 100

// found notes a fresh violation of a policy, for an event at the end. In the first round of an auditor all violations
// are fresh: then compare notes those that the Reports do not have.
func (a *Auditor) found(f auditresults.Held) {
	if !a.complete || f.BuiltIn {
		return
	}
	a.note(f)
}

func (a *Auditor) note(f auditresults.Held) {
	if len(a.fresh) == maxEvents {
		a.dropped++
		return
	}
	a.fresh = append(a.fresh, f)
}

// Events are the reasons of the events on audited objects.
var Events = events.Table{events.Warning(reasonViolation, "an object newly violates a policy")}

// reasonViolation is the reason of the event for an object that newly violates a policy.
const reasonViolation = "PolicyViolation"

// tell creates the events.
func (a *Auditor) tell() {
	for i := range a.fresh {
		a.Tell(a.fresh[i], Events.Event(reasonViolation, a.fresh[i].String()))
	}
	if a.dropped > 0 {
		a.Log.Info("events for new violations are left out: too many", "left out", a.dropped)
	}
	a.fresh, a.dropped = nil, 0
}
