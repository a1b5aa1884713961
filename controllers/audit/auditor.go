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
)

// Auditor evaluates everything that exists again and again. Make one with New; only one runs in a cluster, in the leader.
type Auditor struct {
	Options

	agenda *agenda
	wake   chan struct{}
	ledger *auditresults.Ledger
	// complete tells that a whole round has ended and was told.
	complete bool
	figures  Figures
	// fresh are new violations that have not been told, as many as may be; dropped is how many more there were.
	fresh   []auditresults.Held
	dropped int
	// reports tells that the cluster had OpenReports when it was last asked, asked when that was.
	reports bool
	asked   time.Time
	// everything tells that all Reports are to be looked at, not only those of namespaces that changed.
	everything bool
	foreign    map[string]bool
	once       sync.Once
}

// Options are what an Auditor works with.
type Options struct {
	*Criteria

	// Ready returns nil once everything is known that objects are evaluated by. The first audit waits for it.
	Ready  func() error
	Stored Stored
	// Reports keeps them; nil for none.
	Reports Reports
	Metrics *Metrics
	// Audited is told how many objects violate each policy, and when that was found.
	Audited func(violations map[string]int, at time.Time)
	// Tell writes an event on an object that newly violates a policy.
	Tell  func(auditresults.Held)
	Pace  Pace
	Limit auditresults.Limits
	Clock clock.Clock
	Log   logr.Logger
}

// New prepares an Auditor.
func New(options Options) *Auditor {
	return &Auditor{
		Options: options, agenda: newAgenda(options.Pace), wake: make(chan struct{}, 1),
		ledger: auditresults.New(options.Limit), foreign: map[string]bool{},
	}
}

// Ask asks for everything to be evaluated again, soon.
func (a *Auditor) Ask(why string) {
	a.agenda.ask(why, a.Clock.Now())
	a.rouse()
}

// Changed asks for an object to be evaluated again, soon.
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

// lookForReports is how often a cluster without OpenReports is asked whether it has them now.
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
		if a.Reports != nil && a.complete && !a.reports {
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

// ready waits until everything is known; false if the context ended before.
func (a *Auditor) ready(ctx context.Context) bool {
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) { return a.Ready() == nil, nil }) == nil
}

// Once evaluates everything now and tells what it found, for whoever does not Run.
func (a *Auditor) Once(ctx context.Context) error {
	if err := a.evaluate(ctx, task{round: true}); err != nil {
		return err
	}
	return a.publish(ctx)
}

// do does a task, and asks for it again if it fails.
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
		a.Log.Error(err, "the audit failed, and is tried again", "after", a.agenda.failed(t, a.Clock.Now()).String())
	default:
		a.agenda.succeeded()
		if len(t.why) > 0 {
			a.Log.Info("audited", "because", t.why, "objects", a.figures.Objects, "took", a.Clock.Since(began).String())
		}
	}
}

// evaluate evaluates everything, or some objects.
func (a *Auditor) evaluate(ctx context.Context, t task) error {
	if !t.round && (len(t.keys) == 0 || !a.complete) {
		return nil // what changes before the first round has ended is evaluated in it
	}
	began := a.Clock.Now()
	conditions, err := a.at(began)
	if err != nil {
		return err
	}
	if !t.round {
		return conditions.again(ctx, a.Stored, t.keys, a.ledger, a.found)
	}
	a.agenda.ends(a.nextExpiry(began))
	if err := conditions.round(ctx, a.Stored, a.ledger, a.found); err != nil {
		return err
	}
	a.figures.Ended = a.Clock.Now()
	a.figures.Took, a.everything = a.figures.Ended.Sub(began), true
	return nil
}

// nextExpiry is when the next exception ends; zero if none does.
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

// found notes a fresh violation of a policy, to be told when all else is. In the first round of an auditor everything
// is fresh: then the Reports say what was known.
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

// tell writes the events.
func (a *Auditor) tell() {
	for i := range a.fresh {
		a.Tell(a.fresh[i])
	}
	if a.dropped > 0 {
		a.Log.Info("there are more new violations than events for them", "left out", a.dropped)
	}
	a.fresh, a.dropped = nil, 0
}
