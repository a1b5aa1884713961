package evaluator

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/virtward/virtward/mutators"
	"github.com/virtward/virtward/validators"
)

// MaxContexts bounds the namespaces that a snapshot caches, because the annotations of each may have 256 kB. Objects are
// listed by namespace, so a few are enough.
const MaxContexts = 32

// namespaceContext is the metadata of a namespace, and the configuration for its objects.
type namespaceContext struct {
	// namespace is nil if no policy reads it, or if it is unknown.
	namespace  *corev1.Namespace
	severities validators.Severities
	site       []mutators.SiteDefaults
	// labels are nil unless the pod of a virtual machine depends on them.
	labels   map[string]string
	warnings []string
}

// namespaceContext returns the context of a namespace; "" is for cluster-wide objects.
func (s *Snapshot) namespaceContext(ctx context.Context, namespace string) (*namespaceContext, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.namespaces[namespace]; ok {
		return found, nil
	}
	found, err := s.readContext(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if s.namespaces == nil || len(s.namespaces) == MaxContexts {
		s.namespaces = map[string]*namespaceContext{}
	}
	s.namespaces[namespace] = found
	return found, nil
}

func (s *Snapshot) readContext(ctx context.Context, namespace string) (*namespaceContext, error) {
	found := &namespaceContext{}
	var labels k8slabels.Set
	if namespace != "" && (s.active.Settings.SelectsNamespaces() || s.active.Site.SelectsNamespaces()) {
		known, err := s.evaluator.Configuration.NamespaceLabels(ctx, namespace)
		if err := found.tolerate(err, "reading the labels of namespace %s: %w", namespace); err != nil {
			return nil, err
		}
		if labels = known; labels == nil { // a selector can match a namespace without labels
			labels = k8slabels.Set{}
		}
	}
	if namespace != "" && s.selectsPods() {
		known, err := s.evaluator.Configuration.NamespaceLabels(ctx, namespace)
		if err := found.tolerate(err, "reading the labels of namespace %s: %w", namespace); err != nil {
			return nil, err
		}
		found.labels = map[string]string{}
		maps.Copy(found.labels, known)
	}
	found.severities, found.site = s.active.Settings.For(labels), s.active.Site.For(labels)
	if namespace != "" && s.active.Policies.ReadsNamespaces() {
		known, err := s.evaluator.Configuration.Namespace(ctx, namespace)
		if err := found.tolerate(err, "reading namespace %s: %w", namespace); err != nil {
			return nil, err
		}
		found.namespace = known
	}
	return found, nil
}

// selectsPods reports whether policies or rules read the pods of virtual machines, and KubeVirt selects namespaces whose pods get limits.
func (s *Snapshot) selectsPods() bool {
	return (s.active.Policies.ReadsPod() || s.active.Nodes != nil || s.evaluator.Quotas) && s.facts.Configuration.AutoCPULimitNamespaceLabelSelector != nil
}

// tolerate turns an UnknownNamespaceError into a warning.
func (c *namespaceContext) tolerate(err error, format, namespace string) error {
	var unknown *UnknownNamespaceError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		c.warnings = append(c.warnings, unknown.Error())
		return nil
	}
	return fmt.Errorf(format, namespace, err)
}

// severitiesAt returns the severities at a stage.
func (c *namespaceContext) severitiesAt(stage Stage) validators.Severities {
	if stage != Stored {
		return c.severities
	}
	stored := validators.Severities{}
	maps.Copy(stored, c.severities)
	stored[validators.RuleComplete] = validators.Off
	return stored
}
