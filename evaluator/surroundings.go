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

// maxSurroundings bounds the namespaces that a snapshot remembers: the annotations of each may take 256 kB. Objects are
// listed by namespace, so a few suffice.
const maxSurroundings = 32

// surroundings are what the namespace of an object adds.
type surroundings struct {
	// namespace is nil if no policy reads it, or if it is not known.
	namespace  *corev1.Namespace
	severities validators.Severities
	site       []mutators.SiteDefaults
	warnings   []string
}

// around are the surroundings in a namespace; empty for cluster-wide objects.
func (s *Snapshot) around(ctx context.Context, namespace string) (*surroundings, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found, ok := s.namespaces[namespace]; ok {
		return found, nil
	}
	found, err := s.surround(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if s.namespaces == nil || len(s.namespaces) == maxSurroundings {
		s.namespaces = map[string]*surroundings{}
	}
	s.namespaces[namespace] = found
	return found, nil
}

func (s *Snapshot) surround(ctx context.Context, namespace string) (*surroundings, error) {
	found := &surroundings{}
	var labels k8slabels.Set
	if namespace != "" && (s.active.Settings.SelectsNamespaces() || s.active.Site.SelectsNamespaces()) {
		known, err := s.evaluator.Configuration.NamespaceLabels(ctx, namespace)
		if err := found.tolerate(err, "reading the labels of namespace %s: %w", namespace); err != nil {
			return nil, err
		}
		if labels = known; labels == nil { // a namespace without labels can be selected, too
			labels = k8slabels.Set{}
		}
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

// tolerate turns an error about a namespace that is to be evaluated without into a warning.
func (s *surroundings) tolerate(err error, format, namespace string) error {
	var unknown *UnknownNamespaceError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		s.warnings = append(s.warnings, unknown.Error())
		return nil
	}
	return fmt.Errorf(format, namespace, err)
}

// severitiesAt are the severities at a stage.
func (s *surroundings) severitiesAt(stage Stage) validators.Severities {
	if stage != Stored {
		return s.severities
	}
	stored := validators.Severities{}
	maps.Copy(stored, s.severities)
	stored[validators.RuleComplete] = validators.Off
	return stored
}
