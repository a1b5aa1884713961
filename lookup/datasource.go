package lookup

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	v1 "kubevirt.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/platform"
)

// ArchitectureLabel says on a DataSource for which architecture its image is.
const ArchitectureLabel = "template.kubevirt.io/architecture"

// Architecture is that of the image that a VM is made from.
type Architecture struct {
	// Architecture is amd64, arm64 or s390x.
	Architecture string
	// Name of the DataSource that says so.
	Name string
}

// DataSourceArchitecture finds the architecture of a VM that names none, by the first of its
// dataVolumeTemplates whose DataSource says one; nil if none does. A DataSource that points at another one
// stands for that one. What is missing is a warning: KubeVirt goes on without it.
func DataSourceArchitecture(ctx context.Context, objects Objects, vm *v1.VirtualMachine) (*Architecture, []string, error) {
	if vm.Spec.Template == nil || vm.Spec.Template.Spec.Architecture != "" {
		return nil, nil, nil
	}
	var warnings []string
	for i := range vm.Spec.DataVolumeTemplates {
		ref := vm.Spec.DataVolumeTemplates[i].Spec.SourceRef
		if ref == nil || !strings.EqualFold(ref.Kind, dataSource.Kind) {
			continue
		}
		namespace := vm.Namespace
		if ref.Namespace != nil && *ref.Namespace != "" {
			namespace = *ref.Namespace
		}
		source, err := pointedAt(ctx, objects, namespace, ref.Name)
		if err != nil && !absent(err) {
			return nil, warnings, fmt.Errorf("spec.dataVolumeTemplates[%d].spec.sourceRef: reading DataSources: %w", i, err)
		}
		if err != nil {
			warnings = append(warnings, fmt.Sprintf("spec.dataVolumeTemplates[%d].spec.sourceRef: there is no %s, or none that it points at, to take the architecture from",
				i, described(dataSource, namespace, ref.Name)))
			continue
		}
		switch architecture, labelled := source.GetLabels()[ArchitectureLabel]; architecture {
		case platform.AMD64, platform.ARM64, platform.S390X:
			return &Architecture{Architecture: architecture, Name: source.GetName()}, warnings, nil
		default:
			if labelled {
				warnings = append(warnings, fmt.Sprintf("spec.dataVolumeTemplates[%d].spec.sourceRef: %s has the label %s: %q, which is no architecture that KubeVirt knows",
					i, described(dataSource, source.GetNamespace(), source.GetName()), ArchitectureLabel, architecture))
			}
		}
	}
	return nil, warnings, nil
}

// pointedAt is a DataSource, or the one that it points at; one hop, as CDI allows.
func pointedAt(ctx context.Context, objects Objects, namespace, name string) (*unstructured.Unstructured, error) {
	obj, err := objects.Get(ctx, dataSource, namespace, name)
	if err != nil {
		return nil, err
	}
	spec := &cdiv1beta1.DataSourceSpec{}
	if err := decodeSpec(obj, spec); err != nil || spec.Source.DataSource == nil {
		return obj, nil //nolint:nilerr // one that CDI would not have accepted is no pointer
	}
	return objects.Get(ctx, dataSource, spec.Source.DataSource.Namespace, spec.Source.DataSource.Name)
}
