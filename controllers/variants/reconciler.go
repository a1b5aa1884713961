package variants

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/images"
	"github.com/virtward/virtward/texts"
)

// Owner is the field manager of the writes.
const Owner = "virtward-images"

// maxKnown bounds the templates that are planned again when a catalog changes. Others are planned again after idle.
const maxKnown = 10_000

// maxMessage bounds the message of an event, in bytes.
const maxMessage = 512

// idle is the time after which a template is planned again without a change.
const idle = 10 * time.Minute

// Options configure a Reconciler.
type Options struct {
	// Client reads templates from the API server, without a cache, and writes.
	Client client.Client
	// Catalogs are the catalogs of the cluster.
	Catalogs client.Reader
	// Tell creates an event on a template, with its type, reason and message.
	Tell func(template *v1beta1.VirtualMachineTemplate, kind, reason, message string)
}

// Reconciler keeps the variants of templates. Its keys are the names of the templates. Create it with New.
type Reconciler struct {
	Options

	mu sync.Mutex
	// known are the templates with the label.
	known map[types.NamespacedName]struct{}
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{Options: options, known: map[types.NamespacedName]struct{}{}}
}

// Reconcile reads a template and the catalogs, and then plans and writes one variant after the other.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	source := &v1beta1.VirtualMachineTemplate{}
	err := r.Client.Get(ctx, key.NamespacedName, source)
	if apierrors.IsNotFound(err) || err == nil && source.DeletionTimestamp != nil {
		r.remember(key.NamespacedName, false) // the garbage collector deletes its variants
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading VirtualMachineTemplate %s: %w", key, err)
	}
	labeled := source.Labels[imagev1alpha1.PerArchitectureLabel] != ""
	r.remember(key.NamespacedName, labeled)
	catalogs := &imagev1alpha1.GoldenImageCatalogList{}
	if err := r.Catalogs.List(ctx, catalogs); err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the catalogs: %w", err)
	}
	plan := images.VariantsOf(source, catalogs.Items)
	if plan.Fault != nil {
		r.tell(source, plan.Fault)
	}
	var errs []error
	for _, architecture := range images.Architectures {
		if err := r.variant(ctx, source, &plan, architecture); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil || !labeled {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: idle}, nil
}

// variant plans and writes one variant. Templates can be large, so one is read at the same time.
func (r *Reconciler) variant(ctx context.Context, source *v1beta1.VirtualMachineTemplate, plan *images.Variants, architecture string) error {
	existing := &v1beta1.VirtualMachineTemplate{}
	name := types.NamespacedName{Namespace: source.Namespace, Name: images.VariantName(source.Name, architecture)}
	switch err := r.Client.Get(ctx, name, existing); {
	case apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		existing = nil
	case err != nil:
		return fmt.Errorf("reading VirtualMachineTemplate %s: %w", name, err)
	}
	write, fault := plan.Plan(architecture, existing)
	if fault != nil {
		r.tell(source, fault)
	}
	if write == nil {
		return nil
	}
	err := r.apply(ctx, write)
	switch {
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err): // by a rule, a policy or a quota
		r.tell(source, &images.Fault{Reason: images.ReasonVariantInvalid, Message: err.Error()})
		return nil
	case err != nil:
		return fmt.Errorf("%s VirtualMachineTemplate %s: %w", write.Verb, name, err)
	}
	return nil
}

func (r *Reconciler) apply(ctx context.Context, write *images.TemplateWrite) error {
	switch write.Verb {
	case images.Create:
		return r.Client.Create(ctx, write.Object, client.FieldOwner(Owner))
	case images.Update:
		return r.Client.Update(ctx, write.Object, client.FieldOwner(Owner))
	}
	uid, version := write.Object.UID, write.Object.ResourceVersion
	return client.IgnoreNotFound(r.Client.Delete(ctx, write.Object, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

func (r *Reconciler) tell(source *v1beta1.VirtualMachineTemplate, fault *images.Fault) {
	r.Tell(source, corev1.EventTypeWarning, fault.Reason, texts.Shorten(texts.OneLine(fault.Message), maxMessage))
}

// remember remembers a template with the label, or forgets it.
func (r *Reconciler) remember(name types.NamespacedName, labeled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !labeled {
		delete(r.known, name)
	} else if len(r.known) < maxKnown {
		r.known[name] = struct{}{}
	}
}
