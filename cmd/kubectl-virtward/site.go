package main

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cmd/kubectl-virtward/documents"
	"github.com/virtward/virtward/mutators"
)

// kindDefaults is the kind that holds the defaults of a site.
const kindDefaults = "VirtualMachineDefaults"

func isDefaults(kind schema.GroupVersionKind) bool {
	return kind.Group == policyv1alpha1.GroupVersion.Group && kind.Kind == kindDefaults
}

// site are the defaults of the site, and what is known of the namespaces that they select.
type site struct {
	*mutators.Site

	settings *settings
}

// readSite takes the defaults of the files first, as if they had been applied already, and then those of the cluster
// if there is one. What has no effect is told in the notes.
func readSite(ctx context.Context, files *sorted, cluster *cluster, settings *settings) (s *site, notes []string, err error) {
	var objects []policyv1alpha1.VirtualMachineDefaults
	for _, d := range files.defaults {
		object, unknown, err := decodeDefaults(d)
		if err != nil {
			return nil, nil, err
		}
		objects, notes = append(objects, *object), append(notes, unknown...)
	}
	if cluster != nil {
		listed, err := cluster.siteDefaults(ctx)
		if err != nil {
			notes = append(notes, err.Error())
		}
		for i := range listed {
			if !slices.ContainsFunc(objects, func(o policyv1alpha1.VirtualMachineDefaults) bool { return o.Name == listed[i].Name }) {
				objects = append(objects, listed[i])
			}
		}
	}
	compiled, without := mutators.NewSite(objects...)
	return &site{Site: compiled, settings: settings}, append(notes, without...), nil
}

// decodeDefaults reads a VirtualMachineDefaults of a file; the notes name unknown fields outside of its template.
func decodeDefaults(d documents.Document) (*policyv1alpha1.VirtualMachineDefaults, []string, error) {
	if version := d.Object.GroupVersionKind().Version; version != policyv1alpha1.GroupVersion.Version {
		return nil, nil, fmt.Errorf("%s: apiVersion: %s is not a version that Virtward serves %s in: use %s", d.Location(), d.Object.GetAPIVersion(), kindDefaults, policyv1alpha1.GroupVersion)
	}
	object := &policyv1alpha1.VirtualMachineDefaults{}
	notes, err := documents.Decode(d.Object.Object, object)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s %s: %w", d.Location(), kindDefaults, d.Object.GetName(), err)
	}
	for i := range notes {
		notes[i] = fmt.Sprintf("%s: %s %s: %s", d.Location(), kindDefaults, d.Object.GetName(), notes[i])
	}
	return object, notes, nil
}

// siteDefaults are those of the cluster; none where Virtward is not installed.
func (c *cluster) siteDefaults(ctx context.Context) ([]policyv1alpha1.VirtualMachineDefaults, error) {
	resource := policyv1alpha1.GroupVersion.WithResource("virtualmachinedefaults")
	list, err := c.client.Resource(resource).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("VirtualMachineDefaults are not considered: %w", err)
	}
	found := make([]policyv1alpha1.VirtualMachineDefaults, 0, len(list.Items))
	for i := range list.Items {
		object := policyv1alpha1.VirtualMachineDefaults{}
		if _, err := documents.Decode(list.Items[i].Object, &object); err != nil {
			return found, fmt.Errorf("VirtualMachineDefaults %s is not considered: %w", list.Items[i].GetName(), err)
		}
		found = append(found, object)
	}
	return found, nil
}

// in are the defaults that hold in a namespace; the warnings say what could not be considered.
func (s *site) in(ctx context.Context, namespace string) (defaults []mutators.SiteDefaults, warnings []string) {
	if !s.SelectsNamespaces() {
		return s.For(nil), nil
	}
	labels, err := s.settings.labelsOf(ctx, namespace)
	if err != nil {
		warnings = []string{fmt.Sprintf("VirtualMachineDefaults that select the namespace %s by its labels are not considered: %v", namespace, err)}
	}
	return s.For(labels), warnings
}
