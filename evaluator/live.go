package evaluator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/placement"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/policies"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/validators"
)

// Live is a source of a running cluster. Its functions return the current state. Each of them may be nil.
type Live struct {
	GetFacts             func() *platform.Facts
	GetSettings          func() *validators.Settings
	GetSite              func() *mutators.Site
	GetPolicies          func() *policies.Set
	GetExceptions        func() *policies.Exceptions
	GetNodeArchitectures func() []string
	GetNodes             func() *placement.Snapshot
	GetNamespaceLabels   func(ctx context.Context, name string) (k8slabels.Set, error)
	GetNamespace         func(ctx context.Context, name string) (*corev1.Namespace, error)
}

var (
	_ Facts         = (*Live)(nil)
	_ Configuration = (*Live)(nil)
)

// Facts implements Facts.
func (l *Live) Facts() *platform.Facts {
	if l.GetFacts == nil {
		return nil
	}
	return l.GetFacts()
}

// Active implements Configuration.
func (l *Live) Active() Active {
	active := Active{}
	if l.GetSettings != nil {
		active.Settings = l.GetSettings()
	}
	if l.GetSite != nil {
		active.Site = l.GetSite()
	}
	if l.GetPolicies != nil {
		active.Policies = l.GetPolicies()
	}
	if l.GetExceptions != nil {
		active.Policies = active.Policies.Exempting(l.GetExceptions())
	}
	if l.GetNodeArchitectures != nil {
		active.NodeArchitectures = l.GetNodeArchitectures()
	}
	if l.GetNodes != nil {
		active.Nodes = l.GetNodes()
	}
	return active
}

// NamespaceLabels implements Configuration.
func (l *Live) NamespaceLabels(ctx context.Context, name string) (k8slabels.Set, error) {
	if l.GetNamespaceLabels == nil {
		return nil, nil
	}
	return l.GetNamespaceLabels(ctx, name)
}

// Namespace implements Configuration.
func (l *Live) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	if l.GetNamespace == nil {
		return nil, nil
	}
	return l.GetNamespace(ctx, name)
}

// New returns an Evaluator of a running cluster.
func New(pipeline *effective.Pipeline, objects references.Objects, live *Live) *Evaluator {
	return &Evaluator{Pipeline: pipeline, Facts: live, Configuration: live, References: objects}
}
