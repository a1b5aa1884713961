package effective

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/virtward/virtward/validators"
)

// check fills the verdict's findings with those of the rules.
func (p *Pipeline) check(in *Input, verdict *Verdict) error {
	architecture := verdict.Architecture
	if architecture == "" {
		architecture = in.Facts.DefaultArchitecture
	}
	validator, err := p.hypervisors.Validator(in.Facts.Hypervisor.Name, architecture)
	if err != nil {
		return err
	}
	s := subject(in, verdict)
	s.Capacity = p.capacity(in, verdict)
	switch {
	case in.OldVMI != nil:
		verdict.Findings = validator.ValidateHotplug(s)
	case in.VM != nil:
		verdict.Findings = append(validator.ValidateVirtualMachineSpec(s), validator.ValidateVirtualMachineInstanceSpec(s)...)
		if verdict.beforeStart != nil {
			s.Spec = verdict.beforeStart
			verdict.Findings = validator.Rules().CheckBeforeStart(s, verdict.Findings)
		}
		verdict.withoutUnresolved(in)
	default:
		verdict.Findings = validator.ValidateVirtualMachineInstanceSpec(s)
	}
	return nil
}

// subject is what the rules look at.
func subject(in *Input, verdict *Verdict) *validators.Subject {
	s := &validators.Subject{
		Facts: in.Facts, Spec: verdict.Spec, Raw: in.Raw, Conflicts: verdict.Conflicts, Severities: in.Severities,
		Requester: in.Requester, RequesterExtra: in.RequesterExtra, Running: in.Running, NodeArchitectures: in.NodeArchitectures,
		VirtualImages: in.VirtualImages,
	}
	if in.VM != nil {
		s.VM, s.OldVM = verdict.VM, in.OldVM
		s.Path, s.MetaPath = templatePath.Child("spec"), templatePath.Child("metadata")
		if a := in.Architecture; a != nil {
			s.Image = &validators.Image{Template: a.Template, DataSource: a.DataSource, Architecture: a.Architecture}
		}
		s.Meta = &metav1.ObjectMeta{}
		if s.VM.Spec.Template != nil {
			s.Meta = &s.VM.Spec.Template.ObjectMeta
		}
		return s
	}
	s.VMI, s.OldVMI = verdict.VMI, in.OldVMI
	if in.PostMutation && in.OldVMI == nil {
		s.VMI, s.Spec, s.Missing = in.VMI, &in.VMI.Spec, verdict.Changes
	}
	s.Path, s.Meta, s.MetaPath = field.NewPath("spec"), &s.VMI.ObjectMeta, field.NewPath("metadata")
	return s
}

var templatePath = field.NewPath("spec", "template")
