package effective

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/plugins"
	"github.com/virtward/virtward/validators"
)

// DecidePlugin evaluates policies on a Plugin of KubeVirt. The input has no virtual machine. Of an update, findings that the old Plugin
// has too are warnings.
func (p *Pipeline) DecidePlugin(in Input, object, old *pluginv1alpha1.Plugin) ([]validators.Finding, error) {
	findings := p.evaluatePlugin(&in, object, old)
	if old == nil || !rejects(findings) {
		return findings, nil
	}
	in.OnlyDenying = true
	RatchetFindings(findings, fieldsOf(object), p.evaluatePlugin(&in, old, old), fieldsOf(old))
	return findings, nil
}

func (p *Pipeline) evaluatePlugin(in *Input, object, old *pluginv1alpha1.Plugin) []validators.Finding {
	size := cel.PreviewSize{Domain: domain.SizeOf(sample())}
	d := &cel.Documents{
		Kind: string(policyv1alpha1.PolicyPlugin), Object: object, Request: in.Request, Facts: in.Facts, Requester: in.Requester, Author: in.Author,
		Authorizer: in.Authorizer, AuthorizerApart: in.AuthorizerApart, Gone: in.Gone, Hurry: in.Hurry, Large: in.Large, OnlyDenying: in.OnlyDenying,
		Previews: &cel.Previews{Size: size, Domain: func() (*domain.Domain, error) { return p.hooked(in, object) }},
	}
	if old != nil {
		d.OldObject = old
	}
	bytes := int64(0)
	if in.Policies.ReadsDomain() {
		bytes = cel.MaxPreviewBytes // a hook can add what it likes
	}
	if in.Evaluating != nil {
		defer in.Evaluating(bytes)()
	}
	if in.Request.Operation == "" {
		return in.Policies.Audit(d, in.Now)
	}
	return in.Policies.Evaluate(d, in.Now)
}

// sample is the virtual machine whose domain policies read of a Plugin: small, with a disk and a network.
func sample() *v1.VirtualMachineInstance {
	memory := resource.MustParse("1Gi")
	vmi := &v1.VirtualMachineInstance{}
	vmi.Name, vmi.Namespace = "sample", "default"
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &memory}
	vmi.Spec.Domain.Devices.Disks = []v1.Disk{{Name: "root", DiskDevice: v1.DiskDevice{Disk: &v1.DiskTarget{}}}}
	vmi.Spec.Volumes = []v1.Volume{{Name: "root", VolumeSource: v1.VolumeSource{ContainerDisk: &v1.ContainerDiskSource{Image: "sample"}}}}
	return vmi
}

// hooked is the domain of the sample after all hooks of a Plugin, as if their conditions were true. The error is about a hook that
// cannot be previewed: the policy cannot be evaluated then.
func (p *Pipeline) hooked(in *Input, object *pluginv1alpha1.Plugin) (*domain.Domain, error) {
	verdict, err := p.Complete(Input{Facts: in.Facts, VMI: sample()})
	if err != nil {
		return nil, err
	}
	before, err := p.domain(in, verdict.VMI)
	if err != nil {
		return nil, err
	}
	document := before.Element()
	result := plugins.NewAdmittedSet(unconditional(object)).Apply(verdict.VMI, document)
	if result.Err != nil {
		return nil, result.Err
	}
	for i := range result.Hooks {
		if h := &result.Hooks[i]; h.Outcome != plugins.Applied {
			return nil, fmt.Errorf("spec.%s: %w", h.Hook, errors.New(h.Message))
		}
	}
	return domain.FromElement(result.Document), nil
}

// unconditional is a Plugin with only its domain hooks, whose conditions are met, and whose failures are errors.
func unconditional(object *pluginv1alpha1.Plugin) *pluginv1alpha1.Plugin {
	bare := object.DeepCopy()
	bare.Spec.Condition, bare.Spec.NodeHooks, bare.Spec.FailureStrategy = "", nil, pluginv1alpha1.FailureStrategyFail
	for i := range bare.Spec.DomainHooks {
		bare.Spec.DomainHooks[i].Condition, bare.Spec.DomainHooks[i].FailureStrategy = "", pluginv1alpha1.FailureStrategyFail
	}
	return bare
}
