package controlplane

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RunJob runs the container of a Job as a process on this machine, with the rights of its service account, until it ends.
func (c *ControlPlane) RunJob(ctx context.Context, namespace, name string) error {
	job := &batchv1.Job{}
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, job); err != nil {
		return err
	}
	pod := &appsv1.Deployment{ObjectMeta: job.ObjectMeta, Spec: appsv1.DeploymentSpec{Template: job.Spec.Template}}
	v, err := c.prepare(ctx, pod, Workload{})
	if err != nil {
		return fmt.Errorf("preparing to run Job %s/%s: %w", namespace, name, err)
	}
	if err := v.mountVolumes(ctx); err != nil {
		return fmt.Errorf("mounting the volumes of Job %s/%s: %w", namespace, name, err)
	}
	defer v.end()
	if err := v.Start(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-v.process.done:
	}
	if v.process.err != nil {
		return fmt.Errorf("running Job %s/%s: %w; the end of its log:\n%s", namespace, name, v.process.err, v.process.tail())
	}
	return nil
}
