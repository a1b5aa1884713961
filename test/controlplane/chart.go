package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	values, err := yaml.Marshal(withImage(chart))
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

// withImage returns the values of a chart. No kubelet pulls images, so the chart of Virtward gets a name for them if it has none.
func withImage(chart Chart) map[string]any {
	if chart.Dir != virtwardChart {
		return chart.Values
	}
	values := maps.Clone(chart.Values)
	if values == nil {
		values = map[string]any{}
	}
	if image := section(values, "image"); image["repository"] == nil {
		image["repository"] = "virtward/virtward"
	}
	return values
}

// uninstallJob is the Job that Virtward's chart runs before it is uninstalled.
const uninstallJob = "virtward-uninstall"

// UninstallChart removes a release of Virtward with Helm.
func (c *ControlPlane) UninstallChart(ctx context.Context, chart Chart) error {
	return c.Uninstall(ctx, chart.Namespace, func(ctx context.Context) error {
		return c.helm(ctx, "uninstall", chart.Release, "--namespace", chart.Namespace)
	})
}

// Uninstall runs a function that uninstalls a release of Virtward with Helm. No kubelet runs the chart's Job, so it runs here, with its
// own account.
func (c *ControlPlane) Uninstall(ctx context.Context, namespace string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, uninstallTimeout)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := c.runHook(ctx, namespace)
		if err != nil {
			cancel() // Helm would wait for the Job
		}
		ended <- err
	}()
	err := do(ctx)
	cancel()
	return errors.Join(err, <-ended)
}

const uninstallTimeout = 4 * time.Minute

// runHook waits for the Job before an uninstallation, runs it, and completes it as the controller of Jobs does.
func (c *ControlPlane) runHook(ctx context.Context, namespace string) error {
	err := c.RunJob(ctx, namespace, uninstallJob)
	for apierrors.IsNotFound(err) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		err = c.RunJob(ctx, namespace, uninstallJob)
	}
	if ctx.Err() != nil { // there was no Job
		return nil //nolint:nilerr // so it is no failure
	}
	if err != nil {
		return err
	}
	job := &batchv1.Job{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: uninstallJob}, job); err != nil {
		return err
	}
	now := metav1.Now()
	job.Status = batchv1.JobStatus{Succeeded: 1, StartTime: &job.CreationTimestamp, CompletionTime: &now}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now})
	}
	return c.client.Status().Update(ctx, job)
}

// helm runs Helm with the admin's kubeconfig and without the user's own configuration.
func (c *ControlPlane) helm(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.binary("tools", "helm"), args...)
	cmd.Env = c.Environment(c.Kubeconfig())
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", args[0], err, strings.TrimSpace(string(output)))
	}
	return nil
}

// PointServiceAtLocalhost turns a Service into a name for this machine. The API server then calls this
// machine on the port that a webhook's or an APIService's configuration names, whatever ports the Service
// has: a listener must use that very port. The certificate is still checked for SERVICE.NAMESPACE.svc.
func (c *ControlPlane) PointServiceAtLocalhost(ctx context.Context, namespace, name string) error {
	service := &corev1.Service{}
	err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, service)
	if err == nil {
		var patch []byte
		if patch, err = localhostPatch(service); err == nil {
			err = c.client.Patch(ctx, service, client.RawPatch(types.MergePatchType, patch))
		}
	}
	if err != nil {
		return fmt.Errorf("pointing Service %s/%s at localhost: %w", namespace, name, err)
	}
	return nil
}

// localhostPatch removes the selector of a Service, which is invalid beside an external name, and notes it.
func localhostPatch(service *corev1.Service) ([]byte, error) {
	patch := map[string]any{"spec": map[string]any{"type": corev1.ServiceTypeExternalName, "externalName": "localhost", "selector": nil}}
	if len(service.Spec.Selector) > 0 {
		selector, err := json.Marshal(service.Spec.Selector)
		if err != nil {
			return nil, err
		}
		patch["metadata"] = map[string]any{"annotations": map[string]any{selectorAnnotation: string(selector)}}
	}
	return json.Marshal(patch)
}

// EnsureNamespace creates a namespace if it does not exist.
func (c *ControlPlane) EnsureNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.client.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("making namespace %s: %w", name, err)
	}
	return nil
}
