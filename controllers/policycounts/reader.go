package policycounts

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/virtward/virtward/policycounts"
)

// Options configure a Reader.
type Options struct {
	// Replicas are those of the webhook; nil for none.
	Replicas *Replicas
	// Own are the counts of this process, whose audit evaluates policies, and its active policies.
	Own *policycounts.Source
	// Counted is called with the result of each read that differs from the one before.
	Counted  func(Counts)
	Interval time.Duration
	Metrics  *Metrics
	Clock    clock.Clock
	Log      logr.Logger
}

// Reader reads the counts at an interval. Create it with New; only one runs in a cluster, in the leader.
type Reader struct {
	Options

	ledger Ledger
	last   *Counts
}

// New returns a Reader.
func New(options Options) *Reader { return &Reader{Options: options} }

var (
	_ manager.Runnable               = (*Reader)(nil)
	_ manager.LeaderElectionRunnable = (*Reader)(nil)
)

// SetupWithManager adds the Reader to a manager, in the replica that leads.
func (r *Reader) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(r) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *Reader) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable: it reads until the context ends.
func (r *Reader) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		r.Once(ctx)
		timer := r.Clock.NewTimer(r.Interval)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
}

// Once reads all processes now.
func (r *Reader) Once(ctx context.Context) {
	active := r.Own.Policies()
	if active == nil {
		return // the policies have not been read yet
	}
	var reports []policycounts.Report
	if r.Replicas != nil {
		var errs []error
		if reports, errs = r.Replicas.Read(ctx); ctx.Err() != nil {
			return
		}
		r.Metrics.read(len(reports), errs)
		if err := errors.Join(errs...); err != nil {
			r.Log.V(1).Info("some replicas of the webhook did not report their counts of policies", "error", err.Error())
		}
	}
	counts := Counts{Read: len(reports) > 0}
	keys := make([]Key, 0, len(active))
	for i := range active {
		keys = append(keys, Key{active[i].UID, active[i].Generation})
	}
	counts.Policies = r.ledger.Add(append(reports, r.Own.Report()), keys, r.Clock.Now().Unix())
	if r.last != nil && reflect.DeepEqual(*r.last, counts) {
		return
	}
	r.last = &counts
	r.Counted(counts)
}
