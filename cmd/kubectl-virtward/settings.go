package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cmd/kubectl-virtward/documents"
	"github.com/virtward/virtward/validators"
)

// The kinds that decide about severities.
const (
	kindRuleSettings = "RuleSettings"
	kindNamespace    = "Namespace"
)

// settings are the severities that RuleSettings give to rules, and what is known of the namespaces that these
// select.
type settings struct {
	*validators.Settings
	namespaces map[string]labels.Set
	cluster    *cluster
}

func isRuleSettings(kind schema.GroupVersionKind) bool {
	return kind.Group == policyv1alpha1.GroupVersion.Group && kind.Kind == kindRuleSettings
}

// readSettings takes those of the files first, as if they had been applied already, and then those of the cluster
// if there is one. What has no effect is told in the notes.
func readSettings(ctx context.Context, files *sorted, cluster *cluster, known validators.Table) (s *settings, notes []string, err error) {
	s = &settings{namespaces: map[string]labels.Set{}, cluster: cluster}
	for _, namespace := range files.namespaces {
		s.namespaces[namespace.GetName()] = namespace.GetLabels()
	}
	var objects []policyv1alpha1.RuleSettings
	for _, d := range files.settings {
		object, unknown, err := decodeSettings(d)
		if err != nil {
			return nil, nil, err
		}
		objects, notes = append(objects, *object), append(notes, unknown...)
	}
	if cluster != nil {
		listed, err := cluster.ruleSettings(ctx)
		if err != nil {
			notes = append(notes, err.Error())
		}
		for i := range listed {
			if !slices.ContainsFunc(objects, func(o policyv1alpha1.RuleSettings) bool { return o.Name == listed[i].Name }) {
				objects = append(objects, listed[i])
			}
		}
	}
	compiled, without := validators.NewSettings(known, objects...)
	s.Settings = compiled
	return s, append(notes, without...), nil
}

// decodeSettings reads a RuleSettings of a file; the notes name unknown fields.
func decodeSettings(d documents.Document) (*policyv1alpha1.RuleSettings, []string, error) {
	if version := d.Object.GroupVersionKind().Version; version != policyv1alpha1.GroupVersion.Version {
		return nil, nil, fmt.Errorf("%s: apiVersion: %s is not a version that Virtward serves %s in: use %s", d.Location(), d.Object.GetAPIVersion(), kindRuleSettings, policyv1alpha1.GroupVersion)
	}
	object := &policyv1alpha1.RuleSettings{}
	notes, err := documents.Decode(d.Object.Object, object)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s %s: %w", d.Location(), kindRuleSettings, d.Object.GetName(), err)
	}
	for i := range notes {
		notes[i] = fmt.Sprintf("%s: %s %s: %s", d.Location(), kindRuleSettings, d.Object.GetName(), notes[i])
	}
	return object, notes, nil
}

// ruleSettings are those of the cluster; none where Virtward is not installed.
func (c *cluster) ruleSettings(ctx context.Context) ([]policyv1alpha1.RuleSettings, error) {
	resource := policyv1alpha1.GroupVersion.WithResource("rulesettings")
	list, err := c.client.Resource(resource).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("RuleSettings are not considered: %w", err)
	}
	found := make([]policyv1alpha1.RuleSettings, 0, len(list.Items))
	for i := range list.Items {
		object := policyv1alpha1.RuleSettings{}
		if _, err := documents.Decode(list.Items[i].Object, &object); err != nil {
			return found, fmt.Errorf("RuleSettings %s is not considered: %w", list.Items[i].GetName(), err)
		}
		found = append(found, object)
	}
	return found, nil
}

// severities are those in a namespace; the warnings say what could not be considered.
func (s *settings) severities(ctx context.Context, namespace string) (severities validators.Severities, warnings []string) {
	if !s.SelectsNamespaces() {
		return s.For(nil), nil
	}
	known, err := s.labelsOf(ctx, namespace)
	if err != nil {
		warnings = []string{fmt.Sprintf("RuleSettings that select the namespace %s by its labels are not considered: %v", namespace, err)}
	}
	return s.For(known), warnings
}

// labelsOf are the labels of a namespace. With an error, and of one that does not exist, they are no more than the
// one that the API server gives to every namespace.
func (s *settings) labelsOf(ctx context.Context, namespace string) (labels.Set, error) {
	known, read := s.namespaces[namespace]
	var failed error
	if !read && s.cluster != nil {
		object, err := s.cluster.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, namespace, metav1.GetOptions{})
		switch {
		case err == nil:
			known = object.GetLabels()
			s.namespaces[namespace] = known
		case !apierrors.IsNotFound(err):
			failed = err
		}
	}
	return labels.Merge(known, labels.Set{corev1.LabelMetadataName: namespace}), failed
}
