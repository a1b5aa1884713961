package configcache

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/virtward/virtward/admissionpolicies"
	"github.com/virtward/virtward/api/apikinds"
	policyv1alpha1 "github.com/virtward/virtward/api/policy/v1alpha1"
	"github.com/virtward/virtward/limits/watch"
	"github.com/virtward/virtward/policies"
)

// MaxExceptions bounds the memory of all VirtualMachinePolicyExceptions, in bytes. Exceptions beyond it are not active.
const MaxExceptions = 2 << 20

// Exceptions keeps the VirtualMachinePolicyExceptions, and whether their guard is active. Users without the verb exempt
// cannot create them.
type Exceptions struct {
	exceptions, policy, binding watchedKind

	budget *watch.Budget
	// maxDuration bounds the time until an exception ends; 0 for no bound.
	maxDuration time.Duration
	active      atomic.Pointer[policies.Exceptions]
	changed     chan struct{}
	onChange    func()
}

// watchedKind is the watch of a kind, which does not have to exist.
type watchedKind struct {
	cache.SharedIndexInformer
	// unavailable reports that the kind does not exist, or that this process may not read it.
	unavailable *atomic.Bool
}

func (w *watchedKind) ready() bool { return w.HasSynced() || w.unavailable.Load() }

// keptException is what the watch keeps of an exception.
type keptException struct {
	metav1.ObjectMeta

	object *policyv1alpha1.VirtualMachinePolicyException
	cost   int64
}

// Cost implements watch.Sized.
func (k *keptException) Cost() int64 { return k.cost }

// NewExceptions prepares the watches. onChange, if not nil, is called after each change.
func NewExceptions(client dynamic.Interface, maxDuration time.Duration, onChange func()) (*Exceptions, error) {
	x := &Exceptions{budget: watch.NewBudget(MaxExceptions), maxDuration: maxDuration, changed: make(chan struct{}, 1), onChange: onChange}
	resource := client.Resource(apikinds.PolicyExceptions.GroupVersionResource())
	informer := cache.NewSharedIndexInformer(watch.ListWatch(client, resource, withoutStatus), &unstructured.Unstructured{}, 0, cache.Indexers{})
	_, err := informer.AddEventHandler(x.budget.Handler())
	if err = errors.Join(err, informer.SetTransform(x.keep), x.watch(&x.exceptions, informer)); err != nil {
		return nil, fmt.Errorf("watching %s: %w", apikinds.VirtualMachinePolicyException, err)
	}
	for resource, watched := range map[string]*watchedKind{"validatingadmissionpolicies": &x.policy, "validatingadmissionpolicybindings": &x.binding} {
		one := dynamicinformer.NewFilteredDynamicInformer(client, admissionregistrationv1.SchemeGroupVersion.WithResource(resource), metav1.NamespaceAll, 0, cache.Indexers{},
			func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, admissionpolicies.PolicyExceptions).String()
			})
		if err := x.watch(watched, one.Informer()); err != nil {
			return nil, fmt.Errorf("watching the guard of exceptions: %w", err)
		}
	}
	return x, nil
}

func (x *Exceptions) watch(w *watchedKind, informer cache.SharedIndexInformer) error {
	*w = watchedKind{informer, &atomic.Bool{}}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { x.signal() }, DeleteFunc: func(any) { x.signal() },
		UpdateFunc: func(before, after any) {
			if !sameSpec(before, after) {
				x.signal()
			}
		},
	})
	return errors.Join(err, informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			w.unavailable.Store(true)
			return
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	}))
}

// sameSpec reports whether two objects are an exception before and after a change of its status or its metadata, such as those
// of the controller that writes the statuses.
func sameSpec(before, after any) bool {
	a, _ := before.(*keptException)
	b, _ := after.(*keptException)
	return a != nil && b != nil && a.UID == b.UID && a.Generation == b.Generation && a.cost == b.cost
}

// withoutStatus removes what nothing reads.
func withoutStatus(object runtime.Object) {
	if untyped, ok := object.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(untyped.Object, "status")
		untyped.SetManagedFields(nil)
		untyped.SetAnnotations(nil)
		untyped.SetLabels(nil)
	}
}

