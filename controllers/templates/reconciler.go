package templates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/events"
	"github.com/virtward/virtward/controllers/statuses"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/templates"
)

// Owner is the field manager of the statuses.
const Owner = "virtward-templates"

// Options configure a Reconciler.
type Options struct {
	// Client reads from the API server, without a cache, and writes.
	Client client.Client
	// Evaluator evaluates the VirtualMachines that templates make.
	Evaluator *evaluator.Evaluator
	// ReserveReads bounds what the Evaluator reads for a template.
	ReserveReads platform.ReserveReads
	// Ready returns nil once the configuration is known. Nothing is written before.
	Ready func() error
	// Tell creates an event on a template.
	Tell  func(*v1beta1.VirtualMachineTemplate, events.Event)
	Clock clock.PassiveClock
}

// Reconciler writes the readiness of templates. Its keys are their names. Create it with New.
type Reconciler struct {
	Options

	report  *report
	trigger *controllers.Trigger
	objects *dependents.Index

	mu sync.Mutex
	// known are the templates that exist.
	known map[reconcile.Request]struct{}
}

// New returns a Reconciler.
func New(options Options) *Reconciler {
	return &Reconciler{
		Options: options, trigger: controllers.NewTrigger(), objects: dependents.New(maxObjects), known: map[reconcile.Request]struct{}{},
		report: &report{
			Client: options.Client, Owner: Owner, Tell: options.Tell, Own: own,
			Status: func(t *v1beta1.VirtualMachineTemplate) *v1beta1.VirtualMachineTemplateStatus { return &t.Status },
		},
	}
}

// Changed requests the readiness of all templates, because the configuration changed.
func (r *Reconciler) Changed() { r.trigger.Fire() }

// The times after which a template is reconciled again: while the configuration is unknown, if its objects are not
// watched, and without a change.
const behind, unwatched, idle = time.Second, time.Minute, time.Hour

// Reconcile updates the status of one template: observe, decide, report.
func (r *Reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	if ready := r.Ready() == nil; !ready {
		return reconcile.Result{RequeueAfter: behind}, nil
	}
	template := &v1beta1.VirtualMachineTemplate{}
	err := r.Client.Get(ctx, key.NamespacedName, template)
	if apierrors.IsNotFound(err) {
		r.forget(key)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading VirtualMachineTemplate %s: %w", key, err)
	}
	watched, err := r.update(ctx, key, template)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("VirtualMachineTemplate %s: %w", key, err)
	}
	if !watched {
		return reconcile.Result{RequeueAfter: unwatched}, nil
	}
	return reconcile.Result{RequeueAfter: idle}, nil
}

func (r *Reconciler) update(ctx context.Context, key reconcile.Request, template *v1beta1.VirtualMachineTemplate) (watched bool, err error) {
	r.mu.Lock()
	r.known[key] = struct{}{}
	r.mu.Unlock()
	f, depends, failed := r.observe(ctx, template)
	if failed != nil {
		f, watched = &found{failure: statuses.Failure("the template could not be evaluated", failed)}, true
	} else {
		watched = r.objects.Set(key, depends)
	}
	if template.DeletionTimestamp == nil && ctx.Err() == nil {
		_, err = r.report.Write(ctx, template, f.part(template, r.Clock.Now()), transition)
	}
	return watched, errors.Join(failed, err)
}

// observe evaluates the template, and reads the objects that it refers to.
func (r *Reconciler) observe(ctx context.Context, template *v1beta1.VirtualMachineTemplate) (*found, []dependents.Object, error) {
	snapshot, err := r.Evaluator.Snapshot(r.Clock.Now())
	if err != nil {
		return nil, nil, err
	}
	template.APIVersion, template.Kind = apikinds.Templates.GroupVersion().String(), apikinds.Templates.Kind
	stored := template.DeepCopy()
	stored.ManagedFields = nil
	raw, err := json.Marshal(stored)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the template: %w", err)
	}
	ctx, end := r.ReserveReads.Begin(ctx, template.Namespace)
	defer end()
	result, err := snapshot.EvaluateMade(ctx, evaluator.Request{
		Object: raw, Kind: metav1.GroupVersionKind(apikinds.Templates.GroupVersionKind), Resource: metav1.GroupVersionResource(apikinds.Templates.GroupVersionResource()),
		Namespace: template.Namespace, Name: template.Name,
		Observer: evaluator.Observer{Gone: func() bool { return ctx.Err() != nil }},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("evaluating it: %w", err)
	}
	f := &found{findings: result.Findings, references: result.References}
	depends := referencesOf(template.Namespace, result.References)
	previewed, _ := templates.Preview(&template.Spec, nil, rand.New(rand.NewPCG(1, 2))) //nolint:gosec // the values are discarded
	if previewed == nil {
		return f, depends, nil
	}
	f.rendered = true
	volumes, more, err := r.volumes(ctx, template.Namespace, sourcesOf(previewed.VirtualMachine, template.Namespace, previewed.Unknown))
	f.volumes = volumes
	return f, append(depends, more...), err
}

// referencesOf are the instancetype and the preference, found or not.
func referencesOf(namespace string, references []effective.Reference) (depends []dependents.Object) {
	for _, reference := range references {
		for _, kind := range []apikinds.Resource{apikinds.Instancetypes, apikinds.ClusterInstancetypes, apikinds.Preferences, apikinds.ClusterPreferences} {
			if kind.Kind == reference.Kind {
				name := client.ObjectKey{Name: reference.Name}
				if kind == apikinds.Instancetypes || kind == apikinds.Preferences {
					name.Namespace = namespace
				}
				depends = append(depends, objectOf(kind, name))
			}
		}
	}
	return depends
}

func (r *Reconciler) forget(key reconcile.Request) {
	r.objects.Set(key, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, key)
}
