// Package cdi stores VirtualImages in the cluster: CDI imports each into a DataVolume of its namespace, and a DataSource with
// the name of the image refers to it, so that virtual machines clone it.
//
// What enters: images, and the objects of CDI. What leaves: DataVolumes and DataSources, owned by their VirtualImage. Before
// CDI imports a file, the package reads its first bytes, and rejects a file that is not what the image states.
package cdi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/requests"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/virtualimages"
)

// Owner is the field manager of the writes.
const Owner = "virtward-virtualimages"

// Options are those of a backend.
type Options struct {
	// Client reads without a cache, and writes.
	Client client.Client
	// Source returns a client for the source of an image, with its credentials and authorities. It returns no client if the
	// credentials cannot be read here: then only CDI reads the source.
	Source func(ctx context.Context, image *backend.Image) (*web.Client, error)
	// File, if it is not nil, reads the header of an image instead of Source.
	File func(ctx context.Context, image *backend.Image) (*web.File, error)
	// Checksums reports whether CDI checks checksums.
	Checksums func(ctx context.Context) (bool, error)
	// Probes reads the headers of sources.
	Probes *transfers.Pool[Probe]
	// Timeout bounds an import.
	Timeout time.Duration
	Clock   clock.PassiveClock
	// Changed is called when an image should be observed again.
	Changed func(namespace, name string)
	// Imports bounds the DataVolumes that are being imported, and their bytes. It reports whether one more may begin, and
	// otherwise the reason and what it waits for.
	Imports func(ctx context.Context, image *backend.Image, bytes int64) (begins bool, reason, message string, err error)
}

// Backend implements backend.Backend. Create it with New.
type Backend struct{ Options }

// New returns a backend.
func New(options Options) *Backend { return &Backend{Options: options} }

var _ backend.Backend = (*Backend)(nil)

// objects are those of an image. The claim is read when the volume is complete; CDI can have made a snapshot of it.
type objects struct {
	volume *cdiv1beta1.DataVolume
	source *cdiv1beta1.DataSource
	claim  *corev1.PersistentVolumeClaim
}

func (b *Backend) read(ctx context.Context, image *backend.Image) (o *objects, err error) {
	o = &objects{}
	name := virtualimages.VolumeName(image.Name, image.UID)
	if o.volume, err = requests.Read(ctx, b.Client, image.Namespace, name, &cdiv1beta1.DataVolume{}); err != nil {
		return nil, err //nolint:wrapcheck // it says what was read
	}
	if o.source, err = requests.Read(ctx, b.Client, image.Namespace, image.Name, &cdiv1beta1.DataSource{}); err != nil {
		return nil, err //nolint:wrapcheck // as above
	}
	if o.volume != nil && o.volume.Status.Phase == cdiv1beta1.Succeeded {
		o.claim, err = requests.Read(ctx, b.Client, image.Namespace, name, &corev1.PersistentVolumeClaim{})
	}
	return o, err //nolint:wrapcheck // as above
}

// owns reports whether an object is of an image.
func owns(image *backend.Image, object client.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.UID == image.UID
}

// taken names an object of others that has one of the names; empty without one.
func (o *objects) taken(image *backend.Image) string {
	switch {
	case o.volume != nil && !owns(image, o.volume):
		return fmt.Sprintf("DataVolume %s exists, and is not of this image", o.volume.Name)
	case o.source != nil && !owns(image, o.source):
		return fmt.Sprintf("DataSource %s exists, and is not of this image: use another name", o.source.Name)
	}
	return ""
}

