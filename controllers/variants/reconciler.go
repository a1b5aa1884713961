package variants

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/architectures"
	imagev1alpha1 "github.com/virtward/virtward/api/image/v1alpha1"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/goldenimages"
	"github.com/virtward/virtward/templates/variants"
	"github.com/virtward/virtward/texts"
)

// Owner is the field manager of the writes.
const Owner = "virtward-images"

// maxKnown bounds the templates that are planned again when a catalog changes. Others are planned again after idle.
const maxKnown = 10_000

// maxMessage bounds the message of an event, in bytes.
const maxMessage = 512

// behind is the time after which a template is planned again if another process wrote a variant, and idle that without a change.
const behind, idle = time.Second, 10 * time.Minute

// Options configure a Reconciler.
type Options struct {
	// Client reads templates from the API server, without a cache, and writes.
	Client client.Client
	// Catalogs are the catalogs of the cluster.
	Catalogs client.Reader
	// Tell creates an event on a template.
	Tell func(*v1beta1.VirtualMachineTemplate, events.Event)
}

// Events are the reasons of the events on templates whose variants are kept.
var Events = events.Table{
	events.Warning(variants.ReasonNoImage, "no catalog has the image of the label"),
	events.Warning(variants.ReasonNoDataSource, "the template does not clone the image of the label"),
	events.Warning(variants.ReasonUnreadable, "the virtual machine of the template cannot be read"),
	events.Warning(goldenimages.ReasonNameTaken, "a template with the name of a variant exists, and is not a variant of this one"),
	events.Warning(variants.ReasonInvalid, "the API server denies a variant"),
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
	plan := variants.Of(source, catalogs.Items)
	if plan.Fault != nil {
		r.tell(source, plan.Fault)
	}
	var errs []error
	conflicts := false
	for _, architecture := range architectures.Names() {
		switch err := r.variant(ctx, source, &plan, architecture); {
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err):
			conflicts = true
		case err != nil:
			errs = append(errs, err)
		}
	}
	switch err := errors.Join(errs...); {
	case err != nil:
		return reconcile.Result{}, err
	case conflicts:
		return reconcile.Result{RequeueAfter: behind}, nil
	case !labeled:
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: idle}, nil
}

// variant plans and writes one variant. Templates can be large, so one is read at the same time. The error is Conflict or AlreadyExists
// if the variant was written since it was read.
func (r *Reconciler) variant(ctx context.Context, source *v1beta1.VirtualMachineTemplate, plan *variants.Variants, architecture string) error {
	existing := &v1beta1.VirtualMachineTemplate{}
	name := types.NamespacedName{Namespace: source.Namespace, Name: variants.Name(source.Name, architecture)}
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
		r.tell(source, &variants.Fault{Reason: variants.ReasonInvalid, Message: err.Error()})
		return nil
	case err != nil:
		return fmt.Errorf("%s VirtualMachineTemplate %s: %w", write.Verb, name, err)
	}
	return nil
}

func (r *Reconciler) apply(ctx context.Context, write *variants.Write) error {
	switch write.Verb {
	case goldenimages.Create:
		return r.Client.Create(ctx, write.Object, client.FieldOwner(Owner))
	case goldenimages.Update:
		return r.Client.Update(ctx, write.Object, client.FieldOwner(Owner))
	}
	uid, version := write.Object.UID, write.Object.ResourceVersion
	return client.IgnoreNotFound(r.Client.Delete(ctx, write.Object, client.Preconditions{UID: &uid, ResourceVersion: &version}))
}

func (r *Reconciler) tell(source *v1beta1.VirtualMachineTemplate, fault *variants.Fault) {
	r.Tell(source, Events.Event(fault.Reason, texts.Shorten(texts.OneLine(fault.Message), maxMessage)))
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
