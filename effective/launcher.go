package effective

import (
	"github.com/virtward/virtward/launcher"
	"github.com/virtward/virtward/platform"
)

// Launcher renders the pod that KubeVirt makes of a virtual machine that was completed, as far as it is known without the cluster.
// The error says why KubeVirt cannot render it either, or that the virtual machine is too large.
func (p *Pipeline) Launcher(v *Verdict, facts *platform.Facts) (*launcher.Result, error) {
	in, err := p.LauncherInput(v, facts)
	if err != nil {
		return nil, err
	}
	return launcher.Render(in)
}

// LauncherInput is what the pod is rendered from. A caller that knows more of the cluster adds that.
func (p *Pipeline) LauncherInput(v *Verdict, facts *platform.Facts) (*launcher.Input, error) {
	renderer, err := p.hypervisors.Launcher(facts.Hypervisor.Name, v.Architecture)
	if err != nil {
		return nil, err
	}
	changes := v.Changes
	if v.VM != nil {
		changes = ofTemplate(changes)
	}
	return &launcher.Input{VMI: launcher.Started(v.instance(), facts), Facts: facts, Renderer: renderer, Changes: changes}, nil
}
