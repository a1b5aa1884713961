package webhooks

import (
	"context"
	"fmt"

	k8slabels "k8s.io/apimachinery/pkg/labels"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/validators"
)

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
		unreadable[policyv1alpha1.VirtualMachineDefaults](e, err)
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
