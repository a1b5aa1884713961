package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The bounds of a cluster. They exceed those that Kubernetes is tested with.
const (
	MaxNodes = 10_000
	MaxPods  = 200_000
)

// Cluster is what is known of a cluster. The objects can be trimmed: see TrimNode and TrimPod. They are not changed.
type Cluster struct {
	Nodes []*corev1.Node
	// Shared are labels of nodes beside their own, by the name of the node: nodes with the same labels can have one map. It is nil
	// for none. See SplitLabels.
	Shared map[string]map[string]string
	// Pods are those of all namespaces. Without them, nodes are empty.
	Pods []*corev1.Pod
	// Namespaces have labels that affinities select. A pod in a namespace that is not here has only that of the name.
	Namespaces []*corev1.Namespace
	Claims     []*corev1.PersistentVolumeClaim
	Volumes    []*corev1.PersistentVolume
	Classes    []*storagev1.StorageClass
	CSINodes   []*storagev1.CSINode
	// Drivers say whether their Capacities count, which are those of storage classes in parts of the cluster.
	Drivers    []*storagev1.CSIDriver
	Capacities []*storagev1.CSIStorageCapacity
	// DeviceClaims are ResourceClaims, whose allocations say where their devices are.
	DeviceClaims []*resourcev1.ResourceClaim
	// Networks are NetworkAttachmentDefinitions, of which only the metadata is read.
	Networks []*metav1.PartialObjectMetadata
	// RuntimeClasses change the pod, and Quotas, LimitRanges and PriorityClasses decide whether it is created.
	RuntimeClasses  []*nodev1.RuntimeClass
	Quotas          []*corev1.ResourceQuota
	LimitRanges     []*corev1.LimitRange
	PriorityClasses []*schedulingv1.PriorityClass
	// Unknown are the lists that were not read, such as Unknown{Pods: true}. What depends on them is not checked.
	Unknown Unknown
}

// Unknown says what was not read of a cluster. OtherNetworks are those of other namespaces than that of the pod.
type Unknown struct {
	Pods, Namespaces, Claims, Volumes, Classes, CSINodes, Capacities, DeviceClaims, Networks, OtherNetworks, RuntimeClasses, Quotas, LimitRanges, PriorityClasses bool
}

// Nothing is Unknown for a cluster of which only the nodes were read.
func Nothing() Unknown {
	return Unknown{
		Pods: true, Namespaces: true, Claims: true, Volumes: true, Classes: true, CSINodes: true, Capacities: true, DeviceClaims: true, Networks: true, RuntimeClasses: true, Quotas: true,
		LimitRanges: true, PriorityClasses: true,
	}
}

// TrimNode keeps what a placement reads of a node.
func TrimNode(n *corev1.Node) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, ResourceVersion: n.ResourceVersion},
		Spec:       corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable, Taints: n.Spec.Taints},
		Status:     corev1.NodeStatus{Allocatable: n.Status.Allocatable},
	}
}

// SplitLabels divides the labels of a node in those that many nodes have alike, which say what it supports, and its own, such as its
// name and its zone.
func SplitLabels(all map[string]string) (shared, own map[string]string) {
	shared, own = make(map[string]string, len(all)), map[string]string{}
	for key, value := range all {
		switch value {
		case "", "true", "false":
			shared[key] = value
		default:
			own[key] = value
		}
	}
	return shared, own
}

