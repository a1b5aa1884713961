package explain

import (
	"context"
	"sync"

	"github.com/virtward/virtward/cli/placements"
	"github.com/virtward/virtward/evaluator"
	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/launcher"
)

// pods render the pods that KubeVirt makes of virtual machines. It is safe for concurrent use.
type pods struct {
	// cluster has what the pods depend on in their namespaces; nil if nothing is known of them.
	cluster *offline.Cluster
	mu      sync.Mutex
	known   map[string]*placements.Found
}

// namespace reads what pods depend on in a namespace, once.
func (p *pods) namespace(ctx context.Context, name string) (*placements.Found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if found := p.known[name]; found != nil {
		return found, nil
	}
	found, err := placements.ReadNamespace(ctx, p.cluster.Client, name)
	if err != nil {
		return nil, err
	}
	if p.known == nil {
		p.known = map[string]*placements.Found{}
	}
	p.known[name] = found
	return found, nil
}

// render renders the pod of a virtual machine. unread is what the user may not read, and what is assumed instead.
func (p *pods) render(ctx context.Context, w *offline.Evaluator, result *evaluator.Result) (pod *launcher.Result, unread []string, err error) {
	if p.cluster == nil {
		pod, err = w.Launcher(result.Verdict)
		return pod, nil, err
	}
	in, err := w.LauncherInput(result.Verdict)
	if err != nil {
		return nil, nil, err
	}
	found, err := p.namespace(ctx, result.Namespace)
	if err != nil {
		return nil, nil, err
	}
	in.Cluster = found.Launcher(in.VMI)
	if found.Unknown.Claims {
		in.Cluster.Claims = nil
	}
	if found.Unknown.Quotas {
		in.Cluster.Quotas = nil
	}
	pod, err = launcher.Render(in)
	if err == nil {
		pod.Assumptions = append(pod.Assumptions, found.Missing(in.VMI)...)
	}
	return pod, found.Unread, err
}
