package export

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel/guards"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/inforce"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/policies/export"
)

// Owner is the field manager of what this controller writes.
const Owner = "virtward-export"

var resource = policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies")

// Options are what a Controller works with.
type Options struct {
	// Client writes the native forms, and Dynamic the statuses of the policies.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	// Policies are those in force, and Facts those of the cluster.
	Policies func() []inforce.Compiled
	Facts    func() *platform.Facts
	// Namespace is Virtward's own, and Exempt are the others that the webhooks do not see.
	Namespace string
	Exempt    []string
	Clock     clock.Clock
	Log       logr.Logger
}

// Controller keeps native forms. Make one with New; only one runs in a cluster, in the leader.
type Controller struct {
	Options

	wake     chan struct{}
	factory  informers.SharedInformerFactory
	synced   []cache.InformerSynced
	policies policyPart
	bindings bindingPart
	// made are the native forms of policies, and written the statuses as they are known to be stored, by name: so that
	// nothing is made, read or written again while nothing changes.
	made    map[string]memo
	written map[string]written
}

// written is our part of a policy's status.
type written struct {
	uid        types.UID
	generation int64
	status     *policyv1alpha1.VirtualMachinePolicyStatus
}

// memo is what a native form was made of, and what came of it.
type memo struct {
	policy   *policies.Policy
	cluster  export.Cluster
	native   *export.Native
	problems []policies.Problem
}

// New prepares a Controller.
func New(options Options) (*Controller, error) {
	c := &Controller{Options: options, wake: make(chan struct{}, 1), made: map[string]memo{}, written: map[string]written{}}
	c.factory = informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.LabelSelector = export.ManagedBy + "=" + export.Manager
	}), informers.WithTransform(withoutManagedFields))
	watched := c.factory.Admissionregistration().V1()
	for _, informer := range []cache.SharedIndexInformer{watched.ValidatingAdmissionPolicies().Informer(), watched.ValidatingAdmissionPolicyBindings().Informer()} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.Changed() }, UpdateFunc: func(any, any) { c.Changed() }, DeleteFunc: func(any) { c.Changed() },
		})
		if err != nil {
			return nil, fmt.Errorf("watching native policies: %w", err)
		}
		c.synced = append(c.synced, informer.HasSynced)
	}
	policyLister, bindingLister := watched.ValidatingAdmissionPolicies().Lister(), watched.ValidatingAdmissionPolicyBindings().Lister()
	c.policies = policyPart{
		kind: "ValidatingAdmissionPolicy", client: c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies(),
		cached: func(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
			return orNil(policyLister.Get(name))
		},
		meta: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) *metav1.ObjectMeta { return &p.ObjectMeta },
		spec: func(p *admissionregistrationv1.ValidatingAdmissionPolicy) any { return &p.Spec },
		put: func(to, from, there *admissionregistrationv1.ValidatingAdmissionPolicy) {
			to.Spec = from.Spec
			if there != nil {
				to.Spec.MatchConditions = guards.KeepDisabled(from.Spec.MatchConditions, there.Spec.MatchConditions)
			}
		},
	}
	c.bindings = bindingPart{
		kind: "ValidatingAdmissionPolicyBinding", client: c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings(),
		cached: func(name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
			return orNil(bindingLister.Get(name))
		},
		meta: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) *metav1.ObjectMeta {
			return &b.ObjectMeta
		},
		spec: func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) any { return &b.Spec },
		put:  func(to, from, _ *admissionregistrationv1.ValidatingAdmissionPolicyBinding) { to.Spec = from.Spec },
	}
	return c, nil
}

// orNil is what a lister finds; its only error is that there is nothing.
func orNil[T any](found *T, err error) *T {
	if err != nil {
		return nil
	}
	return found
}

// withoutManagedFields forgets what nobody asks for, and what may not be sent back.
func withoutManagedFields(obj any) (any, error) {
	if o, ok := obj.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// Changed asks for a pass: policies or facts changed.
func (c *Controller) Changed() {
	select {
	case c.wake <- struct{}{}:
	default: // it is awake
	}
}

// The times after which a pass is tried again, and made without a reason.
const retry, idle = 5 * time.Second, time.Hour

// Run keeps the native forms until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	c.factory.StartWithContext(ctx)
	defer c.factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return nil
	}
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

