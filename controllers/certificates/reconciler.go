package certificates

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/certificates"
	"github.com/virtward/virtward/controllers"
)

// fieldManager is who writes, for the API server's records of field owners.
const fieldManager = "virtward-certificates"

// Options say what the controller keeps.
type Options struct {
	Client   kubernetes.Interface
	Metadata metadata.Interface
	// Dynamic reads and writes APIServices.
	Dynamic dynamic.Interface
	// Namespace and Secret name the Secret, which the chart makes.
	Namespace, Secret string
	// Service is that of the webhooks or of the aggregated API, in Namespace.
	Service string
	// Mutating and Validating are the names of the webhook configurations. One that does not exist is left out.
	Mutating, Validating string
	// APIServices are the names of the APIServices. One that does not exist, or names another Service, is left out.
	APIServices []string
	// MutatePath, ValidatePath and DeletionsPath are the paths without their token.
	MutatePath, ValidatePath, DeletionsPath string
	// Settle is how long a rotation waits until all clients have noticed a step.
	Settle time.Duration
	// Interval is how often the certificates are looked at without a change.
	Interval time.Duration
	Clock    clock.PassiveClock
	Log      logr.Logger
}

// Reconciler keeps the certificates of the webhooks, or of the aggregated API. It has one key: the Secret and the objects
// with its CA bundle are one unit of work, since each step of a rotation depends on all of them. Make one with New.
type Reconciler struct {
	Options

	trigger *controllers.Trigger
	issuer  *issuer
	// configured is the time since which the targets are known to be complete; zero if they are not. It is
	// not persisted: the process before may have written them the moment before it ended.
	configured time.Time
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	return &Reconciler{Options: o, trigger: controllers.NewTrigger(), issuer: newIssuer(o.Service + "." + o.Namespace + ".svc")}
}

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	ask := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return r.keys() })
	b := ctrl.NewControllerManagedBy(mgr).Named(r.Secret).WatchesRawSource(r.trigger.Source(r.keys))
	for _, object := range r.watched() {
		watch, err := r.watch(mgr, object, ask)
		if err != nil {
			return err
		}
		b = b.WatchesRawSource(watch)
	}
	return b.WithOptions(controllers.Options()).Complete(r)
}

// keys are the only key.
func (r *Reconciler) keys() []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: r.Namespace, Name: r.Secret}}}
}

// behind is the delay of another attempt after a conflicting write.
const behind = 200 * time.Millisecond

// Reconcile takes the next step, and tells when to take another.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	wait, err := r.step(ctx)
	if apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		return reconcile.Result{RequeueAfter: behind}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("keeping the certificates of Service %s: %w", r.Service, err)
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// step plans and applies.
func (r *Reconciler) step(ctx context.Context) (wait time.Duration, err error) {
	secret, err := r.Client.CoreV1().Secrets(r.Namespace).Get(ctx, r.Secret, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading Secret %s: %w", r.Secret, err)
	}
	targets, err := r.targets(ctx)
	if err != nil {
		return 0, err
	}
	r.observe(targets, r.state(secret))
	plan := certificates.Next(r.state(secret))
	if plan.Writes() {
		if secret, err = r.rotate(ctx, secret, plan, slices.ContainsFunc(targets, func(t target) bool { return t.hasPath })); err != nil {
			return 0, err
		}
		plan.Wait = r.Settle
	}
	written, err := r.configure(ctx, targets, r.state(secret))
	if err != nil {
		return 0, err
	}
	if written {
		plan.Wait = r.Settle
	}
	if plan.Wait == 0 || plan.Wait > r.Interval {
		return r.Interval, nil
	}
	return plan.Wait, nil
}

// observe keeps the time since which the targets are complete.
func (r *Reconciler) observe(all []target, state certificates.State) {
	complete := !slices.ContainsFunc(all, func(one target) bool { return len(one.changes(state)) > 0 })
	switch {
	case !complete:
		r.configured = time.Time{}
	case r.configured.IsZero():
		r.configured = r.Clock.Now()
	}
}

// configure writes the targets that are not complete, and reports whether there was one.
func (r *Reconciler) configure(ctx context.Context, all []target, state certificates.State) (bool, error) {
	written := false
	for _, one := range all {
		changed, err := one.write(ctx, state)
		if err != nil {
			r.configured = time.Time{}
			return written, err
		}
		written = written || changed
	}
	if written {
		r.configured = r.Clock.Now()
	}
	return written, nil
}

func (r *Reconciler) state(secret *corev1.Secret) certificates.State {
	changed, err := time.Parse(time.RFC3339, secret.Annotations[certificates.ChangedAnnotation])
	if err != nil { // it is missing or invalid
		changed = time.Time{}
	}
	return certificates.State{
		Tokenless: r.Mutating == "" && r.Validating == "", Data: secret.Data, Changed: changed, Now: r.Clock.Now(), Settle: r.Settle, DNSName: r.issuer.host, Configured: r.configured,
	}
}

// rotate makes what the plan asks for, and writes it.
func (r *Reconciler) rotate(ctx context.Context, secret *corev1.Secret, plan certificates.Plan, called bool) (*corev1.Secret, error) {
	secret = secret.DeepCopy()
	data, err := r.issuer.apply(secret.Data, plan, r.Clock.Now(), called)
	if err != nil {
		return nil, err
	}
	secret.Data = data
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[certificates.ChangedAnnotation] = r.Clock.Now().UTC().Format(time.RFC3339)
	written, err := r.Client.CoreV1().Secrets(r.Namespace).Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, fmt.Errorf("writing Secret %s: %w", r.Secret, err)
	}
	r.Log.Info("rotated", "authority", plan.NewAuthority, "certificate", plan.NewPair, "token", plan.NewToken, "previousDropped", plan.DropPrevious)
	return written, nil
}
