package certificates

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/certificates"
)

// fieldManager is who writes, for the API server's records of field owners.
const fieldManager = "virtward-certificates"

// Options say what the controller keeps.
type Options struct {
	Client kubernetes.Interface
	// Namespace and Secret name the Secret, which the chart makes.
	Namespace, Secret string
	// Service is that of the webhooks, in Namespace.
	Service string
	// Mutating and Validating are the names of the webhook configurations. One that does not exist is left out.
	Mutating, Validating string
	// MutatePath and ValidatePath are the paths without their token.
	MutatePath, ValidatePath string
	// Settle is how long a rotation waits until everyone has taken notice of a step.
	Settle time.Duration
	// Interval is how often the certificates are looked at without a change.
	Interval time.Duration
	Clock    clock.WithTicker
	Log      logr.Logger
}

// Controller keeps the certificates of the webhooks.
type Controller struct {
	Options
	issuer *issuer
	// configured is the time since which the webhook configurations are known to be complete; zero if they are not. It is
	// not persisted: the process before may have written them the moment before it ended.
	configured time.Time
	queue      workqueue.TypedRateLimitingInterface[string]
}

// New makes a controller.
func New(o Options) *Controller {
	host := o.Service + "." + o.Namespace + ".svc"
	return &Controller{Options: o, issuer: newIssuer(host), queue: workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](100*time.Millisecond, 30*time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "certificates", Clock: o.Clock},
	)}
}

// Run works until the context ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	for _, watched := range c.watched() {
		go watched.RunWithContext(ctx)
	}
	go func() {
		<-ctx.Done()
		c.queue.ShutDown()
	}()
	c.queue.Add(c.Secret)
	for {
		key, ended := c.queue.Get()
		if ended {
			return nil
		}
		again, err := c.Reconcile(ctx)
		switch {
		case ctx.Err() != nil:
		case apierrors.IsConflict(err) || apierrors.IsInvalid(err): // somebody wrote in between
			c.queue.AddRateLimited(key)
		case err != nil:
			c.Log.Error(err, "the certificates of the webhooks cannot be kept; another attempt follows")
			c.queue.AddRateLimited(key)
		default:
			c.queue.Forget(key)
			c.queue.AddAfter(key, again)
		}
		c.queue.Done(key)
	}
}

// watched are the informers of the three objects, each limited to one name, as RBAC demands.
func (c *Controller) watched() []cache.Controller {
	asks := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.queue.Add(c.Secret) },
		UpdateFunc: func(any, any) { c.queue.Add(c.Secret) },
		DeleteFunc: func(any) { c.queue.Add(c.Secret) },
	}
	informer := func(client rest.Interface, resource, namespace, name string, kind runtime.Object) cache.Controller {
		only := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
		_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: cache.NewListWatchFromClient(client, resource, namespace, only), ObjectType: kind, Handler: asks,
		})
		return informer
	}
	registrations := c.Client.AdmissionregistrationV1().RESTClient()
	return []cache.Controller{
		informer(c.Client.CoreV1().RESTClient(), "secrets", c.Namespace, c.Secret, &corev1.Secret{}),
		informer(registrations, "mutatingwebhookconfigurations", metav1.NamespaceAll, c.Mutating, &admissionregistrationv1.MutatingWebhookConfiguration{}),
		informer(registrations, "validatingwebhookconfigurations", metav1.NamespaceAll, c.Validating, &admissionregistrationv1.ValidatingWebhookConfiguration{}),
	}
}

// Reconcile takes the next step, and tells when to take another.
func (c *Controller) Reconcile(ctx context.Context) (time.Duration, error) {
	secret, err := c.Client.CoreV1().Secrets(c.Namespace).Get(ctx, c.Secret, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading Secret %s: %w", c.Secret, err)
	}
	configurations, err := c.configurations(ctx)
	if err != nil {
		return 0, err
	}
	c.observe(configurations, c.state(secret))
	plan := certificates.Next(c.state(secret))
	if plan.Writes() {
		if secret, err = c.rotate(ctx, secret, plan, hasPath(configurations)); err != nil {
			return 0, err
		}
		plan.Wait = c.Settle
	}
	written, err := c.configure(ctx, configurations, c.state(secret))
	if err != nil {
		return 0, err
	}
	if written {
		plan.Wait = c.Settle
	}
	if plan.Wait == 0 || plan.Wait > c.Interval {
		return c.Interval, nil
	}
	return plan.Wait, nil
}

// observe keeps the time since which the configurations are complete.
func (c *Controller) observe(all []configuration, state certificates.State) {
	complete := !slices.ContainsFunc(all, func(one configuration) bool { return len(one.changes(state)) > 0 })
	switch {
	case !complete:
		c.configured = time.Time{}
	case c.configured.IsZero():
		c.configured = c.Clock.Now()
	}
}

// configure writes the configurations that are not complete, and reports whether there was one.
func (c *Controller) configure(ctx context.Context, all []configuration, state certificates.State) (bool, error) {
	written := false
	for _, one := range all {
		changed, err := one.write(ctx, state)
		if err != nil {
			c.configured = time.Time{}
			return written, err
		}
		written = written || changed
	}
	if written {
		c.configured = c.Clock.Now()
	}
	return written, nil
}

func (c *Controller) state(secret *corev1.Secret) certificates.State {
	changed, err := time.Parse(time.RFC3339, secret.Annotations[certificates.ChangedAnnotation])
	if err != nil { // there is none, or somebody wrote another text there
		changed = time.Time{}
	}
	return certificates.State{
		Data: secret.Data, Changed: changed, Now: c.Clock.Now(), Settle: c.Settle, DNSName: c.issuer.host, Configured: c.configured,
	}
}

// rotate makes what the plan asks for, and writes it.
func (c *Controller) rotate(ctx context.Context, secret *corev1.Secret, plan certificates.Plan, called bool) (*corev1.Secret, error) {
	secret = secret.DeepCopy()
	data, err := c.issuer.apply(secret.Data, plan, c.Clock.Now(), called)
	if err != nil {
		return nil, err
	}
	secret.Data = data
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[certificates.ChangedAnnotation] = c.Clock.Now().UTC().Format(time.RFC3339)
	written, err := c.Client.CoreV1().Secrets(c.Namespace).Update(ctx, secret, metav1.UpdateOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, fmt.Errorf("writing Secret %s: %w", c.Secret, err)
	}
	c.Log.Info("rotated", "authority", plan.NewAuthority, "certificate", plan.NewPair, "token", plan.NewToken, "previousDropped", plan.DropPrevious)
	return written, nil
}
