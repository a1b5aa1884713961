package pending

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/controllers"
	"github.com/virtward/virtward/controllers/dependents"
	"github.com/virtward/virtward/controllers/metadatawatch"
)

// maxObjects bounds the names of the instancetypes and preferences that running VMs refer to.
const maxObjects = 20_000

// settled is the delay after a change. Instancetypes that were read before are cached for a second, and KubeVirt acts on
// most changes within it.
const settled = 1500 * time.Millisecond

// workers is the number of VMs that are compared at the same time.
const workers = 2

// SetupWithManager adds the Reconciler to a manager, in the replica that leads.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, reader metadatawatch.Reader) error {
	options := controllers.Options()
	options.MaxConcurrentReconciles = workers
	watch := func(kind apikinds.Resource) metadatawatch.Watch {
		return metadatawatch.Watch{Reader: reader, Resource: kind.GroupVersionResource(), Status: true, Delay: settled}
	}
	machines, instances := watch(apikinds.VirtualMachines), watch(apikinds.VirtualMachineInstances)
	machines.Existing, machines.Began = true, r.ledger.began
	builder := ctrl.NewControllerManagedBy(mgr).Named("pending").WithOptions(options).
		WatchesRawSource(machines.Source(r.expected)).
		WatchesRawSource(instances.Source(metadatawatch.Itself)). // an instance has the name of its VM
		WatchesRawSource(r.trigger.Source(r.ledger.keys))
	for _, kind := range []apikinds.Resource{apikinds.Instancetypes, apikinds.ClusterInstancetypes, apikinds.Preferences, apikinds.ClusterPreferences} {
		w := watch(kind)
		builder = builder.WatchesRawSource(w.Source(func(name types.NamespacedName) []reconcile.Request {
			return r.objects.Keys(objectOf(kind, name))
		}))
	}
	return builder.Complete(r)
}

// expected are the keys of a VM. The ledger counts those of the first list.
func (r *Reconciler) expected(name types.NamespacedName) []reconcile.Request {
	keys := metadatawatch.Itself(name)
	r.ledger.expects(keys[0])
	return keys
}

func objectOf(kind apikinds.Resource, name types.NamespacedName) dependents.Object {
	return dependents.Object{Resource: kind.GroupVersionResource().GroupResource(), NamespacedName: name}
}

// dependsOn are the instancetype and the preference that a VM names.
func dependsOn(vm *kubevirtv1.VirtualMachine) (depends []dependents.Object) {
	add := func(kind, name string, cluster, namespaced apikinds.Resource) {
		switch kind {
		case "", cluster.Kind:
			depends = append(depends, objectOf(cluster, types.NamespacedName{Name: name}))
		case namespaced.Kind:
			depends = append(depends, objectOf(namespaced, types.NamespacedName{Namespace: vm.Namespace, Name: name}))
		}
	}
	if matcher := vm.Spec.Instancetype; matcher != nil && matcher.Name != "" {
		add(matcher.Kind, matcher.Name, apikinds.ClusterInstancetypes, apikinds.Instancetypes)
	}
	if matcher := vm.Spec.Preference; matcher != nil && matcher.Name != "" {
		add(matcher.Kind, matcher.Name, apikinds.ClusterPreferences, apikinds.Preferences)
	}
	return depends
}
