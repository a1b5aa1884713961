package effective

import (
	corev1 "k8s.io/api/core/v1"
	v1 "kubevirt.io/api/core/v1"

	"github.com/virtward/virtward/cel"
	"github.com/virtward/virtward/domain"
	"github.com/virtward/virtward/launcher"
)

// previews compute what policies read of an instance besides the instance itself, as of a first start: without its status and its UID,
// which differ between admission and audit. bytes is what those take that the policies read; it is 0 and there are none if
// they read none.
func (p *Pipeline) previews(in *Input, v *Verdict) (previews *cel.Previews, bytes int64) {
	pod, libvirt, targets := in.Policies.ReadsPod(), in.Policies.ReadsDomain(), in.Policies.ReadsMigrationTargets()
	if !pod && !libvirt && !targets {
		return nil, 0
	}
	written := running(in, v)
	if written == nil {
		return nil, 0
	}
	size := previewSize(written)
	previews = &cel.Previews{Size: size}
	if pod {
		bytes += min(cel.PodBytes(size.PodDevices), cel.MaxPreviewBytes)
		previews.Pod = func() (*corev1.Pod, error) { return p.pod(in, written) }
	}
	if libvirt {
		bytes += min(cel.DomainBytes(&size), cel.MaxPreviewBytes)
		previews.Domain = func() (*domain.Domain, error) { return p.domain(in, written) }
	}
	if targets {
		bytes += min(cel.PodBytes(size.PodDevices), cel.MaxPreviewBytes)
		previews.Targets = func(references *cel.References) (int, error) { return p.migrationTargets(in, v, references) }
	}
	return previews, bytes
}

func previewSize(vmi *v1.VirtualMachineInstance) cel.PreviewSize {
	return cel.PreviewSize{PodDevices: uint64(launcher.Size(&vmi.Spec)), Domain: domain.SizeOf(vmi), Conditions: conditions(&vmi.Spec)} //nolint:gosec // a sum of lengths
}

// unstarted is an instance that has not started yet.
func unstarted(vmi *v1.VirtualMachineInstance) *v1.VirtualMachineInstance {
	started := &v1.VirtualMachineInstance{Spec: vmi.Spec}
	started.Name, started.GenerateName, started.Namespace = vmi.Name, vmi.GenerateName, vmi.Namespace
	started.Labels, started.Annotations = vmi.Labels, vmi.Annotations
	return started
}

func (p *Pipeline) pod(in *Input, vmi *v1.VirtualMachineInstance) (*corev1.Pod, error) {
	renderer, err := p.hypervisors.Launcher(in.Facts.Hypervisor.Name, vmi.Spec.Architecture)
	if err != nil {
		return nil, err
	}
	rendered, err := launcher.Render(&launcher.Input{
		VMI: launcher.Started(unstarted(vmi), in.Facts), Facts: in.Facts, Renderer: renderer,
		Cluster: launcher.Cluster{NamespaceLabels: in.NamespaceLabels},
	})
	if err != nil {
		return nil, err
	}
	return rendered.Pod, nil
}

func (p *Pipeline) domain(in *Input, vmi *v1.VirtualMachineInstance) (*domain.Domain, error) {
	host := &domain.Assumptions{}
	instance, host, err := domain.Preview(unstarted(vmi), host)
	if err != nil {
		return nil, err
	}
	of := &domain.Input{VMI: instance, Facts: in.Facts, Host: host}
	converter, err := p.hypervisors.Converter(in.Facts.Hypervisor.Name, domain.ArchitectureOf(of))
	if err != nil {
		return nil, err
	}
	made, err := converter.Convert(of)
	if err != nil {
		return nil, err
	}
	return made.Domain, nil
}
