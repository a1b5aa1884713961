package planes

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/crds"
)

// WithKinds are options of a control plane that has the definitions of KubeVirt, CDI, Virtward and VM templates, and others, from
// the start on: later ones would make its controller manager start again.
func WithKinds(others ...*apiextensionsv1.CustomResourceDefinition) func() (controlplane.Options, error) {
	return func() (controlplane.Options, error) {
		all, err := crds.All()
		if err != nil {
			return controlplane.Options{}, err
		}
		own, err := controlplane.VirtwardDefinitions()
		return controlplane.Options{CRDs: slices.Concat(all, own, others)}, err
	}
}
