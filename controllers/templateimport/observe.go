package templateimport

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/ovf/imports"
)

// observed is what exists of an import. Objects that do not exist are nil.
type observed struct {
	request  *v1beta1.VirtualMachineTemplateImport
	template *v1beta1.VirtualMachineTemplate
	pod      *corev1.Pod
	service  *corev1.Service
	// volumes are the DataVolumes of the disks in the status.
	volumes []*cdiv1beta1.DataVolume
	// leftovers are the DataVolumes with the label of the import. They are read if the import ended or is deleted.
	leftovers []metav1.PartialObjectMetadata
	// unguarded says why the import is not trusted; empty if it is.
	unguarded string
	// quota says why a ResourceQuota does not permit the volumes; empty if it does, or before it is read.
	quota string
	// read is what was read of the appliance; nil before it was.
	read *Read
	// claim is that of the source; nil for another source. forbidden tells that the process may not read it.
	claim     *corev1.PersistentVolumeClaim
	forbidden bool
	// copy is the volume with the copy of the file, as the status names it; nil if it does not exist, or is not needed.
	copy *cdiv1beta1.DataVolume
	// key is that of the pod of a claim, and full tells that there is no place for one. held tells that a result of a reading is kept.
	key        key
	full, held bool
	// unwatched: changes of the objects are not reported, so they are read at an interval.
	unwatched bool
	now       time.Time
}

// observe reads what the plan needs.
func (r *Reconciler) observe(ctx context.Context, request *v1beta1.VirtualMachineTemplateImport) (*observed, error) {
	o := &observed{request: request, now: r.Clock.Now()}
	var err error
	if o.template, err = requests.Read(ctx, r.Client, request.Namespace, imports.TemplateName(request), &v1beta1.VirtualMachineTemplate{}); err != nil {
		return nil, err
	}
	if requests.IsCompleted(request.Status.Conditions) {
		return o, nil
	}
	if err := r.observeCopy(ctx, o); err != nil {
		return nil, err
	}
	if o.pod, err = requests.Read(ctx, r.Client, request.Namespace, imports.Servers.PodName(request.UID), &corev1.Pod{}); err != nil {
		return nil, err
	}
	if requests.IsFailed(request.Status.Conditions) || request.DeletionTimestamp != nil {
		return o, r.observeLeftovers(ctx, o)
	}
	if o.unguarded, err = r.Guards.Missing(ctx, request); err != nil {
		return nil, err
	}
	if o.pod != nil {
		if o.service, err = requests.Read(ctx, r.Client, request.Namespace, imports.Servers.Name(o.suffix()), &corev1.Service{}); err != nil {
			return nil, err
		}
	}
	if err := r.observeClaim(ctx, o); err != nil {
		return nil, err
	}
	for i := range request.Status.Disks {
		volume, err := requests.Read(ctx, r.Client, request.Namespace, request.Status.Disks[i].Name, &cdiv1beta1.DataVolume{})
		if err != nil {
			return nil, err
		}
		o.volumes = append(o.volumes, volume)
	}
	return o, nil
}

// observeClaim reads the claim of the source, or what is known of that of a copy.
func (r *Reconciler) observeClaim(ctx context.Context, o *observed) (err error) {
	if !o.isClaim() && o.staging() == nil {
		return nil
	}
	var place bool
	o.key, place = r.keys.get(o.request.UID)
	o.full = !place
	task, known := r.readings.Get(string(o.request.UID))
	o.held = known && task.Ended && task.Err == nil
	if o.staging() != nil {
		o.claim = o.copied()
		return nil
	}
	o.claim, err = requests.Read(ctx, r.Client, o.request.Namespace, o.request.Spec.Source.PVC.Name, &corev1.PersistentVolumeClaim{})
	if o.forbidden = apierrors.IsForbidden(err); o.forbidden {
		o.claim, err = nil, nil
	}
	return err
}

// observeLeftovers lists the DataVolumes with the label of the import.
func (r *Reconciler) observeLeftovers(ctx context.Context, o *observed) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(cdiv1beta1.SchemeGroupVersion.WithKind("DataVolumeList"))
	err := r.Client.List(ctx, list, client.InNamespace(o.request.Namespace), client.MatchingLabels{v1beta1.LabelImportUID: string(o.request.UID)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("listing DataVolumes: %w", err)
	}
	for i := range list.Items {
		if o.owns(&list.Items[i]) && (o.copy == nil || o.copy.UID != list.Items[i].UID) {
			o.leftovers = append(o.leftovers, list.Items[i])
		}
	}
	return nil
}

// suffix is the end of the names of the objects of the pod.
func (o *observed) suffix() string {
	if o.pod == nil {
		return ""
	}
	return imports.Servers.Suffix(o.pod)
}

// isOwnPod reports whether the pod is of this import.
func (o *observed) isOwnPod() bool {
	return o.pod != nil && requests.IsController(o.pod, o.request.UID)
}

// isComplete reports whether the pod has all its objects. Its Service is the last one.
func (o *observed) isComplete() bool {
	return o.service != nil && requests.IsController(o.service, o.pod.UID)
}

// isMisled reports whether the Service of the pod leads elsewhere, so that CDI can have read the disks from another server.
func (o *observed) isMisled() bool {
	return o.isOwnPod() && o.isComplete() && !imports.Servers.Leads(o.service, o.pod)
}

// isOwnTemplate reports whether the template exists and is of this import.
func (o *observed) isOwnTemplate() bool {
	return o.template != nil && o.template.Labels[v1beta1.LabelImportUID] == string(o.request.UID)
}

// owns reports whether a DataVolume belongs to the import or to its template.
func (o *observed) owns(volume metav1.Object) bool {
	return volume.GetLabels()[v1beta1.LabelImportUID] == string(o.request.UID) && (requests.IsController(volume, o.request.UID) || o.isHandedOver(volume))
}

// isHandedOver reports whether a DataVolume belongs to the template.
func (o *observed) isHandedOver(volume metav1.Object) bool {
	return o.isOwnTemplate() && requests.IsController(volume, o.template.UID)
}

// areHandedOver reports whether the template owns all volumes.
func (o *observed) areHandedOver() bool {
	return o.isOwnTemplate() && !slices.ContainsFunc(o.leftovers, func(v metav1.PartialObjectMetadata) bool { return !o.isHandedOver(&v) }) &&
		!slices.ContainsFunc(o.volumes, func(v *cdiv1beta1.DataVolume) bool { return v == nil || !o.isHandedOver(v) })
}