// Observe implements backend.Backend.
func (b *Backend) Observe(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	o, err := b.read(ctx, image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	return b.observed(image, o), nil
}

func (b *Backend) observed(image *backend.Image, o *objects) virtualimages.Observation {
	if message := o.taken(image); message != "" {
		return virtualimages.Observation{State: virtualimages.Taken, Message: message}
	}
	if o.volume == nil {
		return b.probed(image)
	}
	found := state(o.volume, b.Clock.Now(), b.Timeout)
	if found.State != virtualimages.Ready {
		return found
	}
	if o.claim != nil && !requests.IsCreatedFor(o.claim, o.volume) {
		return foreign(&found, "PersistentVolumeClaim "+requests.Named(o.claim)+" exists, and CDI did not create it for this image")
	}
	found.SizeBytes = cmp.Or(capacity(o.claim), found.SizeBytes)
	if o.source == nil || o.source.DeletionTimestamp != nil {
		found.State, found.Message = virtualimages.Importing, "the DataSource is created"
	}
	return found
}

// capacity is that of a claim in bytes; 0 if it is not known.
func capacity(claim *corev1.PersistentVolumeClaim) int64 {
	if claim == nil {
		return 0
	}
	size := claim.Status.Capacity[corev1.ResourceStorage]
	return size.Value()
}

// Ensure implements backend.Backend.
func (b *Backend) Ensure(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	o, err := b.read(ctx, image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	found := b.observed(image, o)
	switch {
	case o.volume == nil && (found.State == virtualimages.Absent || found.State == virtualimages.Waiting):
		return b.begin(ctx, image)
	case found.State == virtualimages.Importing && o.source == nil && o.volume.Status.Phase == cdiv1beta1.Succeeded:
		return found, b.create(ctx, image, dataSource(image))
	}
	return found, nil
}

// begin checks the image and its source, and creates the DataVolume.
func (b *Backend) begin(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	fault, err := b.unsupported(ctx, image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	if fault != nil {
		return *fault, nil
	}
	task := transfers.Task[Probe]{Ended: true} // nothing is known of a file that is not uploaded yet
	if image.Spec.Upload == nil {
		if task, err = b.probe(ctx, image); err != nil {
			return virtualimages.Observation{}, err
		}
	}
	if !task.Ended || task.Err != nil {
		return b.waiting(image, &task), nil //nolint:nilerr // the observation has it
	}
	size, fault := volumeSize(&image.Spec, &task.Result)
	if fault != nil {
		b.Probes.Forget(image.ID)
		return *fault, nil
	}
	begins, reason, message, err := b.Imports(ctx, image, size)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	if !begins {
		return virtualimages.Observation{State: virtualimages.Waiting, Reason: reason, Message: message}, nil
	}
	b.Probes.Forget(image.ID)
	begun := virtualimages.Observation{State: virtualimages.Importing, Message: "CDI imports the image"}
	if image.Spec.Upload != nil {
		begun.Reason, begun.Message = virtualimages.ReasonPending, "CDI prepares the volume for the upload"
	}
	return begun, b.create(ctx, image, dataVolume(image, size))
}

func (b *Backend) create(ctx context.Context, image *backend.Image, object client.Object) error {
	err := b.Client.Create(ctx, object, client.FieldOwner(Owner))
	if apierrors.IsAlreadyExists(err) { // the next observation names it
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating %T %s: %w", object, image.Name, err)
	}
	return nil
}

// Delete implements backend.Backend.
func (b *Backend) Delete(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	if !b.Probes.Forget(image.ID) {
		return virtualimages.Observation{State: virtualimages.Waiting, Message: "the check of the source ends"}, nil
	}
	o, err := b.read(ctx, image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	var errs []error
	left := false
	if o.source != nil && owns(image, o.source) {
		left, errs = true, append(errs, b.remove(ctx, o.source))
	}
	if o.volume != nil && owns(image, o.volume) {
		left, errs = true, append(errs, b.remove(ctx, o.volume))
	}
	if left {
		return virtualimages.Observation{State: virtualimages.Importing, Message: "the DataVolume is deleted"}, errors.Join(errs...)
	}
	return virtualimages.Observation{State: virtualimages.Absent}, nil
}

// remove deletes an object as it was read.
func (b *Backend) remove(ctx context.Context, object client.Object) error {
	if object.GetDeletionTimestamp() != nil {
		return nil
	}
	if err := b.Client.Delete(ctx, object, requests.Deletion(object)...); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %T %s: %w", object, object.GetName(), err)
	}
	return nil
}

// unsupported says why CDI cannot import an image; nil if it can.
func (b *Backend) unsupported(ctx context.Context, image *backend.Image) (*virtualimages.Observation, error) {
	failed := func(message string) *virtualimages.Observation {
		return &virtualimages.Observation{State: virtualimages.Failed, Permanent: true, Reason: ReasonUnsupported, Message: message}
	}
	switch spec := &image.Spec; {
	case virtualimages.Packed(spec.Format):
		return failed(fmt.Sprintf("the format %s has no disk that virtual machines of this cluster can boot: use a class of OpenStack", spec.Format)), nil
	case spec.ContainerFormat != v1alpha1.ContainerBare && spec.ContainerFormat != "":
		return failed(fmt.Sprintf("CDI imports no container of the format %s: use bare", spec.ContainerFormat)), nil
	case spec.ClusterCopy == v1alpha1.ClusterCopyNever:
		return failed("the class stores images in the cluster: remove spec.clusterCopy, or use a class of OpenStack"), nil
	case spec.Checksum == "":
		return nil, nil //nolint:nilnil // there is no fault
	}
	checks, err := b.Checksums(ctx)
	if err != nil || checks {
		return nil, err
	}
	return failed("this version of CDI checks no checksums: remove spec.checksum, or update CDI"), nil
}
