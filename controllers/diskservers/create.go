package diskservers

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/ovf/servers"
)

// Create creates a pod, and then its objects in their order. What fails is not continued: a pod without its Service is not complete.
func Create(ctx context.Context, c client.Client, owner string, pod *corev1.Pod, objects func(*corev1.Pod) ([]servers.Object, error)) error {
	if err := requests.Apply(ctx, c, owner, requests.Step{Verb: requests.Create, Object: pod}); err != nil {
		return err //nolint:wrapcheck // it names the step
	}
	all, err := objects(pod)
	if err != nil {
		return err
	}
	var steps []requests.Step
	for _, object := range all {
		steps = append(steps, requests.Step{Verb: requests.Create, Object: object})
	}
	return requests.Apply(ctx, c, owner, steps...) //nolint:wrapcheck // it names the step
}
