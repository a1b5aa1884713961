package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/documents"
)

// The kinds of ours in which the admin of a cluster decides about virtual machines.
const (
	kindRuleSettings = "RuleSettings"
	kindDefaults     = "VirtualMachineDefaults"
	kindPolicy       = "VirtualMachinePolicy"
)

// ourResources are the kinds of ours, and the names that the API has for them.
var ourResources = map[string]schema.GroupVersionResource{
	kindRuleSettings: policyv1alpha1.GroupVersion.WithResource("rulesettings"),
	kindDefaults:     policyv1alpha1.GroupVersion.WithResource("virtualmachinedefaults"),
	kindPolicy:       policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies"),
}

// isOurs tells whether an object is of one of the kinds above, in whatever version.
func isOurs(kind schema.GroupVersionKind) bool {
	_, ours := ourResources[kind.Kind]
	return ours && kind.Group == policyv1alpha1.GroupVersion.Group
}

// ours is an object of one of our kinds, and what it was read from.
type ours[T any] struct {
	object   T
	document documents.Document
}

// objectsOf are those of a list of ours.
func objectsOf[T any](all []ours[T]) []T {
	objects := make([]T, len(all))
	for i := range all {
		objects[i] = all[i].object
	}
	return objects
}

// readOurs reads the objects of one of our kinds: those of the files first, as if they had been applied already, and
// then those of the cluster if there is one. What of them is not considered is told in the notes.
func readOurs[T any](ctx context.Context, kind string, files []documents.Document, cluster *cluster) (all []ours[T], notes []string, err error) {
	names := map[string]bool{}
	for _, d := range files {
		if d.Object.GetKind() != kind {
			continue
		}
		read := ours[T]{document: d}
		unknown, err := decodeOurs(d, &read.object)
		if err != nil {
			return nil, nil, err
		}
		all, notes, names[d.Object.GetName()] = append(all, read), append(notes, unknown...), true
	}
	if cluster == nil {
		return all, notes, nil
	}
	listed, err := cluster.listOurs(ctx, kind)
	if err != nil {
		return all, append(notes, fmt.Sprintf("%s are not considered: %v", kind, err)), nil
	}
	for _, d := range listed {
		if names[d.Object.GetName()] {
			continue
		}
		read := ours[T]{document: d}
		if _, err := documents.Decode(d.Object.Object, &read.object); err != nil {
			notes = append(notes, fmt.Sprintf("%s %s is not considered: %v", kind, d.Object.GetName(), err))
			continue
		}
		all = append(all, read)
	}
	return all, notes, nil
}

// decodeOurs reads an object of a file; the notes name unknown fields.
func decodeOurs(d documents.Document, into any) (notes []string, err error) {
	kind := d.Object.GroupVersionKind()
	if kind.Version != policyv1alpha1.GroupVersion.Version {
		return nil, fmt.Errorf("%s: apiVersion: %s is not a version that Virtward serves %s in: use %s", d.Location(), d.Object.GetAPIVersion(), kind.Kind, policyv1alpha1.GroupVersion)
	}
	named := fmt.Sprintf("%s: %s %s", d.Location(), kind.Kind, d.Object.GetName())
	if notes, err = documents.Decode(d.Object.Object, into); err != nil {
		return nil, fmt.Errorf("%s: %w", named, err)
	}
	for i := range notes {
		notes[i] = named + ": " + notes[i]
	}
	return notes, nil
}

// listOurs are the objects of one of our kinds; none where Virtward is not installed.
func (c *cluster) listOurs(ctx context.Context, kind string) ([]documents.Document, error) {
	list, err := c.client.Resource(ourResources[kind]).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	found := make([]documents.Document, len(list.Items))
	for i := range list.Items {
		found[i] = documents.Document{Source: sourceCluster, Object: &list.Items[i]}
	}
	return found, nil
}
