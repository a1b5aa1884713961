package controlplane

import (
	"context"
	"maps"
)

// Names under which the sandbox installs our own chart.
const (
	VirtwardNamespace = "virtward-system"
	VirtwardRelease   = "virtward"
	VirtwardService   = "virtward-webhook"
	// VirtwardController is the Deployment that audits, and keeps the certificates of the webhooks.
	VirtwardController = "virtward-controller"
	// VirtwardExport is the Deployment that exports policies, where the values enable it.
	VirtwardExport = "virtward-export"
)

// portValues are the chart's values that name a port of the process, by section. The Service's port is among
// them, because the API server calls that very port on this machine.
var portValues = []struct {
	section string
	keys    []string // share one port
}{
	{"webhook", []string{"port", "servicePort"}},
	{"metrics", []string{"port"}},
	{"health", []string{"port"}},
	{"controller", []string{"metricsPort"}},
	{"controller", []string{"healthPort"}},
}

// rotationSettle is the time between the steps of a rotation. It is short, because the API server runs on this machine.
const rotationSettle = "--rotation-settle=2s"

// VirtwardChart is our own chart with values merged over its own, and a free port for each that it names.
func (c *ControlPlane) VirtwardChart(values map[string]any) (Chart, error) {
	merged := maps.Clone(values)
	if merged == nil {
		merged = map[string]any{}
	}
	for _, p := range portValues {
		port, err := c.TakePort()
		if err != nil {
			return Chart{}, err
		}
		section := map[string]any{}
		if given, isMap := merged[p.section].(map[string]any); isMap {
			section = maps.Clone(given)
		}
		for _, key := range p.keys {
			section[key] = port
		}
		merged[p.section] = section
	}
	return Chart{Dir: "charts/virtward", Release: VirtwardRelease, Namespace: VirtwardNamespace, Values: merged}, nil
}

// InstallVirtward installs our chart unchanged, points the webhook's Service at this machine and runs bin/virtward as
// the Deployments of the webhook and, where it keeps the certificates, of the controller say. It returns the webhook when
// that is ready; the API server learns of new webhook configurations a moment later.
func (c *ControlPlane) InstallVirtward(ctx context.Context, values map[string]any, workload Workload) (*Virtward, error) {
	chart, err := c.VirtwardChart(values)
	if err != nil {
		return nil, err
	}
	if err := c.InstallChart(ctx, chart); err != nil {
		return nil, err
	}
	if err := c.PointServiceAtLocalhost(ctx, VirtwardNamespace, VirtwardService); err != nil {
		return nil, err
	}
	certificates, _ := values["certificates"].(map[string]any)
	if provider := certificates["provider"]; provider == nil || provider == "self" {
		controller, err := c.RunVirtward(ctx, Workload{
			Namespace: VirtwardNamespace, Deployment: VirtwardController, Binary: workload.Binary, Args: []string{rotationSettle},
		})
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		c.controller = controller
		c.mu.Unlock()
	}
	workload.Namespace = VirtwardNamespace
	if workload.Deployment == "" {
		workload.Deployment = VirtwardService // of the webhook, whose Deployment has the same name
	}
	return c.RunVirtward(ctx, workload)
}

// VirtwardControllerProcess is the controller that InstallVirtward has started; nil if it has started none.
func (c *ControlPlane) VirtwardControllerProcess() *Virtward {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.controller
}
