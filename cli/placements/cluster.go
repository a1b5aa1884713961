package placements

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/virtward/virtward/evaluator/offline"
	"github.com/virtward/virtward/placement"
)

// maxObjects bounds the other lists than those of nodes and pods.
const maxObjects = 50_000

// Resources that are read.
var (
	nodes           = corev1.SchemeGroupVersion.WithResource("nodes")
	pods            = corev1.SchemeGroupVersion.WithResource("pods")
	namespaces      = corev1.SchemeGroupVersion.WithResource("namespaces")
	claims          = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	volumes         = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	quotas          = corev1.SchemeGroupVersion.WithResource("resourcequotas")
	limitRanges     = corev1.SchemeGroupVersion.WithResource("limitranges")
	classes         = storagev1.SchemeGroupVersion.WithResource("storageclasses")
	csiNodes        = storagev1.SchemeGroupVersion.WithResource("csinodes")
	drivers         = storagev1.SchemeGroupVersion.WithResource("csidrivers")
	capacities      = storagev1.SchemeGroupVersion.WithResource("csistoragecapacities")
	priorityClasses = schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")
	runtimeClasses  = nodev1.SchemeGroupVersion.WithResource("runtimeclasses")
	deviceClaims    = resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	networks        = schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}
)

// Found is what was read.
type Found struct {
	placement.Cluster
	// Unread name what the user may not read, and what is assumed instead.
	Unread []string
}

// Read reads a cluster. The namespace is that of the virtual machine; an empty one reads claims, quotas and limit ranges of all
// namespaces. What the user may not read is a note, except nodes.
func Read(ctx context.Context, client dynamic.Interface, namespace string) (*Found, error) {
	r := &reader{ctx: ctx, client: client, found: &Found{}}
	c, unknown := &r.found.Cluster, &r.found.Unknown
	err := offline.List(ctx, client, nodes, "", "", placement.MaxNodes, func(n *corev1.Node) { c.Nodes = append(c.Nodes, placement.TrimNode(n)) })
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w: use --nodes FILE with the output of kubectl get nodes -o yaml, or ask a user who may list them", err)
	}
	unknown.Pods = read(r, pods, "", placement.MaxPods, "nodes count as empty", func(p *corev1.Pod) {
		if trimmed := placement.TrimPod(p); trimmed != nil {
			c.Pods = append(c.Pods, trimmed)
		}
	})
	r.namespace(namespace)
	unknown.Volumes = read(r, volumes, "", maxObjects, "nodes can mount all volumes", keep(&c.Volumes))
	unknown.Classes = read(r, classes, "", maxObjects, "claims without a volume are not checked", keep(&c.Classes))
	unknown.CSINodes = read(r, csiNodes, "", placement.MaxNodes, "nodes can attach any number of volumes", keep(&c.CSINodes))
	noDrivers := read(r, drivers, "", maxObjects, "storage classes have room for new volumes", keep(&c.Drivers))
	unknown.Capacities = read(r, capacities, "", maxObjects, "storage classes have room for new volumes", keep(&c.Capacities)) || noDrivers
	unknown.RuntimeClasses = read(r, runtimeClasses, "", maxObjects, "runtime classes are not checked", keep(&c.RuntimeClasses))
	unknown.LimitRanges = read(r, limitRanges, namespace, maxObjects, "limit ranges are not checked", keep(&c.LimitRanges))
	unknown.PriorityClasses = read(r, priorityClasses, "", maxObjects, "priority classes are not checked", keep(&c.PriorityClasses))
	return r.found, r.err
}

// ReadNamespace reads what the pod of a virtual machine depends on in its namespace: claims, also those of devices, quotas, labels and
// networks. What the user may not read is a note.
func ReadNamespace(ctx context.Context, client dynamic.Interface, namespace string) (*Found, error) {
	r := &reader{ctx: ctx, client: client, found: &Found{Cluster: placement.Cluster{Unknown: placement.Nothing()}}}
	r.namespace(namespace)
	return r.found, r.err
}

// namespace reads what the pod of a virtual machine depends on.
func (r *reader) namespace(name string) {
	c, unknown := &r.found.Cluster, &r.found.Unknown
	unknown.Namespaces = r.namespaces(name)
	unknown.Claims = read(r, claims, name, maxObjects, "claims are not checked", keep(&c.Claims))
	unknown.Quotas = read(r, quotas, name, maxObjects, "quotas are not checked", keep(&c.Quotas))
	unknown.DeviceClaims = r.deviceClaims(name)
	unknown.Networks, unknown.OtherNetworks = r.networks(name)
}

// networks reads NetworkAttachmentDefinitions. Virtual machines can name those of all namespaces; without permission to list them
// all, those of the namespace are read. A cluster without the kind has none.
func (r *reader) networks(name string) (unknown, others bool) {
	each := keep(&r.found.Networks)
	if r.err == nil {
		switch err := offline.List(r.ctx, r.client, networks, "", "", maxObjects, each); {
		case apierrors.IsNotFound(err):
			return false, false
		case apierrors.IsForbidden(err) && name != "":
			return read(r, networks, name, maxObjects, "networks are not checked", each), true
		case err == nil:
			return false, false
		}
	}
	return read(r, networks, "", maxObjects, "networks are not checked", each), false
}

// deviceClaims reads ResourceClaims. Few virtual machines have them: a user who may not list them, or a cluster without the kind, is no
// note. The claims of a virtual machine are named as not checked then.
func (r *reader) deviceClaims(namespace string) (unknown bool) {
	if r.err != nil {
		return true
	}
	err := offline.List(r.ctx, r.client, deviceClaims, namespace, "", maxObjects, keep(&r.found.DeviceClaims))
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		r.err = fmt.Errorf("listing %s: %w", deviceClaims.Resource, err)
	}
	return err != nil
}

// reader reads lists. The first error that is not about permissions ends it.
type reader struct {
	ctx    context.Context
	client dynamic.Interface
	found  *Found
	err    error
}

// namespaces reads the labels of all namespaces, or at least those of the one.
func (r *reader) namespaces(name string) (unknown bool) {
	unknown = read(r, namespaces, "", maxObjects, "affinities know only the names of namespaces", keep(&r.found.Namespaces))
	if !unknown || name == "" || r.err != nil {
		return unknown
	}
	one, err := r.client.Resource(namespaces).Get(r.ctx, name, metav1.GetOptions{})
	if err == nil {
		typed := &corev1.Namespace{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(one.Object, typed) == nil {
			r.found.Namespaces = []*corev1.Namespace{typed}
		}
	}
	return unknown
}

func keep[T any](into *[]*T) func(*T) {
	return func(one *T) { *into = append(*into, one) }
}

// read reads a list, and reports whether the user may not. The text says what is assumed then.
func read[T any](r *reader, resource schema.GroupVersionResource, namespace string, limit int, assumed string, each func(*T)) (unknown bool) {
	if r.err != nil {
		return true
	}
	err := offline.List(r.ctx, r.client, resource, namespace, "", limit, each)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		r.found.Unread = append(r.found.Unread, fmt.Sprintf("you may not list %s: %s", resource.GroupResource(), assumed))
		return true
	case err != nil:
		r.err = fmt.Errorf("listing %s: %w", resource.Resource, err)
		return true
	}
	return false
}
