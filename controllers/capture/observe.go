package capture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/templates/capture"
)

// observed is what exists of a capture. Objects that do not exist are nil.
type observed struct {
	request  *v1beta1.VirtualMachineTemplateRequest
	template *v1beta1.VirtualMachineTemplate
	snapshot *snapshotv1beta1.VirtualMachineSnapshot
	content  *snapshotv1beta1.VirtualMachineSnapshotContent
	// volumes are those of the content, and clones the DataVolumes with their names.
	volumes []capture.Volume
	clones  []*cdiv1beta1.DataVolume
	// expanded is the spec of the VirtualMachine without references to instancetypes.
	expanded *kubevirtv1.VirtualMachineSpec
	// fault is why the content cannot become a template.
	fault *capture.Error
	// unguarded says why the request is not trusted; empty if it is.
	unguarded string
	// leftovers are the DataVolumes with the label of the request. They are read if the volumes are not known.
	leftovers []metav1.PartialObjectMetadata
	// unwatched: changes of the objects are not reported, so they are read at an interval.
	unwatched bool
	now       time.Time
}

// observe reads what the plan needs.
func (r *Reconciler) observe(ctx context.Context, request *v1beta1.VirtualMachineTemplateRequest) (*observed, error) {
	o := &observed{request: request, now: r.Clock.Now()}
	if invalid(request) != "" { // nothing was created for it, and its names cannot be read
		return o, nil
	}
	var err error
	if o.template, err = requests.Read(ctx, r.Client, request.Namespace, capture.TemplateName(request), &v1beta1.VirtualMachineTemplate{}); err != nil {
		return nil, err
	}
	if requests.IsCompleted(request.Status.Conditions) {
		return o, nil
	}
	if !requests.IsFailed(request.Status.Conditions) && request.DeletionTimestamp == nil {
		if o.unguarded, err = r.Guards.Missing(ctx, request); err != nil {
			return nil, err
		}
	}
	if o.snapshot, err = requests.Read(ctx, r.Client, request.Spec.VirtualMachineRef.Namespace, capture.SnapshotName(request), &snapshotv1beta1.VirtualMachineSnapshot{}); err != nil {
		return nil, err
	}
	if o.snapshot == nil || requests.IsFailed(request.Status.Conditions) || request.DeletionTimestamp != nil {
		return o, r.observeLeftovers(ctx, o)
	}
	return o, r.observeContent(ctx, o)
}

func (r *Reconciler) observeContent(ctx context.Context, o *observed) (err error) {
	name := contentName(o.snapshot)
	if name == "" || !o.isOwnSnapshot() {
		return nil
	}
	if o.content, err = requests.Read(ctx, r.Client, o.snapshot.Namespace, name, &snapshotv1beta1.VirtualMachineSnapshotContent{}); err != nil || !isReady(o.content) {
		return err
	}
	if o.volumes, err = capture.Volumes(o.content); errors.As(err, &o.fault) {
		return nil
	}
	complete := true
	for i := range o.volumes {
		clone, err := requests.Read(ctx, r.Client, o.request.Namespace, capture.CloneName(o.request, o.volumes[i].Name), &cdiv1beta1.DataVolume{})
		if err != nil {
			return err
		}
		complete = complete && clone != nil && clone.Status.Phase == cdiv1beta1.Succeeded
		o.clones = append(o.clones, clone)
	}
	if complete == (o.template != nil) && !slices.Contains(o.clones, nil) {
		return nil
	}
	o.expanded, err = r.expand(ctx, o)
	if errors.As(err, &o.fault) {
		return nil
	}
	return err
}

// expand returns the spec of the VirtualMachine for the template.
func (r *Reconciler) expand(ctx context.Context, o *observed) (*kubevirtv1.VirtualMachineSpec, error) {
	source := o.content.Spec.Source.VirtualMachine.DeepCopy()
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: source.ObjectMeta, Spec: source.Spec, Status: source.Status}
	vm.Namespace, vm.Name = o.request.Spec.VirtualMachineRef.Namespace, o.request.Spec.VirtualMachineRef.Name
	if o.request.Spec.InstancetypePolicy == v1beta1.InstancetypeKeep {
		return &vm.Spec, capture.KeepReferences(o.request, &vm.Spec)
	}
	return r.Expander.Expand(ctx, vm)
}

// observeLeftovers lists the DataVolumes with the label of the request.
func (r *Reconciler) observeLeftovers(ctx context.Context, o *observed) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(cdiv1beta1.SchemeGroupVersion.WithKind("DataVolumeList"))
	err := r.Client.List(ctx, list, client.InNamespace(o.request.Namespace), client.MatchingLabels{v1beta1.LabelRequestUID: string(o.request.UID)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("listing DataVolumes: %w", err)
	}
	for i := range list.Items {
		if o.owns(&list.Items[i]) {
			o.leftovers = append(o.leftovers, list.Items[i])
		}
	}
	return nil
}

func contentName(s *snapshotv1beta1.VirtualMachineSnapshot) string {
	if s.Status == nil || s.Status.VirtualMachineSnapshotContentName == nil {
		return ""
	}
	return *s.Status.VirtualMachineSnapshotContentName
}

func isReady(content *snapshotv1beta1.VirtualMachineSnapshotContent) bool {
	return content != nil && content.Status != nil && content.Status.ReadyToUse != nil && *content.Status.ReadyToUse
}

// isOwnSnapshot reports whether the snapshot is of this request.
func (o *observed) isOwnSnapshot() bool {
	s := o.snapshot
	return s.Labels[v1beta1.LabelRequestUID] == string(o.request.UID) &&
		s.Spec.Source.Kind == "VirtualMachine" && s.Spec.Source.Name == o.request.Spec.VirtualMachineRef.Name
}

// isOwnTemplate reports whether the template exists and is of this request.
func (o *observed) isOwnTemplate() bool {
	return o.template != nil && o.template.Labels[v1beta1.LabelRequestUID] == string(o.request.UID)
}

// owns reports whether a DataVolume belongs to the request or to its template.
func (o *observed) owns(clone metav1.Object) bool {
	return clone.GetLabels()[v1beta1.LabelRequestUID] == string(o.request.UID) && (requests.IsController(clone, o.request.UID) || o.isHandedOver(clone))
}

// isHandedOver reports whether a DataVolume belongs to the template.
func (o *observed) isHandedOver(clone metav1.Object) bool {
	return o.isOwnTemplate() && requests.IsController(clone, o.template.UID)
}

// isClone reports whether a DataVolume is of this request, and clones the snapshot's volume.
func (o *observed) isClone(clone *cdiv1beta1.DataVolume, v *capture.Volume) bool {
	if !o.owns(clone) || clone.Spec.Source == nil || clone.Spec.Source.Snapshot == nil {
		return false
	}
	source := clone.Spec.Source.Snapshot
	return source.Name == v.Snapshot && source.Namespace == o.request.Spec.VirtualMachineRef.Namespace
}

// isOwnedByTemplate reports whether the request has the template as its owner. This is written after all clones were
// handed over.
func (o *observed) isOwnedByTemplate() bool {
	return o.isOwnTemplate() && slices.ContainsFunc(o.request.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == o.template.UID })
}
