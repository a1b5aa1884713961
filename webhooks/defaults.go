package webhooks

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/validators"
)

// siteDefaults is the resource that holds the admin's defaults.
var siteDefaults = policyv1alpha1.GroupVersion.WithResource("virtualmachinedefaults")

// DefaultsWatcher keeps the site's defaults up to date by watching the VirtualMachineDefaults. One that cannot be
// used has no effect, and affects no other; without the kind, there are none.
type DefaultsWatcher struct {
	*watched[policyv1alpha1.VirtualMachineDefaults, mutators.Site]
}

// NewDefaultsWatcher prepares a watcher. onChange, if not nil, is called with each change of what is in force, the
// first included, and with each error.
func NewDefaultsWatcher(client dynamic.Interface, onChange func(Change)) (*DefaultsWatcher, error) {
	w, err := newWatched(client, compiler[policyv1alpha1.VirtualMachineDefaults, mutators.Site]{
		kind:     "VirtualMachineDefaults",
		resource: siteDefaults,
		strip: func(o policyv1alpha1.VirtualMachineDefaults) policyv1alpha1.VirtualMachineDefaults {
			return policyv1alpha1.VirtualMachineDefaults{ObjectMeta: metav1.ObjectMeta{Name: o.Name}, Spec: o.Spec}
		},
		compile: func(objects []policyv1alpha1.VirtualMachineDefaults) (*mutators.Site, []string) {
			return mutators.NewSite(objects...)
		},
	}, onChange)
	return &DefaultsWatcher{w}, err
}

// Site are the defaults in force; nil, which holds none, until the cluster has been asked for the first time.
func (w *DefaultsWatcher) Site() *mutators.Site { return w.compiled() }

// labelsOf finds the labels of a namespace.
type labelsOf func(ctx context.Context, namespace string) (k8slabels.Set, error)

// siteIn are the defaults that hold in a namespace, whose labels are only asked for if they matter.
func siteIn(ctx context.Context, site func() *mutators.Site, find labelsOf, namespace string) ([]mutators.SiteDefaults, error) {
	if site == nil {
		return nil, nil
	}
	all := site()
	if !all.SelectsNamespaces() || namespace == "" {
		return all.For(nil), nil
	}
	found, err := find(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("reading the labels of namespace %s: %w", namespace, err)
	}
	if found == nil { // a namespace without labels is no less one
		found = k8slabels.Set{}
	}
	return all.For(found), nil
}

// siteDefaults refuses defaults that could have no effect, or would make the checks refuse virtual machines.
func (e *examination) siteDefaults() error {
	object := &policyv1alpha1.VirtualMachineDefaults{}
	if err := decode(e.request.Object.Raw, object); err != nil {
		e.unreadable(err, nil)
		return nil
	}
	errs, err := e.Pipeline.CheckDefaults(object, e.facts, e.severities)
	for _, wrong := range errs {
		e.findings = append(e.findings, validators.Finding{
			Rule: validators.RuleSiteDefaults, Severity: validators.Deny, Error: wrong, Remedy: validators.RemedySiteDefaults,
		})
	}
	return err
}
