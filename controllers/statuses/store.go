package statuses

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// resource is that of policies.
var resource = policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies")

// Store is where statuses are.
type Store struct {
	Client dynamic.Interface
	// Owner is the field manager whose part is written.
	Owner string
}

// Get is a policy as it is stored, without its spec; nil if there is none.
func (s *Store) Get(ctx context.Context, name string) (*policyv1alpha1.VirtualMachinePolicy, error) {
	found, err := s.Client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	policy := &policyv1alpha1.VirtualMachinePolicy{}
	unstructured.RemoveNestedField(found.Object, "spec") // it may hold what cannot be read
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, policy); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	return policy, nil
}

// Apply writes the owner's part of a status; what the owner wrote before and is not in it goes.
func (s *Store) Apply(ctx context.Context, name string, uid types.UID, part *policyv1alpha1.VirtualMachinePolicyStatus) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if len(part.Conditions) == 0 { // a status of which nothing is left would be null, which the definition refuses
		fields["conditions"] = []any{}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "uid": string(uid)}, "status": fields}}
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind("VirtualMachinePolicy"))
	_, err = s.Client.Resource(resource).ApplyStatus(ctx, name, object, metav1.ApplyOptions{FieldManager: s.Owner, Force: true})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
