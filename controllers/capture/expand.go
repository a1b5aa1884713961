package capture

import (
	"context"
	"fmt"
	"maps"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/instancetypes"
	"github.com/virtward/virtward/provenance"
	"github.com/virtward/virtward/references"
	"github.com/virtward/virtward/templates/capture"
	"github.com/virtward/virtward/texts"
)

// LiveExpander expands VirtualMachines with the objects of a cluster.
type LiveExpander struct {
	// Objects reads instancetypes, preferences and their revisions.
	Objects Objects
}

// Objects read what VMs refer to, with a bound.
type Objects interface {
	references.Objects

	ReserveReads(ctx context.Context, namespace string) (context.Context, func())
}

// Expand implements Expander. The VirtualMachine is changed.
func (e *LiveExpander) Expand(ctx context.Context, vm *kubevirtv1.VirtualMachine) (*kubevirtv1.VirtualMachineSpec, error) {
	if vm.Spec.Instancetype == nil && vm.Spec.Preference == nil {
		return &vm.Spec, nil
	}
	ctx, end := e.Objects.ReserveReads(ctx, vm.Namespace)
	defer end()
	found, warnings, err := references.References(ctx, e.Objects, vm)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the instancetype and the preference: %w", err)
	case len(found.Conflicts) > 0:
		return nil, &capture.Error{Reason: v1beta1.ReasonExpansionFailed, Message: texts.Shorten(found.Conflicts.ToAggregate().Error(), requests.MaxMessage)} //nolint:forbidigo // a text
	case len(warnings) > 0:
		return nil, &capture.Error{Reason: v1beta1.ReasonExpansionFailed, Message: texts.Shorten(strings.Join(warnings, "; "), requests.MaxMessage)}
	}
	found.ApplyTo(vm)
	annotations, conflicts := instancetypes.Expand(instancetypes.TemplateOf(vm), found.Instancetype, found.Preference, &provenance.Recorder{})
	if len(conflicts) > 0 {
		return nil, &capture.Error{Reason: v1beta1.ReasonExpansionFailed, Message: texts.Shorten(conflicts.ToAggregate().Error(), requests.MaxMessage)} //nolint:forbidigo // a text
	}
	if len(annotations) > 0 {
		if vm.Spec.Template.ObjectMeta.Annotations == nil {
			vm.Spec.Template.ObjectMeta.Annotations = map[string]string{}
		}
		maps.Copy(vm.Spec.Template.ObjectMeta.Annotations, annotations)
	}
	vm.Spec.Instancetype, vm.Spec.Preference = nil, nil
	return &vm.Spec, nil
}
