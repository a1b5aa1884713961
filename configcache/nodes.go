package configcache

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"strconv"
	"sync"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/virtward/virtward/limits/watch"
	"github.com/virtward/virtward/placement"
)

// MaxNodes bounds the memory of all nodes, in bytes: of 6,000 with 150 labels each. If the nodes exceed it, they are unknown.
const MaxNodes = 32 << 20

// nodesAge is the shortest time between two snapshots. Nodes change all the time, and a warning can be a moment old.
const nodesAge = 2 * time.Second

// What a node takes in bytes, beside its texts, with its part of two snapshots, and what a label of it and a resource take in the
// objects and the snapshots: a test compares the sum with what is measured.
const (
	costOfNode     = 2304
	costOfOwnLabel = 64
	costOfResource = 160
)

// Nodes keeps the nodes of the cluster, as far as a placement on empty nodes reads them. Labels that many nodes have alike are kept
// once.
type Nodes struct {
	informer cache.SharedIndexInformer
	budget   *watch.Budget
	clock    clock.PassiveClock
	seed     maphash.Seed

	mu sync.Mutex
	// shared are the sets of labels that nodes have alike, by their key in the budget.
	shared   map[string]map[string]string
	changed  bool
	built    time.Time
	snapshot *placement.Snapshot
	// tooMany is called when nodes begin to exceed the bound, and exceeded is set while they do.
	tooMany  func(all, kept int)
	exceeded bool
}

// keptNode is what the watch keeps of a node.
type keptNode struct {
	metav1.ObjectMeta

	// node is nil if it exceeds the budget.
	node   *corev1.Node
	shared map[string]string
	// set is the key of the shared labels.
	set  string
	cost int64
}

// Cost implements watch.Sized.
func (k *keptNode) Cost() int64 { return k.cost }

// NewNodes prepares the watch. tooMany is called when the nodes begin to exceed the bound, with their number and that of those that are kept.
func NewNodes(client dynamic.Interface, tooMany func(all, kept int)) (*Nodes, error) {
	return newNodes(client, MaxNodes, clock.RealClock{}, tooMany)
}

func newNodes(client dynamic.Interface, limit int64, clock clock.PassiveClock, tooMany func(all, kept int)) (*Nodes, error) {
	resource := client.Resource(corev1.SchemeGroupVersion.WithResource("nodes"))
	n := &Nodes{
		informer: cache.NewSharedIndexInformer(watch.ListWatch(client, resource, shrinkNode), &unstructured.Unstructured{}, 0, cache.Indexers{}),
		budget:   watch.NewBudget(limit), clock: clock, seed: maphash.MakeSeed(), shared: map[string]map[string]string{}, tooMany: tooMany,
	}
	_, err := n.informer.AddEventHandler(n.budget.Handler())
	_, failed := n.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { n.change() }, DeleteFunc: func(any) { n.change() },
		UpdateFunc: func(before, after any) {
			if !sameNode(before, after) {
				n.change()
			}
		},
	})
	if err := errors.Join(err, failed, n.informer.SetTransform(n.keep)); err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	return n, nil
}

// shrinkNode removes the large parts of a node that are never read.
func shrinkNode(object runtime.Object) {
	if node, ok := object.(*unstructured.Unstructured); ok {
		node.SetManagedFields(nil)
		node.SetAnnotations(nil)
		for _, name := range []string{"images", "conditions", "capacity", "volumesAttached", "volumesInUse"} {
			unstructured.RemoveNestedField(node.Object, "status", name)
		}
	}
}

// keep is the transform of the informer.
func (n *Nodes) keep(object any) (any, error) {
	untyped, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	shrinkNode(untyped)
	kept := &keptNode{
		ObjectMeta: metav1.ObjectMeta{Name: untyped.GetName(), UID: untyped.GetUID(), ResourceVersion: untyped.GetResourceVersion()}, cost: costOfObject,
	}
	typed := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, typed); err != nil {
		return kept, nil //nolint:nilerr // without it, no node can be said to be unsuitable
	}
	typed = placement.TrimNode(typed)
	shared, own := placement.SplitLabels(typed.Labels)
	typed.Labels = interned(own)
	if cost := costOf(typed); n.budget.Take(kept.Name, cost) {
		if kept.set, kept.shared = n.share(shared); kept.shared != nil {
			kept.node, kept.cost = typed, cost
		} else {
			n.budget.Take(kept.Name, kept.cost)
		}
	}
	return kept, nil
}

