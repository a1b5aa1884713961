package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Chart is a Helm chart to install.
type Chart struct {
	// Dir is the chart's folder; relative to the repository unless absolute.
	Dir string
	// Release names the installation.
	Release string
	// Namespace is made when it is not there.
	Namespace string
	// Values are merged over the chart's own.
	Values map[string]any
}

// InstallChart installs a chart with Helm as a cluster admin would, or upgrades it.
func (c *ControlPlane) InstallChart(ctx context.Context, chart Chart) error {
	values, err := yaml.Marshal(chart.Values)
	if err != nil {
		return fmt.Errorf("the values of release %s: %w", chart.Release, err)
	}
	file, err := c.home.write("values-"+chart.Release+".yaml", values)
	if err != nil {
		return err
	}
	dir := chart.Dir
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(c.options.Root, dir)
	}
	return c.helm(ctx, "upgrade", chart.Release, dir, "--install",
		"--namespace", chart.Namespace, "--create-namespace", "--values", file)
}

// UninstallChart removes a release with Helm.
func (c *ControlPlane) UninstallChart(ctx context.Context, chart Chart) error {
	return c.helm(ctx, "uninstall", chart.Release, "--namespace", chart.Namespace)
}

// helm runs Helm with the admin's kubeconfig and without the user's own configuration.
func (c *ControlPlane) helm(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.binary("tools", "helm"), args...)
	cmd.Env = append(c.environment(), frugal, "KUBECONFIG="+c.Kubeconfig())
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", args[0], err, strings.TrimSpace(string(output)))
	}
	return nil
}

// PointServiceAtLocalhost turns a Service into a name for this machine. The API server then calls this
// machine on the port that a webhook's or an APIService's configuration names, whatever ports the Service
// has: a listener must use that very port. The certificate is still checked for SERVICE.NAMESPACE.svc.
func (c *ControlPlane) PointServiceAtLocalhost(ctx context.Context, namespace, name string) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"type": corev1.ServiceTypeExternalName, "externalName": "localhost", "selector": nil,
	}})
	if err != nil {
		return err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := c.client.Patch(ctx, service, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("pointing Service %s/%s at localhost: %w", namespace, name, err)
	}
	return nil
}

// EnsureNamespace creates a namespace if it does not exist.
func (c *ControlPlane) EnsureNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("making namespace %s: %w", name, err)
	}
	return nil
}
