package validators

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	v1 "kubevirt.io/api/core/v1"
)

func goldenImageRules() Table {
	return Scoped(OnVM, imageArchitectureRule, nodeArchitectureRule)
}

var imageArchitectureRule = Rule{
	ID:     "golden-image-architecture",
	Title:  "The golden image that a VM clones has the architecture of the VM",
	Remedy: "Use the DataSource of the VM's architecture, or the architecture of the DataSource.",
	Check:  imageArchitecture,
}

// imageArchitecture compares the first golden image whose architecture is known, as KubeVirt does where it infers that of a VM.
func imageArchitecture(s *Subject, found *Errors) {
	image := s.Image
	if image == nil || s.VM == nil || s.Spec.Architecture == image.Architecture || s.OldVM != nil && SameImages(s.OldVM, s.VM) {
		return
	}
	found.Add(field.Invalid(dataVolumeTemplatePath(image.Template).Child("spec", "sourceRef"), image.DataSource,
		fmt.Sprintf("the image of this DataSource is for %s, and the architecture of the VM is %s", image.Architecture, s.Spec.Architecture)))
}

// SameImages reports whether two VMs have the same architecture and clone the same images.
func SameImages(a, b *v1.VirtualMachine) bool {
	return a.Spec.Template != nil && b.Spec.Template != nil && a.Spec.Template.Spec.Architecture == b.Spec.Template.Spec.Architecture &&
		equality.Semantic.DeepEqual(a.Spec.DataVolumeTemplates, b.Spec.DataVolumeTemplates)
}

var nodeArchitectureRule = Rule{
	ID:       "node-architecture",
	Title:    "A node has the architecture of the VM",
	Remedy:   "Set the architecture of a node, or add such a node.",
	Severity: Warn,
	Check:    nodeArchitecture,
}

func nodeArchitecture(s *Subject, found *Errors) {
	architecture := s.Spec.Architecture
	if len(s.NodeArchitectures) == 0 || s.VM == nil || architecture == "" || slices.Contains(s.NodeArchitectures, architecture) {
		return
	}
	found.Add(field.Invalid(s.Path.Child("architecture"), architecture, "no node for virtual machines has this architecture; nodes have "+strings.Join(s.NodeArchitectures, ", ")))
}
