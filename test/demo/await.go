package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/test/build"
	"github.com/virtward/virtward/test/controlplane"
	"github.com/virtward/virtward/test/simulators"
)

// timeout is the timeout of waits.
const timeout = 60 * time.Second

// await calls check until it returns no missing condition and no error.
func await(ctx context.Context, check func(context.Context) (missing string, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("the condition does not hold after %s", timeout))
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var missing string
	for {
		last, err := check(ctx)
		switch {
		case err == nil && last == "":
			return nil
		case err == nil && (ctx.Err() == nil || missing == ""):
			missing = last
		case ctx.Err() == nil || missing == "": // an attempt that the timeout cancels has no result
			missing = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", missing, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// awaitOutput runs a command, without showing it, until its output has words, or until it prints nothing if there are none.
// Virtward and KubeVirt watch the cluster, so they notice a change a moment later.
func (s *show) awaitOutput(ctx context.Context, who, line, words string) error {
	return await(ctx, func(ctx context.Context) (string, error) {
		output, err := s.call(ctx, who, line)
		if err == nil && (words == "" && strings.TrimSpace(output) == "" || words != "" && has(output, words)) {
			return "", nil
		}
		return fmt.Sprintf("%s$ %s: no %q in: %s", who, line, words, output), nil
	})
}

// awaitAdmission waits until the API server calls Virtward's webhooks and runs its guards, with dry runs. It reads new
// configurations a moment after they are written.
func (s *show) awaitAdmission(ctx context.Context) error {
	for _, check := range []func(context.Context) (string, error){
		func(ctx context.Context) (string, error) {
			vmi := build.VMI("await").Obj()
			err := s.cluster.Client().Create(ctx, vmi, client.DryRunAll)
			if err == nil && vmi.Spec.Domain.CPU == nil {
				return "the mutating webhook is not called", nil
			}
			return "", err
		},
		func(ctx context.Context) (string, error) {
			vmi := build.VMI("await").Architecture("arm64").Disk("root", kubevirtv1.DiskBusSATA).Obj()
			err := s.cluster.Client().Create(ctx, vmi, client.DryRunAll)
			if err == nil {
				return "the validating webhook is not called", nil
			}
			if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "[virtward/arm64-disk-bus]") {
				return "", nil
			}
			return "", err
		},
		func(ctx context.Context) (string, error) {
			rejected, err := s.rejectsUnknown(ctx)
			if err == nil && !rejected {
				return "the guard of the KubeVirt resource does not run", nil
			}
			return "", err
		},
	} {
		if err := await(ctx, check); err != nil {
			return err
		}
	}
	return nil
}

// rejectsUnknown reports whether a dry run with an unknown hypervisor is rejected.
func (s *show) rejectsUnknown(ctx context.Context) (bool, error) {
	const unknown = "unknown-hypervisor"
	resource := &unstructured.Unstructured{}
	resource.SetGroupVersionKind(kubevirtv1.KubeVirtGroupVersionKind)
	if err := s.cluster.Client().Get(ctx, simulators.Name, resource); err != nil {
		return false, err
	}
	list := []any{map[string]any{"name": unknown}}
	if err := unstructured.SetNestedSlice(resource.Object, list, "spec", "configuration", "hypervisor"); err != nil {
		return false, err
	}
	err := s.cluster.Client().Update(ctx, resource, client.DryRunAll)
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), unknown) {
		return true, nil
	}
	return false, err
}

// metricsPort returns the metrics port of the Deployment.
func (s *show) metricsPort(ctx context.Context) (int32, error) {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: controlplane.VirtwardNamespace, Name: controlplane.VirtwardService}
	if err := s.cluster.Client().Get(ctx, key, deployment); err != nil {
		return 0, err
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		for _, port := range container.Ports {
			if port.Name == "metrics" && port.Protocol != corev1.ProtocolUDP {
				return port.ContainerPort, nil
			}
		}
	}
	return 0, fmt.Errorf("the Deployment %s has no port named metrics", key)
}
