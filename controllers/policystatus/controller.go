package policystatus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/inforce"
)

// Owner is the field manager of the statuses.
const Owner = "virtward-controller"

// The reasons of events on policies.
const (
	EventCompiled    = "Compiled"
	EventNotCompiled = "NotCompiled"
)

var resource = policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies")

// Options are what a Controller works with.
type Options struct {
	Client dynamic.Interface
	// Policies are those in force.
	Policies func() []inforce.Compiled
	// Tell writes an event on a policy: its type, its reason and what it says.
	Tell  func(policy *policyv1alpha1.VirtualMachinePolicy, kind, reason, message string)
	Clock clock.Clock
	Log   logr.Logger
}

// Controller writes statuses. Make one with New; only one runs in a cluster, in the leader.
type Controller struct {
	Options

	wake chan struct{}
	// written are the statuses as they are known to be stored, by the policy's name.
	written map[string]written

	mu      sync.Mutex
	counted Counted
}

type written struct {
	object *policyv1alpha1.VirtualMachinePolicy // name, uid and generation
	status *policyv1alpha1.VirtualMachinePolicyStatus
}

// New prepares a Controller.
func New(options Options) *Controller {
	return &Controller{Options: options, wake: make(chan struct{}, 1), written: map[string]written{}}
}

// Changed asks for the statuses to be looked at, since policies changed.
func (c *Controller) Changed() {
	select {
	case c.wake <- struct{}{}:
	default: // it is awake
	}
}

// Audited tells what an audit counted.
func (c *Controller) Audited(violations map[string]int, at time.Time) {
	c.mu.Lock()
	c.counted = Counted{Violations: violations, At: at}
	c.mu.Unlock()
	c.Changed()
}

// The times after which statuses are tried again, and looked at without a reason.
const retry, idle = 5 * time.Second, time.Hour

// Run writes statuses until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		timer := c.Clock.NewTimer(c.pass(ctx))
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer.C():
		}
		timer.Stop()
	}
	return nil
}

// pass brings every status up to date, and says when to do so again without being asked.
func (c *Controller) pass(ctx context.Context) time.Duration {
	c.mu.Lock()
	counted := c.counted
	c.mu.Unlock()
	now, all := c.Clock.Now(), c.Policies()
	var errs []error
	there := make(map[string]bool, len(all))
	for i := range all {
		there[all[i].Object.Name] = true
		if err := c.bring(ctx, &all[i], counted, now); err != nil {
			errs = append(errs, fmt.Errorf("the status of VirtualMachinePolicy %s: %w", all[i].Object.Name, err))
		}
	}
	for name := range c.written {
		if !there[name] {
			delete(c.written, name)
		}
	}
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		c.Log.Error(err, "some statuses could not be written, and are tried again", "after", retry.String())
		return retry
	}
	if next := nextExpiry(all, now); !next.IsZero() {
		return min(idle, next.Sub(now)+time.Second)
	}
	return idle
}

// bring brings the status of one policy up to date: plan from what is known, and if that differs, from what is
// stored; apply; tell.
func (c *Controller) bring(ctx context.Context, p *inforce.Compiled, counted Counted, now time.Time) error {
	if known, ok := c.written[p.Object.Name]; ok && known.object.UID == p.Object.UID && known.object.Generation == p.Object.Generation &&
		equality.Semantic.DeepEqual(known.status, Plan(p, counted, known.status, now)) {
		return nil
	}
	before, err := c.statuses().Get(ctx, p.Object.Name)
	if before == nil || err != nil {
		return err
	}
	if before.UID != p.Object.UID || before.Generation != p.Object.Generation {
		return nil // there is a newer one, of which the watch tells in a moment
	}
	planned := Plan(p, counted, &before.Status, now)
	if !equality.Semantic.DeepEqual(planned, ours(&before.Status)) {
		if err := c.statuses().Apply(ctx, p.Object.Name, p.Object.UID, planned); err != nil {
			return err
		}
	}
	c.written[p.Object.Name] = written{object: p.Object, status: planned}
	c.tell(before, planned)
	return nil
}

// ours is the part of a status that this controller writes.
func ours(s *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus {
	part := s.DeepCopy()
	part.Conditions = nil
	for _, kind := range []string{policyv1alpha1.PolicyCompiled, policyv1alpha1.PolicyReady} {
		if found := meta.FindStatusCondition(s.Conditions, kind); found != nil {
			part.Conditions = append(part.Conditions, *found)
		}
	}
	part.EnforcedBy = nil
	for _, by := range s.EnforcedBy {
		if by == policyv1alpha1.PolicyByWebhook {
			part.EnforcedBy = append(part.EnforcedBy, by)
		}
	}
	part.ExportNotes = nil
	return part
}

// tell writes an event if the policy stopped or began to be in order.
func (c *Controller) tell(before *policyv1alpha1.VirtualMachinePolicy, now *policyv1alpha1.VirtualMachinePolicyStatus) {
	was := meta.FindStatusCondition(before.Status.Conditions, policyv1alpha1.PolicyCompiled)
	is := meta.FindStatusCondition(now.Conditions, policyv1alpha1.PolicyCompiled)
	broke := was != nil && was.Status == metav1.ConditionFalse
	switch {
	case is.Status == metav1.ConditionFalse && (!broke || was.Message != is.Message):
		c.Tell(before, corev1.EventTypeWarning, EventNotCompiled, is.Message)
	case is.Status == metav1.ConditionTrue && broke:
		c.Tell(before, corev1.EventTypeNormal, EventCompiled, is.Message)
	}
}

func (c *Controller) statuses() *statuses.Store {
	return &statuses.Store{Client: c.Client, Owner: Owner}
}