// keep makes of an exception what the watch keeps. One for which there is no memory has no spec.
func (x *Exceptions) keep(object any) (any, error) {
	untyped, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	withoutStatus(untyped)
	meta := metav1.ObjectMeta{
		Namespace: untyped.GetNamespace(), Name: untyped.GetName(), UID: untyped.GetUID(), ResourceVersion: untyped.GetResourceVersion(),
		Generation: untyped.GetGeneration(), CreationTimestamp: untyped.GetCreationTimestamp(),
	}
	kept := &keptException{ObjectMeta: meta, object: &policyv1alpha1.VirtualMachinePolicyException{ObjectMeta: meta}, cost: costOfObject}
	read := &policyv1alpha1.VirtualMachinePolicyException{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, read); err != nil {
		return kept, nil //nolint:nilerr // such an exception has no effect
	}
	if cost := costOfObject + costOfException(&read.Spec); x.budget.Take(meta.Namespace+"/"+meta.Name, cost) {
		kept.object.Spec, kept.cost = read.Spec, cost
	}
	return kept, nil
}

// costOfException is what a spec takes, twice for the compiled selector.
func costOfException(spec *policyv1alpha1.VirtualMachinePolicyExceptionSpec) int64 {
	cost := int64(len(spec.Reason))
	for _, list := range [][]string{spec.Policies, spec.VirtualMachines} {
		for _, text := range list {
			cost += int64(len(text)) + costOfEntry
		}
	}
	if spec.Selector != nil {
		cost += 2 * sizeOf(spec.Selector.MatchLabels)
		for _, e := range spec.Selector.MatchExpressions {
			cost += int64(len(e.Key)) + costOfEntry
			for _, value := range e.Values {
				cost += 2 * (int64(len(value)) + costOfEntry)
			}
		}
	}
	return cost
}

func (x *Exceptions) signal() {
	select {
	case x.changed <- struct{}{}:
	default: // it is known already
	}
}

// Run watches until the context ends.
func (x *Exceptions) Run(ctx context.Context) error {
	for _, w := range []*watchedKind{&x.exceptions, &x.policy, &x.binding} {
		go w.RunWithContext(ctx)
	}
	go func() {
		if wait.PollUntilContextCancel(ctx, settleInterval, true, func(context.Context) (bool, error) { return x.read(), nil }) == nil {
			x.signal()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-x.changed:
			x.rebuild()
		}
	}
}

// settleInterval is the interval at which Run checks whether the watches have caught up.
const settleInterval = 50 * time.Millisecond

// read reports whether everything has been read, or cannot be read.
func (x *Exceptions) read() bool {
	return x.exceptions.ready() && x.policy.ready() && x.binding.ready()
}

// rebuild reads the exceptions and the guard from the watches.
func (x *Exceptions) rebuild() {
	if !x.read() {
		return
	}
	var objects []*policyv1alpha1.VirtualMachinePolicyException
	for _, stored := range x.exceptions.GetStore().List() {
		if kept, ok := stored.(*keptException); ok {
			objects = append(objects, kept.object)
		}
	}
	var policy *admissionregistrationv1.ValidatingAdmissionPolicy
	var binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	readGuard(&x.policy, &policy)
	readGuard(&x.binding, &binding)
	since := admissionpolicies.ActiveSince(apikinds.PolicyExceptions.GroupVersionResource().GroupResource(), policy, binding)
	x.active.Store(policies.NewExceptions(policies.ExceptionTerms{GuardedSince: since, MaxDuration: x.maxDuration}, objects...))
	if x.onChange != nil {
		x.onChange()
	}
}

// readGuard sets into to the object of the guard, if there is one that can be decoded.
func readGuard[T any](w *watchedKind, into **T) {
	stored, found, _ := w.GetStore().GetByKey(admissionpolicies.PolicyExceptions)
	untyped, ok := stored.(*unstructured.Unstructured)
	object := new(T)
	if found && ok && runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, object) == nil {
		*into = object
	}
}

// Current returns the exceptions; nil, which are none, until they have been read for the first time. A nil Exceptions has
// none.
func (x *Exceptions) Current() *policies.Exceptions {
	if x == nil {
		return nil
	}
	return x.active.Load()
}

// Ready returns nil once the exceptions and their guard have been read, or cannot be read.
func (x *Exceptions) Ready() error {
	if x.active.Load() != nil {
		return nil
	}
	return errors.New("the VirtualMachinePolicyExceptions have not been read yet")
}