// TrimPod keeps what a placement reads of a pod. It returns nil for a pod without a node, or that has ended.
func TrimPod(p *corev1.Pod) *corev1.Pod {
	if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return nil
	}
	trimmed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, Labels: p.Labels, DeletionTimestamp: p.DeletionTimestamp, ResourceVersion: p.ResourceVersion,
		},
		Spec: corev1.PodSpec{
			NodeName: p.Spec.NodeName, Overhead: p.Spec.Overhead, Resources: p.Spec.Resources,
			Containers: trimContainers(p.Spec.Containers), InitContainers: trimContainers(p.Spec.InitContainers),
		},
		Status: corev1.PodStatus{Phase: p.Status.Phase, Resources: p.Status.Resources, AllocatedResources: p.Status.AllocatedResources},
	}
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		if s.AllocatedResources != nil || s.Resources != nil {
			trimmed.Status.ContainerStatuses = append(trimmed.Status.ContainerStatuses, corev1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources, Resources: s.Resources})
		}
	}
	for i := range p.Spec.Volumes {
		if claim := p.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
			trimmed.Spec.Volumes = append(trimmed.Spec.Volumes, corev1.Volume{Name: p.Spec.Volumes[i].Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
		}
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		trimmed.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		}}
	}
	return trimmed
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	trimmed := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		trimmed[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				trimmed[i].Ports = append(trimmed[i].Ports, port)
			}
		}
	}
	return trimmed
}

// amounts of resources: thousandths of CPUs, and whole units of all others.
type amounts map[corev1.ResourceName]int64

func amountsOf(list corev1.ResourceList) amounts {
	a := make(amounts, len(list))
	for name, quantity := range list {
		if name == corev1.ResourceCPU {
			a[name] = quantity.MilliValue()
		} else {
			a[name] = quantity.Value()
		}
	}
	return a
}

// node is a node of a snapshot.
type node struct {
	*corev1.Node
	// shared are labels beside those of the object.
	shared labels.Set
	index  int
	// allocatable are all amounts of the node, used those that its pods request, and left the difference.
	allocatable, used, left amounts
	pods                    []*pod
	csi                     *storagev1.CSINode
}

// label is the value of a label.
func (n *node) label(key string) (value string, has bool) {
	if value, has = n.Labels[key]; !has {
		value, has = n.shared[key]
	}
	return value, has
}

// The methods of labels.Labels.
func (n *node) Has(key string) bool              { _, has := n.label(key); return has }
func (n *node) Get(key string) string            { value, _ := n.label(key); return value }
func (n *node) Lookup(key string) (string, bool) { return n.label(key) }

// free is what is left of a resource.
func (n *node) free(name corev1.ResourceName) int64 { return n.left[name] }

// pod is a pod of a snapshot.
type pod struct {
	*corev1.Pod
	node *node
	// apart are the terms by which it keeps others from its topology.
	apart []podTerm
	ports []corev1.ContainerPort
}

// Snapshot is a cluster, prepared for any number of pods. It is safe for concurrent use.
type Snapshot struct {
	labels     labelled
	columns    columns
	hosts      hostModels
	tscs       tscs
	moves      moves
	cluster    *Cluster
	nodes      []node
	pods       []*pod
	apart      []*pod // those with terms
	namespaces map[string]labels.Set
	claims     map[string]*corev1.PersistentVolumeClaim // by NAMESPACE/NAME
	volumes    map[string]*corev1.PersistentVolume
	classes    map[string]*storagev1.StorageClass
	// deviceClaims are ResourceClaims, by NAMESPACE/NAME.
	deviceClaims map[string]*resourcev1.ResourceClaim
	users        map[string][]*pod // of claims, by NAMESPACE/NAME
}

