package main

import (
	"context"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/mutators"
)

// site are the defaults of the site.
type site struct {
	*mutators.Site

	namespaces *namespaces
}

// readSite compiles the defaults of the files and of the cluster. What has no effect is told in the notes.
func readSite(ctx context.Context, files *sorted, cluster *cluster, namespaces *namespaces) (s *site, notes []string, err error) {
	all, notes, err := readOurs[policyv1alpha1.VirtualMachineDefaults](ctx, kindDefaults, files.ours, cluster)
	if err != nil {
		return nil, nil, err
	}
	compiled, without := mutators.NewSite(objectsOf(all)...)
	return &site{compiled, namespaces}, append(notes, without...), nil
}

// in are the defaults that hold in a namespace; the warnings say what could not be considered.
func (s *site) in(ctx context.Context, namespace string) (defaults []mutators.SiteDefaults, warnings []string) {
	if !s.SelectsNamespaces() {
		return s.For(nil), nil
	}
	known, err := s.namespaces.labelsOf(ctx, namespace)
	if err != nil {
		warnings = []string{unselected(kindDefaults, namespace, err)}
	}
	return s.For(known), warnings
}
