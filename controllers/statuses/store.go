package statuses

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
)

// resource is that of policies.
var resource = policyv1alpha1.GroupVersion.WithResource("virtualmachinepolicies")

// Store writes one owner's part of the statuses. Create it with New.
type Store struct {
	client dynamic.Interface
	owner  string

	mu sync.Mutex
	// stored are the parts that the API server has, by the policy's name.
	stored map[string]stored
}

type stored struct {
	uid        types.UID
	generation int64
	part       *policyv1alpha1.VirtualMachinePolicyStatus
}

// New returns a Store. owner is the field manager of the part.
func New(client dynamic.Interface, owner string) *Store {
	return &Store{client: client, owner: owner, stored: map[string]stored{}}
}

// Part is the part of a status that a controller writes. Both functions are pure.
type Part struct {
	// Plan returns the part, given the status of the policy.
	Plan func(before *policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus
	// Own selects the part from a whole status.
	Own func(*policyv1alpha1.VirtualMachinePolicyStatus) *policyv1alpha1.VirtualMachinePolicyStatus
}

// Keep writes the part of one policy if it differs from the stored one. It reads and writes nothing while the plan is
// the same as the last write. before is the policy that was read, without its spec, and part its current part; before
// is nil if nothing was read. If the policy has another uid or generation, nothing is written: its watch reports it
// soon.
func (s *Store) Keep(ctx context.Context, policy *policyv1alpha1.VirtualMachinePolicy, p Part) (before *policyv1alpha1.VirtualMachinePolicy, part *policyv1alpha1.VirtualMachinePolicyStatus, err error) {
	if known, ok := s.find(policy.Name); ok && known.uid == policy.UID && known.generation == policy.Generation &&
		equality.Semantic.DeepEqual(known.part, p.Plan(known.part)) {
		return nil, known.part, nil
	}
	before, err = s.get(ctx, policy.Name)
	if before == nil || err != nil || before.UID != policy.UID || before.Generation != policy.Generation {
		return nil, nil, err
	}
	part = p.Plan(&before.Status)
	if !equality.Semantic.DeepEqual(part, p.Own(&before.Status)) {
		if err := s.apply(ctx, policy.Name, policy.UID, part); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[policy.Name] = stored{uid: policy.UID, generation: policy.Generation, part: part}
	return before, part, nil
}

func (s *Store) find(name string) (stored, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.stored[name]
	return known, ok
}

// Names returns the names of the policies in the Store, sorted.
func (s *Store) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.stored))
}

// Forget removes a deleted policy.
func (s *Store) Forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, name)
}

// get reads a policy without its spec; nil if it does not exist.
func (s *Store) get(ctx context.Context, name string) (*policyv1alpha1.VirtualMachinePolicy, error) {
	found, err := s.client.Resource(resource).Get(ctx, name, metav1.GetOptions{})
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

// apply writes the owner's part of a status. Fields that the owner wrote before and that are not in the part are
// removed.
func (s *Store) apply(ctx context.Context, name string, uid types.UID, part *policyv1alpha1.VirtualMachinePolicyStatus) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if len(part.Conditions) == 0 { // a status of which nothing is left would be null, which the definition rejects
		fields["conditions"] = []any{}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name, "uid": string(uid)}, "status": fields}}
	object.SetGroupVersionKind(policyv1alpha1.GroupVersion.WithKind(apikinds.VirtualMachinePolicy))
	_, err = s.client.Resource(resource).ApplyStatus(ctx, name, object, metav1.ApplyOptions{FieldManager: s.owner, Force: true})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
