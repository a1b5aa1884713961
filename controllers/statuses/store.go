package statuses

import (
	"cmp"
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

// Store writes one owner's part of the statuses of a kind. Its objects have the type *O, and their statuses the type S. Create
// it with OfPolicies or OfExceptions.
type Store[O, S any] struct {
	client   dynamic.Interface
	resource apikinds.Resource
	owner    string
	view     func(*O) (*metav1.ObjectMeta, *S)

	mu sync.Mutex
	// stored are the parts that the API server has.
	stored map[types.NamespacedName]stored[S]
}

type stored[S any] struct {
	uid        types.UID
	generation int64
	part       *S
}

// The stores of the kinds.
type (
	// Policies stores the statuses of VirtualMachinePolicies.
	Policies = Store[policyv1alpha1.VirtualMachinePolicy, policyv1alpha1.VirtualMachinePolicyStatus]
	// Exceptions stores the statuses of VirtualMachinePolicyExceptions.
	Exceptions = Store[policyv1alpha1.VirtualMachinePolicyException, policyv1alpha1.VirtualMachinePolicyExceptionStatus]
)

// OfPolicies returns a Store. owner is the field manager of the part.
func OfPolicies(client dynamic.Interface, owner string) *Policies {
	return newStore(client, apikinds.Policies, owner, func(p *policyv1alpha1.VirtualMachinePolicy) (*metav1.ObjectMeta, *policyv1alpha1.VirtualMachinePolicyStatus) {
		return &p.ObjectMeta, &p.Status
	})
}

// OfExceptions returns a Store. owner is the field manager of the part.
func OfExceptions(client dynamic.Interface, owner string) *Exceptions {
	return newStore(client, apikinds.PolicyExceptions, owner, func(e *policyv1alpha1.VirtualMachinePolicyException) (*metav1.ObjectMeta, *policyv1alpha1.VirtualMachinePolicyExceptionStatus) {
		return &e.ObjectMeta, &e.Status
	})
}

func newStore[O, S any](client dynamic.Interface, resource apikinds.Resource, owner string, view func(*O) (*metav1.ObjectMeta, *S)) *Store[O, S] {
	return &Store[O, S]{client: client, resource: resource, owner: owner, view: view, stored: map[types.NamespacedName]stored[S]{}}
}

// Part is the part of a status that a controller writes. Both functions are pure.
type Part[S any] struct {
	// Plan returns the part, given the status of the object.
	Plan func(before *S) *S
	// Own selects the part from a whole status.
	Own func(*S) *S
}

// PolicyPart is a part of the status of a policy.
type PolicyPart = Part[policyv1alpha1.VirtualMachinePolicyStatus]

// Keep writes the part of one object if it differs from the stored one. It reads and writes nothing while the plan is
// the same as the last write. before is the object that was read, without its spec, and part its current part; before
// is nil if nothing was read. If the object has another uid or generation, nothing is written: its watch reports it
// soon.
func (s *Store[O, S]) Keep(ctx context.Context, object *O, p Part[S]) (before *O, part *S, err error) {
	is, _ := s.view(object)
	key := types.NamespacedName{Namespace: is.Namespace, Name: is.Name}
	if known, ok := s.find(key); ok && known.uid == is.UID && known.generation == is.Generation &&
		equality.Semantic.DeepEqual(known.part, p.Plan(known.part)) {
		return nil, known.part, nil
	}
	before, err = s.get(ctx, key)
	if before == nil || err != nil {
		return nil, nil, err
	}
	was, status := s.view(before)
	if was.UID != is.UID || was.Generation != is.Generation {
		return nil, nil, nil
	}
	part = p.Plan(status)
	if !equality.Semantic.DeepEqual(part, p.Own(status)) {
		if err := s.apply(ctx, was, part); err != nil {
			return nil, nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[key] = stored[S]{uid: is.UID, generation: is.Generation, part: part}
	return before, part, nil
}

func (s *Store[O, S]) find(key types.NamespacedName) (stored[S], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.stored[key]
	return known, ok
}

// Keys returns the objects in the Store, sorted.
func (s *Store[O, S]) Keys() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.stored), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// Forget removes a deleted object.
func (s *Store[O, S]) Forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stored, key)
}

func (s *Store[O, S]) at(namespace string) dynamic.ResourceInterface {
	return s.client.Resource(s.resource.GroupVersionResource()).Namespace(namespace)
}

// get reads an object without its spec; nil if it does not exist.
func (s *Store[O, S]) get(ctx context.Context, key types.NamespacedName) (*O, error) {
	found, err := s.at(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	object := new(O)
	unstructured.RemoveNestedField(found.Object, "spec") // it may hold what cannot be read
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, object); err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	return object, nil
}

// apply writes the owner's part of a status. Fields that the owner wrote before and that are not in the part are
// removed.
func (s *Store[O, S]) apply(ctx context.Context, of *metav1.ObjectMeta, part *S) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(part)
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if fields["conditions"] == nil { // a status of which nothing is left would be null, which the definition rejects
		fields["conditions"] = []any{}
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": of.Name, "uid": string(of.UID)}, "status": fields}}
	object.SetGroupVersionKind(s.resource.GroupVersionKind)
	object.SetNamespace(of.Namespace)
	_, err = s.at(of.Namespace).ApplyStatus(ctx, of.Name, object, metav1.ApplyOptions{FieldManager: s.owner, Force: true})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status: %w", err)
	}
	return nil
}
