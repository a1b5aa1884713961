package templateexport

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"

	"github.com/virtward/virtward/api/apikinds"
	"github.com/virtward/virtward/api/template/v1beta1"
	"github.com/virtward/virtward/controllers/diskservers"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/exportserver"
	"github.com/virtward/virtward/exportserver/exports"
)

// maxFollowed bounds the DataSources from one to what it refers to.
const maxFollowed = 4

// observed is what exists of an export. Objects that do not exist are nil.
type observed struct {
	request *v1beta1.VirtualMachineTemplateExport
	pod     *corev1.Pod
	service *corev1.Service
	// volumes are the DataVolumes of the disks in the status, and claims what they have made. They are not read while there is a pod, unless
	// the export has failed.
	volumes []*cdiv1beta1.DataVolume
	claims  []*corev1.PersistentVolumeClaim
	// unguarded says why the export is not trusted; empty if it is.
	unguarded string
	// template is nil if it does not exist, or before it is needed.
	template *v1beta1.VirtualMachineTemplate
	// outcome is what the template needs; nil before it is needed.
	outcome *exports.Outcome
	// server is the status of the pod; nil if it did not answer.
	server *exportserver.Status
	// silence is why the pod did not answer.
	silence error
	// unwatched: changes of the objects are not reported, so they are read at an interval.
	unwatched bool
	now       time.Time
}

// observe reads what the plan needs.
func (r *Reconciler) observe(ctx context.Context, request *v1beta1.VirtualMachineTemplateExport) (*observed, error) {
	o := &observed{request: request, now: r.Clock.Now()}
	var err error
	if o.pod, err = requests.Read(ctx, r.Client, request.Namespace, exports.Servers.PodName(request.UID), &corev1.Pod{}); err != nil {
		return nil, err
	}
	if isFailed(request) || request.DeletionTimestamp != nil { // what is deleted needs no guard
		return o, r.observeVolumes(ctx, o)
	}
	if err := r.observeGuards(ctx, o); err != nil {
		return nil, err
	}
	if request.Status.FileName == "" || o.pod == nil {
		if err := r.evaluate(ctx, o); err != nil {
			return nil, err
		}
	}
	if o.pod == nil {
		if err := r.observeVolumes(ctx, o); err != nil {
			return nil, err
		}
		return o, r.observeClaims(ctx, o)
	}
	if o.service, err = requests.Read(ctx, r.Client, request.Namespace, exports.Servers.Name(exports.Servers.Suffix(o.pod)), &corev1.Service{}); err != nil {
		return nil, err
	}
	if o.isOwnPod() && o.isComplete() && !o.isMisled() && diskservers.Listens(o.pod) {
		o.server, o.silence = r.Prober.Status(ctx, o.pod, request.Status.Links.Internal)
	}
	return o, nil
}

// observeGuards reads whether the export is trusted.
func (r *Reconciler) observeGuards(ctx context.Context, o *observed) (err error) {
	if o.unguarded, err = r.Guards.Missing(ctx, o.request); err != nil || o.unguarded != "" {
		return err
	}
	if o.pod == nil { // a pod has the clones already: an upgrade that adds a guard does not end it
		o.unguarded, err = r.CloneGuards.Missing(ctx, o.request)
	}
	return err
}

// observeVolumes reads the clones.
func (r *Reconciler) observeVolumes(ctx context.Context, o *observed) error {
	for i := range o.request.Status.Disks {
		volume, err := requests.Read(ctx, r.Client, o.request.Namespace, o.request.Status.Disks[i].Name, &cdiv1beta1.DataVolume{})
		if err != nil {
			return err //nolint:wrapcheck // it says what was read
		}
		o.volumes = append(o.volumes, volume)
	}
	return nil
}

