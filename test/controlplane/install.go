package controlplane

import (
	"context"
	"maps"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/virtward/virtward/api/processes"
)

// Names under which the sandbox installs our own chart.
const (
	VirtwardNamespace = "virtward-system"
	VirtwardRelease   = "virtward"
	VirtwardService   = processes.Webhook // the Service and the Deployment of the webhook
	// Deployments. All but the webhook's, the controller's and the API server's are started by tests that need them.
	VirtwardController    = processes.Controller
	VirtwardExport        = processes.Export
	VirtwardAPIServer     = processes.APIServer
	VirtwardTemplates     = processes.Templates
	VirtwardImports       = processes.TemplateImports
	VirtwardExports       = processes.TemplateExports
	VirtwardRollouts      = processes.Rollouts
	VirtwardImages        = processes.Images
	VirtwardVirtualImages = processes.VirtualImages
)

// rotationSettle is the time between the steps of a rotation. It is short, because the API server runs on this machine.
const rotationSettle = "--rotation-settle=2s"

// virtwardChart is the folder of our own chart.
const virtwardChart = "charts/virtward"

// VirtwardChart is our own chart with values merged over its own, and a free port for each that it names. Without a value of
// templates.mode, it does not serve VM templates: an API whose server does not run would fail discovery.
func (c *ControlPlane) VirtwardChart(values map[string]any) (Chart, error) {
	merged := maps.Clone(values)
	if merged == nil {
		merged = map[string]any{}
	}
	if templates := section(merged, "templates"); templates["mode"] == nil {
		templates["mode"] = "observe"
	}
	for _, p := range processes.All() {
		for _, group := range p.Ports {
			port, err := c.TakePort()
			if err != nil {
				return Chart{}, err
			}
			for _, value := range group {
				setValue(merged, value, port)
			}
		}
	}
	return Chart{Dir: virtwardChart, Release: VirtwardRelease, Namespace: VirtwardNamespace, Values: merged}, nil
}

// setValue sets the value at a path such as webhook.port, in copies of the sections above it. The Service's port is that of the
// process, because the API server calls that very port on this machine.
func setValue(values map[string]any, path string, value any) {
	sections := strings.Split(path, ".")
	last := len(sections) - 1
	for _, name := range sections[:last] {
		values = section(values, name)
	}
	values[sections[last]] = value
}

// section replaces a section of values with a copy, which it returns.
func section(values map[string]any, name string) map[string]any {
	copied := map[string]any{}
	if given, isMap := values[name].(map[string]any); isMap {
		copied = maps.Clone(given)
	}
	values[name] = copied
	return copied
}

// InstallVirtward installs our chart unchanged, points the webhook's Service at this machine and runs bin/virtward as
// the Deployments of the webhook and, where it keeps the certificates, of the controller say. With templates.mode manage or
// auto it runs bin/virtward-apiserver too. It returns the webhook when that is ready; the API server learns of new webhook
// configurations a moment later.
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
	if err := c.installAPIServer(ctx); err != nil {
		return nil, err
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

// installAPIServer runs the API of templates if the chart has installed it.
func (c *ControlPlane) installAPIServer(ctx context.Context) error {
	err := c.PointServiceAtLocalhost(ctx, VirtwardNamespace, VirtwardAPIServer)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	server, err := c.RunAPIServer(ctx, "")
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.apiServerOfTemplates = server
	c.mu.Unlock()
	return nil
}

// RunAPIServer runs a replica of the API of templates. All replicas share one port: the kernel distributes connections, as
// a Service does.
func (c *ControlPlane) RunAPIServer(ctx context.Context, replica string) (*Virtward, error) {
	return c.RunVirtward(ctx, Workload{
		Namespace: VirtwardNamespace, Deployment: VirtwardAPIServer, Binary: c.binary(VirtwardAPIServer), Replica: replica,
		Args: []string{"--shutdown-delay-duration=1s", "--permit-port-sharing", "--bind-address=127.0.0.1", "--kubeconfig=$(KUBECONFIG)", "--authentication-kubeconfig=$(KUBECONFIG)", "--authorization-kubeconfig=$(KUBECONFIG)"},
	})
}

// VirtwardAPIServerProcess is the API of templates that InstallVirtward has started; nil if it has started none.
func (c *ControlPlane) VirtwardAPIServerProcess() *Virtward {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.apiServerOfTemplates
}