// interned are labels whose texts nodes share.
func interned(own map[string]string) map[string]string {
	labels := make(map[string]string, len(own))
	for key, value := range own {
		labels[unique.Make(key).Value()] = unique.Make(value).Value()
	}
	return labels
}

// costOf is the memory of a node without its shared labels, in bytes.
func costOf(node *corev1.Node) int64 {
	cost := int64(costOfNode + 4*len(node.Name))
	for key, value := range node.Labels {
		cost += int64(costOfOwnLabel + len(key) + len(value))
	}
	for i := range node.Spec.Taints {
		t := &node.Spec.Taints[i]
		cost += int64(costOfOwnLabel + len(t.Key) + len(t.Value))
	}
	for name := range node.Status.Allocatable {
		cost += int64(costOfResource + len(name))
	}
	return cost
}

// share returns the same map for the same labels; nil if there is no memory for them.
func (n *Nodes) share(labels map[string]string) (set string, shared map[string]string) {
	key := n.keyOf(labels)
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.shared[key]
	if ok && maps.Equal(known, labels) {
		return key, known
	}
	cost := costOfObject + sizeOf(labels)
	if ok || !n.budget.Take(key, cost) { // two sets with one hash have no second key
		if n.forget(); ok || !n.budget.Take(key, cost) {
			return "", nil
		}
	}
	n.shared[key] = labels
	return key, labels
}

// keyOf is the key of shared labels. It has a slash, which no name of a node has.
func (n *Nodes) keyOf(labels map[string]string) string {
	var hash uint64
	for key, value := range labels { // in any order
		hash += maphash.String(n.seed, key+"="+value)
	}
	return "labels/" + strconv.FormatUint(hash, 36)
}

// forget removes the sets of labels that no node of the store has. A node that is on its way to the store keeps its set, and shares it
// no more.
func (n *Nodes) forget() {
	used := map[string]bool{}
	for _, object := range n.informer.GetStore().List() {
		if kept, ok := object.(*keptNode); ok {
			used[kept.set] = true
		}
	}
	for key := range n.shared {
		if !used[key] {
			delete(n.shared, key)
			n.budget.Set(key, 0)
		}
	}
}

func sameNode(before, after any) bool {
	was, ok := before.(*keptNode)
	is, also := after.(*keptNode)
	if !ok || !also || was.node == nil || is.node == nil || was.set != is.set {
		return false
	}
	return maps.Equal(was.node.Labels, is.node.Labels) && equality.Semantic.DeepEqual(was.node.Spec, is.node.Spec) && equality.Semantic.DeepEqual(was.node.Status, is.node.Status)
}

func (n *Nodes) change() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.changed = true
}

// Run watches until the context ends.
func (n *Nodes) Run(ctx context.Context) error {
	n.informer.RunWithContext(ctx)
	return nil
}

// Ready returns nil once the nodes have been read.
func (n *Nodes) Ready() error {
	if !n.informer.HasSynced() {
		return errors.New("the nodes have not been read yet")
	}
	return nil
}

// Snapshot returns the nodes, without pods, as they were a moment ago; nil if not all of them are known.
func (n *Nodes) Snapshot() *placement.Snapshot {
	if !n.informer.HasSynced() {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	if !n.changed && n.snapshot != nil || !n.built.IsZero() && now.Sub(n.built) < nodesAge {
		return n.snapshot
	}
	n.changed, n.built = false, now
	n.forget()
	n.snapshot = n.build()
	return n.snapshot
}

func (n *Nodes) build() *placement.Snapshot {
	list := n.informer.GetStore().List()
	kept := len(list)
	for _, object := range list {
		if k, ok := object.(*keptNode); !ok || k.node == nil {
			kept--
		}
	}
	exceeded := kept < len(list) || len(list) > placement.MaxNodes
	if exceeded && !n.exceeded {
		n.tooMany(len(list), kept)
	}
	if n.exceeded = exceeded; exceeded {
		return nil
	}
	cluster := &placement.Cluster{Nodes: make([]*corev1.Node, 0, len(list)), Shared: make(map[string]map[string]string, len(list)), Unknown: placement.Nothing()}
	for _, object := range list {
		kept := object.(*keptNode) //nolint:forcetypeassert // they were counted
		cluster.Nodes, cluster.Shared[kept.Name] = append(cluster.Nodes, kept.node), kept.shared
	}
	snapshot, err := placement.NewSnapshot(cluster)
	if err != nil {
		return nil
	}
	return snapshot
}
