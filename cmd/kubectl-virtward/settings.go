package main

import (
	"context"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/validators"
)

// settings are the severities that RuleSettings give to rules.
type settings struct {
	*validators.Settings

	namespaces *namespaces
}

// readSettings compiles those of the files and of the cluster. What has no effect is told in the notes.
func readSettings(ctx context.Context, files *sorted, cluster *cluster, namespaces *namespaces, known validators.Table) (s *settings, notes []string, err error) {
	all, notes, err := readOurs[policyv1alpha1.RuleSettings](ctx, kindRuleSettings, files.ours, cluster)
	if err != nil {
		return nil, nil, err
	}
	compiled, without := validators.NewSettings(known, objectsOf(all)...)
	return &settings{compiled, namespaces}, append(notes, without...), nil
}

// severities are those in a namespace; the warnings say what could not be considered.
func (s *settings) severities(ctx context.Context, namespace string) (severities validators.Severities, warnings []string) {
	if !s.SelectsNamespaces() {
		return s.For(nil), nil
	}
	known, err := s.namespaces.labelsOf(ctx, namespace)
	if err != nil {
		warnings = []string{unselected(kindRuleSettings, namespace, err)}
	}
	return s.For(known), warnings
}
