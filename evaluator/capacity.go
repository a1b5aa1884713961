package evaluator

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/effective"
	"github.com/virtward/virtward/platform"
	"github.com/virtward/virtward/validators"
)

// findCapacity adds what the cluster has room for, for a request of a user. No user reads warnings about requests of KubeVirt itself.
func (e *evaluation) findCapacity(ctx context.Context, in *effective.Input) error {
	r := e.request
	if r.Operation == "" || r.Stage == Stored || e.facts.ByKubeVirt(in.Requester) {
		return nil
	}
	in.Nodes = e.active.Nodes
	if !e.evaluator.Quotas || r.Namespace == "" {
		return nil
	}
	quotas, err := e.quotas(ctx)
	if err != nil && validators.DeniesQuotas(in.Severities) {
		return err
	}
	in.Quotas = quotas
	return nil
}

// quotas reads the ResourceQuotas of the namespace; nil if they are too many or too large.
func (e *evaluation) quotas(ctx context.Context) ([]*corev1.ResourceQuota, error) {
	list, err := e.evaluator.References.List(ctx, apikinds.ResourceQuotas.GroupVersionKind, e.request.Namespace)
	if err != nil {
		if errors.Is(err, platform.ErrTooLarge) {
			return nil, nil
		}
		return nil, err
	}
	quotas := make([]*corev1.ResourceQuota, 0, len(list))
	for _, object := range list {
		quota := &corev1.ResourceQuota{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, quota) == nil {
			quotas = append(quotas, quota)
		}
	}
	return quotas, nil
}