// pass brings every native form up to date, and says when to do so again without being asked. What failed for one
// policy keeps no other from its own.
func (c *Controller) pass(ctx context.Context) time.Duration {
	all, wait := c.Policies(), idle
	now := c.Clock.Now()
	var errs []error
	there := make(map[string]bool, len(all))
	for i := range all {
		there[all[i].Object.Name] = true
		o, err := c.bring(ctx, &all[i], now)
		if err != nil {
			errs = append(errs, fmt.Errorf("VirtualMachinePolicy %s: %w", all[i].Object.Name, err))
		}
		if o.native != nil && o.native.Until != nil {
			wait = min(wait, o.native.Until.Sub(now))
		}
	}
	gone := func(name string) bool { return !there[name] }
	maps.DeleteFunc(c.made, func(name string, _ memo) bool { return gone(name) })
	maps.DeleteFunc(c.written, func(name string, _ written) bool { return gone(name) })
	if err := errors.Join(errs...); err != nil && ctx.Err() == nil {
		c.Log.Error(err, "some policies could not be exported, and are tried again", "after", retry.String())
		return retry
	}
	return max(wait, time.Millisecond)
}

// bring brings the native form of one policy and the status up to date. An error of the API server stands in the
// status too.
func (c *Controller) bring(ctx context.Context, p *inforce.Compiled, now time.Time) (outcome, error) {
	o, err := c.act(ctx, p, now)
	var answer *apierrors.StatusError
	switch {
	case apierrors.IsConflict(err): // we are behind: the watch tells of what is there in a moment
		return o, nil
	case errors.As(err, &answer) && wanted(p):
		o = outcome{wanted: true, reason: policyv1alpha1.PolicyReasonRejected, message: err.Error()}
	case err != nil:
		return o, err
	}
	return o, errors.Join(err, c.state(ctx, p, &o, now))
}

// act makes, changes or removes a native form.
func (c *Controller) act(ctx context.Context, p *inforce.Compiled, now time.Time) (outcome, error) {
	if !wanted(p) {
		return outcome{}, c.remove(ctx, p)
	}
	native, problems := c.export(p, now)
	if native == nil {
		return refused(problems), c.remove(ctx, p)
	}
	name, uid := native.Policy.Name, p.Object.UID
	if ours, err := c.policies.free(ctx, name, uid); err != nil {
		return outcome{}, err
	} else if !ours {
		return taken(c.policies.kind, name), c.remove(ctx, p)
	}
	if ours, err := c.bindings.free(ctx, name, uid); err != nil {
		return outcome{}, err
	} else if !ours {
		return taken(c.bindings.kind, name), c.remove(ctx, p)
	}
	metadata := func(made, there *metav1.ObjectMeta) metav1.ObjectMeta { return dress(made, there, p) }
	if err := c.policies.keep(ctx, native.Policy, uid, metadata); err != nil {
		return outcome{}, err
	}
	return outcome{wanted: true, native: native}, c.bindings.keep(ctx, native.Binding, uid, metadata)
}

// remove deletes a native form, the binding first: a policy without one is asked nothing.
func (c *Controller) remove(ctx context.Context, p *inforce.Compiled) error {
	name := export.Prefix + p.Object.Name
	if err := c.bindings.remove(ctx, name, p.Object.UID); err != nil {
		return err
	}
	return c.policies.remove(ctx, name, p.Object.UID)
}

// export makes the native form of a policy, or remembers it.
func (c *Controller) export(p *inforce.Compiled, now time.Time) (*export.Native, []policies.Problem) {
	cluster := export.Cluster{Namespace: c.Namespace, Exempt: c.Exempt, KubeVirt: c.Facts().KubeVirtUsers()}
	m, known := c.made[p.Object.Name]
	over := known && m.native != nil && m.native.Until != nil && !now.Before(*m.native.Until)
	if !known || over || m.policy != p.Policy || m.cluster.Namespace != cluster.Namespace || !slices.Equal(m.cluster.KubeVirt, cluster.KubeVirt) {
		m = memo{policy: p.Policy, cluster: cluster}
		m.native, m.problems = export.Export(p.Policy, cluster, now)
		c.made[p.Object.Name] = m
	}
	return m.native, m.problems
}

// state writes what became of a policy into the status, if that says something else.
func (c *Controller) state(ctx context.Context, p *inforce.Compiled, o *outcome, now time.Time) error {
	is := written{uid: p.Object.UID, generation: p.Object.Generation}
	if was, known := c.written[p.Object.Name]; known && was.uid == is.uid && was.generation == is.generation &&
		equality.Semantic.DeepEqual(was.status, o.status(p, was.status, now)) {
		return nil
	}
	before, err := c.statuses().Get(ctx, p.Object.Name)
	if before == nil || err != nil || before.UID != p.Object.UID {
		return err
	}
	is.status = o.status(p, &before.Status, now)
	if !equality.Semantic.DeepEqual(is.status, ours(&before.Status)) {
		if err := c.statuses().Apply(ctx, p.Object.Name, p.Object.UID, is.status); err != nil {
			return err
		}
	}
	c.written[p.Object.Name] = is
	return nil
}

func (c *Controller) statuses() *statuses.Store {
	return &statuses.Store{Client: c.Dynamic, Owner: Owner}
}
