package policytest

import (
	"cmp"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/platform"
)

// readNamespace sets the namespace of the object, and its labels.
func (s *Suite) readNamespace(situation *Situation, inCase string, c *Case) error {
	object := situation.Object
	name := object.GetNamespace()
	if c.Namespace != nil && c.Namespace.Name != "" {
		if name != "" && name != c.Namespace.Name {
			return s.problem(inCase+".namespace.name", fmt.Sprintf("must be the namespace of the object, %s", name))
		}
		name = c.Namespace.Name
	}
	name = cmp.Or(name, defaultNamespace)
	object.SetNamespace(name)
	if situation.Old != nil {
		if was := cmp.Or(situation.Old.GetNamespace(), name); was != name {
			return s.problem(inCase, fmt.Sprintf("object and old object must be in one namespace, and are in %[2]s and %[1]s", was, name))
		}
		situation.Old.SetNamespace(name)
	}
	situation.Namespace = namespaceNamed(name, situation.Objects)
	if c.Namespace != nil && c.Namespace.Labels != nil {
		situation.Namespace.Labels = maps.Clone(c.Namespace.Labels)
	}
	if c.Namespace != nil && c.Namespace.Annotations != nil {
		situation.Namespace.Annotations = maps.Clone(c.Namespace.Annotations)
	}
	if situation.Namespace.Labels == nil {
		situation.Namespace.Labels = map[string]string{}
	}
	situation.Namespace.Labels[corev1.LabelMetadataName] = name // as the API server does
	return nil
}

// namespaceNamed returns the Namespace of a name among the objects, or one without labels and annotations.
func namespaceNamed(name string, objects []*unstructured.Unstructured) *corev1.Namespace {
	n := &corev1.Namespace{}
	n.Name = name
	for _, object := range objects {
		if kind := object.GroupVersionKind(); kind.Group == "" && kind.Kind == apikinds.Namespace && object.GetName() == name {
			n.Labels, n.Annotations = maps.Clone(object.GetLabels()), maps.Clone(object.GetAnnotations())
		}
	}
	return n
}

// readFacts reads the facts of a KubeVirt object, and replaces those that the test and the case set.
func (s *Suite) readFacts(situation *Situation, inCase string, t *Test, c *Case) error {
	wanted := over(t.Facts, c.Facts)
	kubevirt, err := situation.kubevirt()
	if err != nil {
		return err
	}
	if len(wanted.FeatureGates) > 0 {
		if kubevirt, err = withGates(kubevirt, wanted.FeatureGates); err != nil {
			return s.problem(inCase, err.Error())
		}
	}
	facts := platform.Defaults(platform.Settings{})
	if kubevirt != nil {
		if facts, err = platform.FromKubeVirt(kubevirt, platform.Settings{}); err != nil {
			return s.problem(inCase, err.Error())
		}
	}
	if wanted.Hypervisor != "" && wanted.Hypervisor != facts.Hypervisor.ConfiguredName {
		h, err := platform.HypervisorByName(wanted.Hypervisor)
		if err != nil {
			return s.problem(inCase+".facts.hypervisor", err.Error())
		}
		facts = facts.WithHypervisor(h)
	}
	if wanted.Architecture != "" {
		facts = facts.WithDefaultArchitecture(wanted.Architecture)
	}
	situation.Facts = facts
	return nil
}

// over replaces the facts that are set.
func over(under, top *Facts) Facts {
	var f Facts
	for _, given := range []*Facts{under, top} {
		if given == nil {
			continue
		}
		f.Hypervisor, f.Architecture = cmp.Or(given.Hypervisor, f.Hypervisor), cmp.Or(given.Architecture, f.Architecture)
		if given.FeatureGates != nil {
			f.FeatureGates = given.FeatureGates
		}
	}
	return f
}

// kubevirt returns the KubeVirt object among the objects, or nil.
func (s *Situation) kubevirt() (*unstructured.Unstructured, error) {
	var found *unstructured.Unstructured
	for _, d := range s.around {
		if d.Object.GetKind() != apikinds.KubeVirt {
			continue
		}
		if found != nil {
			return nil, at(d, "kind", "there must be one KubeVirt object, and this is the second")
		}
		found = d.Object
	}
	return found, nil
}

var gatesPath = []string{"spec", "configuration", "developerConfiguration", "featureGates"}

// withGates enables more feature gates.
func withGates(kubevirt *unstructured.Unstructured, gates []string) (*unstructured.Unstructured, error) {
	if kubevirt == nil {
		kubevirt = &unstructured.Unstructured{}
		kubevirt.SetNamespace("kubevirt")
		kubevirt.SetName("kubevirt")
	}
	kubevirt = kubevirt.DeepCopy()
	open, _, err := unstructured.NestedStringSlice(kubevirt.Object, gatesPath...)
	if err != nil {
		return nil, err
	}
	if kubevirt.Object == nil {
		kubevirt.Object = map[string]any{}
	}
	if err := unstructured.SetNestedStringSlice(kubevirt.Object, append(open, gates...), gatesPath...); err != nil {
		return nil, err
	}
	return kubevirt, nil
}
