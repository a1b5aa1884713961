package why

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	v1 "kubevirt.io/api/core/v1"
	cdiv1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/claims"
	"github.com/virtward/virtward/manifests"
	"github.com/virtward/virtward/startup"
)

// Bounds of what is read about one virtual machine.
const (
	maxEvents = 500
	maxPods   = 100
)

var (
	podResource    = corev1.SchemeGroupVersion.WithResource("pods")
	eventResource  = corev1.SchemeGroupVersion.WithResource("events")
	claimResource  = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	volumeResource = cdiv1.SchemeGroupVersion.WithResource("datavolumes")
)

// history reads what the cluster says about a virtual machine. What the user may not read is added to the report.
func (p *placer) history(ctx context.Context, subject manifests.Document, r *Report) (*startup.Input, error) {
	h := &historyReader{placer: p, ctx: ctx, report: r, namespace: subject.Object.GetNamespace()}
	in := &startup.Input{}
	if subject.Object.GetKind() == apikinds.VirtualMachineInstance {
		in.VMI = &v1.VirtualMachineInstance{}
		if err := decode(subject.Object.Object, in.VMI); err != nil {
			return nil, err
		}
	} else {
		in.VM = &v1.VirtualMachine{}
		if err := decode(subject.Object.Object, in.VM); err != nil {
			return nil, err
		}
		in.VMI = get[v1.VirtualMachineInstance](h, apikinds.VirtualMachineInstances.GroupVersionResource(), subject.Object.GetName())
	}
	if in.VMI != nil {
		in.Pods = h.pods(in.VMI)
	}
	h.volumes(in)
	in.Events = h.events(in)
	return in, h.err
}

// historyReader reads objects of a namespace. The first error that is not about permissions ends it.
type historyReader struct {
	*placer
	ctx       context.Context
	report    *Report
	namespace string
	err       error
}

// forbidden notes what the user may not read.
func (h *historyReader) failed(verb string, resource schema.GroupVersionResource, err error) {
	switch {
	case apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err):
		if text := fmt.Sprintf("you may not %s %s of the namespace", verb, resource.GroupResource()); !slices.Contains(h.report.Unread, text) {
			h.report.Unread = append(h.report.Unread, text)
		}
	case h.err == nil:
		h.err = fmt.Errorf("reading %s: %w", resource.Resource, err)
	}
}

func decode(object map[string]any, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object, into)
}

// get reads an object; nil if there is none, or if it cannot be read.
func get[T any](h *historyReader, resource schema.GroupVersionResource, name string) *T {
	if h.err != nil {
		return nil
	}
	object, err := h.cluster.Client.Resource(resource).Namespace(h.namespace).Get(h.ctx, name, metav1.GetOptions{})
	one := new(T)
	if err == nil {
		err = decode(object.Object, one)
	}
	if err != nil {
		h.failed("get", resource, err)
		return nil
	}
	return one
}

func list[T any](h *historyReader, resource schema.GroupVersionResource, query metav1.ListOptions) []*T {
	if h.err != nil {
		return nil
	}
	found, err := h.cluster.Client.Resource(resource).Namespace(h.namespace).List(h.ctx, query)
	if err != nil {
		h.failed("list", resource, err)
		return nil
	}
	all := make([]*T, len(found.Items))
	for i := range found.Items {
		all[i] = new(T)
		if err := decode(found.Items[i].Object, all[i]); err != nil {
			h.failed("list", resource, err)
			return nil
		}
	}
	return all
}

// pods are the launchers of an instance, the newest first.
func (h *historyReader) pods(vmi *v1.VirtualMachineInstance) []*corev1.Pod {
	pods := list[corev1.Pod](h, podResource, metav1.ListOptions{LabelSelector: v1.CreatedByLabel + "=" + string(vmi.UID), Limit: maxPods})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// volumes reads the claims and the DataVolumes of a virtual machine.
func (h *historyReader) volumes(in *startup.Input) {
	var volumes []v1.Volume
	if in.VMI != nil {
		volumes = in.VMI.Spec.Volumes
	} else if in.VM != nil && in.VM.Spec.Template != nil {
		volumes = in.VM.Spec.Template.Spec.Volumes
	}
	for i := range volumes {
		if name := claims.OfVolume(&volumes[i]); name != "" {
			if claim := get[corev1.PersistentVolumeClaim](h, claimResource, name); claim != nil {
				in.Claims = append(in.Claims, claim)
			}
		}
		if dv := volumes[i].DataVolume; dv != nil {
			if found := get[cdiv1.DataVolume](h, volumeResource, dv.Name); found != nil {
				in.DataVolumes = append(in.DataVolumes, found)
			}
		}
	}
}

// events are those about the objects, the newest first.
func (h *historyReader) events(in *startup.Input) []*corev1.Event {
	var names []string
	if in.VM != nil {
		names = append(names, in.VM.Name)
	} else {
		names = append(names, in.VMI.Name)
	}
	for _, p := range in.Pods {
		names = append(names, p.Name)
	}
	for _, claim := range in.Claims {
		names = append(names, claim.Name)
	}
	var all []*corev1.Event
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		all = append(all, list[corev1.Event](h, eventResource, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name, Limit: maxEvents})...)
	}
	slices.SortStableFunc(all, func(a, b *corev1.Event) int { return lastSeen(b).Compare(lastSeen(a)) })
	return all
}

// lastSeen is when an event was seen last.
func lastSeen(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
