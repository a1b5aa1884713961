package platform

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// ReadFacts reads the facts of a cluster once, for programs that do not watch it. It does not set Observed.
func ReadFacts(ctx context.Context, client dynamic.Interface, settings Settings) (*Facts, error) {
	list, err := client.Resource(KubeVirts).List(ctx, metav1.ListOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("reading the KubeVirt resource: %w", err)
	}
	var objects []any
	if err == nil {
		for i := range list.Items {
			objects = append(objects, &list.Items[i])
		}
	}
	kv := choose(objects)
	if kv == nil {
		facts := Defaults(settings)
		facts.Warnings = append(facts.Warnings, NoKubeVirtWarning)
		return facts, nil
	}
	return FromKubeVirt(kv, settings)
}