// evaluate reads the template, and finds where the content of its volumes is.
func (r *Reconciler) evaluate(ctx context.Context, o *observed) error {
	template, err := requests.Read(ctx, r.Client, o.request.Namespace, o.request.Spec.TemplateRef.Name, &v1beta1.VirtualMachineTemplate{})
	if err != nil || template == nil {
		return err
	}
	o.template, o.outcome = template, exports.Evaluate(o.request, template)
	for i := range o.outcome.Volumes {
		for range maxFollowed {
			if o.outcome.Fault != nil || o.outcome.Volumes[i].Source.Kind != apikinds.DataSource {
				break
			}
			if err := r.follow(ctx, o, &o.outcome.Volumes[i]); err != nil {
				return err
			}
		}
		if v := &o.outcome.Volumes[i]; o.outcome.Fault == nil && v.Source.Kind == apikinds.DataSource {
			o.outcome.Fault = &exports.Fault{Reason: v1beta1.ReasonNotExportable, Message: fmt.Sprintf("the volume %s: more than %d DataSources refer to each other", v.Name, maxFollowed)}
		}
	}
	return nil
}

// follow replaces a DataSource by what it refers to, or notes why it cannot.
func (r *Reconciler) follow(ctx context.Context, o *observed, v *exports.Volume) error {
	source, err := requests.Read(ctx, r.Client, v.Source.Namespace, v.Source.Name, &cdiv1beta1.DataSource{})
	if err != nil {
		return err //nolint:wrapcheck // it says what was read
	}
	if source == nil {
		o.outcome.Fault = &exports.Fault{Reason: v1beta1.ReasonNotExportable, Message: fmt.Sprintf("the volume %s: the DataSource %s/%s does not exist", v.Name, v.Source.Namespace, v.Source.Name)}
		return nil
	}
	next, fault := exports.Follow(source)
	if o.outcome.Fault = fault; next != nil {
		v.Source, o.outcome.Fault = *next, exports.Permitted(o.request, next, v.Name)
	}
	return nil
}

// observeClaims reads the claims of complete clones.
func (r *Reconciler) observeClaims(ctx context.Context, o *observed) error {
	for _, volume := range o.volumes {
		if volume == nil || volume.Status.Phase != cdiv1beta1.Succeeded {
			o.claims = nil
			return nil
		}
		claim, err := requests.Read(ctx, r.Client, volume.Namespace, volume.Name, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return err //nolint:wrapcheck // it says what was read
		}
		if claim == nil {
			o.claims = nil
			return nil
		}
		o.claims = append(o.claims, claim)
	}
	return nil
}

// foreign is a claim that CDI did not create for the clone with its name; nil for none. CDI takes a claim with an annotation of its user for a
// complete clone.
func (o *observed) foreign() *corev1.PersistentVolumeClaim {
	for i, claim := range o.claims {
		if !requests.IsCreatedFor(claim, o.volumes[i]) || requests.HasAdopted(o.volumes[i]) {
			return claim
		}
	}
	return nil
}

// isOwnPod reports whether the pod is of this export.
func (o *observed) isOwnPod() bool { return requests.IsController(o.pod, o.request.UID) }

// owns reports whether a DataVolume is a clone of this export. Users can set an owner, and only the controller the label.
func (o *observed) owns(volume *cdiv1beta1.DataVolume) bool {
	return volume.Labels[v1beta1.LabelExportUID] == string(o.request.UID) && requests.IsController(volume, o.request.UID)
}

// isMisled reports whether the Service of the pod leads elsewhere, so that clients can have downloaded from another server.
func (o *observed) isMisled() bool {
	return o.isComplete() && !exports.Servers.Leads(o.service, o.pod)
}

// isComplete reports whether the pod has all its objects, and the status its link.
func (o *observed) isComplete() bool {
	return o.service != nil && requests.IsController(o.service, o.pod.UID) && o.request.Status.Links != nil && o.request.Status.Links.Internal != nil &&
		o.request.Status.TokenSecretRef == exports.Servers.TokenName(exports.Servers.Suffix(o.pod))
}