// NewSnapshot prepares a cluster. The error names a bound that it exceeds.
func NewSnapshot(c *Cluster) (*Snapshot, error) {
	if len(c.Nodes) > MaxNodes {
		return nil, fmt.Errorf("the cluster has %d nodes, at most %d are checked", len(c.Nodes), MaxNodes)
	}
	if len(c.Pods) > MaxPods {
		return nil, fmt.Errorf("the cluster has %d pods, at most %d are checked", len(c.Pods), MaxPods)
	}
	s := &Snapshot{
		labels: labelled{all: map[label]bits{}}, columns: columns{all: map[corev1.ResourceName][]int64{}}, cluster: c, nodes: make([]node, len(c.Nodes)), namespaces: make(map[string]labels.Set, len(c.Namespaces)), claims: make(map[string]*corev1.PersistentVolumeClaim, len(c.Claims)),
		volumes: make(map[string]*corev1.PersistentVolume, len(c.Volumes)), classes: make(map[string]*storagev1.StorageClass, len(c.Classes)), users: map[string][]*pod{}, deviceClaims: make(map[string]*resourcev1.ResourceClaim, len(c.DeviceClaims)),
	}
	for i, n := range slices.SortedFunc(slices.Values(c.Nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) }) {
		s.nodes[i] = node{Node: n, shared: c.Shared[n.Name], index: i, allocatable: amountsOf(n.Status.Allocatable)}
		s.nodes[i].left = s.nodes[i].allocatable // until a pod runs there
	}
	for _, n := range c.Namespaces {
		s.namespaces[n.Name] = n.Labels
	}
	for _, claim := range c.Claims {
		s.claims[claim.Namespace+"/"+claim.Name] = claim
	}
	for _, volume := range c.Volumes {
		s.volumes[volume.Name] = volume
	}
	for _, class := range c.Classes {
		s.classes[class.Name] = class
	}
	for _, claim := range c.DeviceClaims {
		s.deviceClaims[claim.Namespace+"/"+claim.Name] = claim
	}
	for _, csi := range c.CSINodes {
		if n := s.find(csi.Name); n != nil {
			n.csi = csi
		}
	}
	for _, p := range c.Pods {
		s.add(p)
	}
	return s, nil
}

// find returns a node by its name; nil if there is none.
func (s *Snapshot) find(name string) *node {
	i, found := slices.BinarySearchFunc(s.nodes, name, func(n node, name string) int { return strings.Compare(n.Name, name) })
	if !found {
		return nil
	}
	return &s.nodes[i]
}

// add adds a pod to its node.
func (s *Snapshot) add(p *corev1.Pod) {
	n := s.find(p.Spec.NodeName)
	if n == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	added := &pod{Pod: p, node: n, ports: hostPorts(p)}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for i := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			added.apart = append(added.apart, termOf(&a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i], p))
		}
	}
	if n.used == nil {
		n.used, n.left = amounts{}, maps.Clone(n.allocatable)
	}
	s.pods, n.pods = append(s.pods, added), append(n.pods, added)
	if len(added.apart) > 0 {
		s.apart = append(s.apart, added)
	}
	for _, claim := range claimsOf(p) {
		key := p.Namespace + "/" + claim
		s.users[key] = append(s.users[key], added)
	}
	for name, amount := range requestsOf(p) {
		n.used[name] += amount
		n.left[name] -= amount
	}
	n.used[corev1.ResourcePods]++
	n.left[corev1.ResourcePods]--
}

// namespaceLabels are those of a namespace. The API server sets the label with the name.
func (s *Snapshot) namespaceLabels(name string) labels.Set {
	if known, ok := s.namespaces[name]; ok {
		return known
	}
	return labels.Set{corev1.LabelMetadataName: name}
}

// claimsOf are the names of the claims that a pod mounts.
func claimsOf(p *corev1.Pod) []string {
	var names []string
	for i := range p.Spec.Volumes {
		switch v := &p.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			names = append(names, p.Name+"-"+v.Name)
		}
	}
	return names
}

// NodeLabels are the labels of a node; none if there is no such node. Do not change them.
func (s *Snapshot) NodeLabels(name string) map[string]string {
	n := s.find(name)
	if n == nil {
		return nil
	}
	if len(n.shared) == 0 {
		return n.Labels
	}
	return labels.Merge(n.shared, n.Labels)
}

// Without is the snapshot of a cluster without a node: its pods are gone, and nothing can run there.
func (c *Cluster) Without(node string) *Cluster {
	rest := *c
	rest.Nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n *corev1.Node) bool { return n.Name == node })
	rest.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p *corev1.Pod) bool { return p.Spec.NodeName == node })
	return &rest
}

// Add adds a pod to its node, as if it ran there. It must not be called while others use the snapshot.
func (s *Snapshot) Add(p *corev1.Pod) {
	s.add(p)
	clear(s.columns.all)
	clear(s.moves.all)
}
