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

// patience is how long the demo waits for something that takes a moment.
const patience = 60 * time.Second

// await asks again and again until there is nothing missing. The first result of ask says what is.
func await(ctx context.Context, ask func(context.Context) (missing string, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s in vain", patience))
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	var missing string
	for {
		last, err := ask(ctx)
		switch {
		case err == nil && last == "":
			return nil
		case err == nil && (ctx.Err() == nil || missing == ""):
			missing = last
		case ctx.Err() == nil || missing == "": // an attempt that the end cut short says nothing
			missing = err.Error()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", missing, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// awaitAdmission waits until the API server, which learns of webhooks and policies a moment after they are
// written, asks ours. The requests are dry runs.
func (s *show) awaitAdmission(ctx context.Context) error {
	for _, ask := range []func(context.Context) (string, error){
		func(ctx context.Context) (string, error) {
			vmi := build.VMI("await").Obj()
			err := s.cluster.Client().Create(ctx, vmi, client.DryRunAll)
			if err == nil && vmi.Spec.Domain.CPU == nil {
				return "the webhook that completes is not asked", nil
			}
			return "", err
		},
		func(ctx context.Context) (string, error) {
			vmi := build.VMI("await").Architecture("arm64").Disk("root", kubevirtv1.DiskBusSATA).Obj()
			err := s.cluster.Client().Create(ctx, vmi, client.DryRunAll)
			if err == nil {
				return "the webhook that checks is not asked", nil
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
		if err := await(ctx, ask); err != nil {
			return err
		}
	}
	return nil
}

// rejectsUnknown asks, in a dry run, for a hypervisor that nobody knows.
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

// metricsPort is the one that the Deployment names.
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
