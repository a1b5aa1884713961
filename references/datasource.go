package references

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/architectures"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
)

// ArchitectureLabel says on a DataSource for which architecture its image is.
const ArchitectureLabel = "template.kubevirt.io/architecture"

// maxDataSources bounds the DataSources that are looked up for one VM, which has room for 50,000.
const maxDataSources = 20

// DataSourceArchitecture finds the architecture of a VM that names none, by the first of its
// dataVolumeTemplates whose DataSource says one; nil if none does. A DataSource that points at another one
// is replaced by that one. A missing object is a warning, unless it is in another namespace: KubeVirt continues
// without it. The error means that the cluster could not be read.
func DataSourceArchitecture(ctx context.Context, objects Objects, vm *v1.VirtualMachine) (*effective.DataSourceArchitecture, []string, error) {
	if vm.Spec.Template == nil || vm.Spec.Template.Spec.Architecture != "" {
		return nil, nil, nil
	}
	return imageArchitecture(ctx, objects, vm)
}

// ImageArchitecture finds the architecture of the image that a VM clones, by the rule of DataSourceArchitecture, also if the
// VM names an architecture. KubeVirt does not compare the two.
func ImageArchitecture(ctx context.Context, objects Objects, vm *v1.VirtualMachine) (*effective.DataSourceArchitecture, error) {
	found, _, err := imageArchitecture(ctx, objects, vm)
	return found, err
}

func imageArchitecture(ctx context.Context, objects Objects, vm *v1.VirtualMachine) (*effective.DataSourceArchitecture, []string, error) {
	var warnings []string
	asked := 0
	for i := range vm.Spec.DataVolumeTemplates {
		ref := vm.Spec.DataVolumeTemplates[i].Spec.SourceRef
		// KubeVirt does not tell upper case from lower here, though it does where it infers an instancetype.
		if ref == nil || !strings.EqualFold(ref.Kind, dataSource.Kind) {
			continue
		}
		path := fmt.Sprintf("spec.dataVolumeTemplates[%d].spec.sourceRef", i)
		if asked++; asked > maxDataSources {
			return nil, append(warnings, fmt.Sprintf("%s: none of the %d DataSources before it says an architecture; it and those after it are not looked at", path, maxDataSources)), nil
		}
		namespace := vm.Namespace
		if ref.Namespace != nil && *ref.Namespace != "" {
			namespace = *ref.Namespace
		}
		source, err := pointedAt(ctx, objects, namespace, ref.Name)
		if err != nil {
			return nil, warnings, discreetError{text: path + ": reading DataSources failed", cause: err}
		}
		whose := described(dataSource, namespace, ref.Name)
		if source.namespace != namespace || source.name != ref.Name {
			whose = "the DataSource behind " + whose // whose name is a value that the requester may not be allowed to read
		}
		architecture, why := source.architecture(whose)
		switch {
		case architecture != "":
			// The one that the VM names. The one behind it must not be disclosed.
			return &effective.DataSourceArchitecture{Template: i, DataSource: namespace + "/" + ref.Name, Architecture: architecture}, warnings, nil
		case why != "" && namespace == vm.Namespace && source.namespace == vm.Namespace:
			warnings = append(warnings, path+": "+why)
		}
	}
	return nil, warnings, nil
}

// golden is the DataSource of a golden image, or the place where there is none.
type golden struct {
	namespace, name string
	object          *unstructured.Unstructured
}

// pointedAt is a DataSource, or the one that it points at; one hop, as CDI allows.
func pointedAt(ctx context.Context, objects Objects, namespace, name string) (golden, error) {
	first, err := goldenImage(ctx, objects, namespace, name)
	if err != nil || first.object == nil {
		return first, err
	}
	spec := &cdiv1beta1.DataSourceSpec{}
	if err := decodeSpec(first.object, spec); err != nil || spec.Source.DataSource == nil {
		return first, nil //nolint:nilerr // one that CDI would not have accepted is no pointer
	}
	return goldenImage(ctx, objects, spec.Source.DataSource.Namespace, spec.Source.DataSource.Name)
}

func goldenImage(ctx context.Context, objects Objects, namespace, name string) (golden, error) {
	obj, err := objects.Get(ctx, dataSource, namespace, name)
	if absent(err) || errors.Is(err, platform.ErrTooLarge) {
		return golden{namespace: namespace, name: name}, nil
	}
	return golden{namespace: namespace, name: name, object: obj}, err
}

// architecture is what the label says, or why that cannot be taken; neither where there is no label.
func (g golden) architecture(whose string) (architecture, why string) {
	if g.object == nil {
		return "", whose + " does not exist, so there is no architecture to take from it"
	}
	label, labelled := g.object.GetLabels()[ArchitectureLabel]
	switch {
	case architectures.Known(label):
		return label, ""
	case !labelled:
		return "", ""
	}
	return "", fmt.Sprintf("%s has a label %s that is no architecture which KubeVirt knows", whose, ArchitectureLabel)
}
