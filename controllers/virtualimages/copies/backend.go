package copies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	cdiv1beta1 "kubevirt.io/containerized-data-importer-api/pkg/apis/core/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/virtualimages"
)

// The reasons of faults.
const (
	ReasonUnsupported = "Unsupported"
	ReasonDisabled    = "ClusterCopyDisabled"
)

// The keys of the Secret, as CDI has them, and of the ConfigMap.
const (
	keyUser        = "accessKeyId"
	keyPassword    = "secretKey"
	keyAuthorities = "ca.crt"
)

// Options are those of a Backend.
type Options struct {
	// Store stores the images.
	Store Store
	// Volumes makes DataVolumes and DataSources from a URL; nil if copies are disabled.
	Volumes backend.Backend
	// Always is the choice for images that make none.
	Always bool
	// Client reads DataVolumes, and creates Secrets and ConfigMaps.
	Client client.Client
	// URL is that of the Server, without a path. Authorities returns the certificates that sign its certificate.
	URL         string
	Authorities func() ([]byte, error)
	Keys        *Keys
	// Lifetime is that of tokens: longer than an import.
	Lifetime time.Duration
	// Owner is the field manager of the writes.
	Owner string
	Clock clock.PassiveClock
}

// Backend is a store whose images are copied into the cluster. Create it with New.
type Backend struct{ Options }

var (
	_ backend.Backend = (*Backend)(nil)
	_ backend.Lister  = (*Backend)(nil)
)

// New returns a Backend.
func New(options Options) *Backend { return &Backend{Options: options} }

// wanted reports whether an image is copied.
func (b *Backend) wanted(image *backend.Image) bool {
	if image.Spec.ClusterCopy == "" {
		return b.Always && b.Volumes != nil
	}
	return image.Spec.ClusterCopy == v1alpha1.ClusterCopyAlways
}

// fault says why an image cannot be copied, before it is stored; nil if it can be.
func (b *Backend) fault(image *backend.Image) *virtualimages.Observation {
	failed := &virtualimages.Observation{State: virtualimages.Failed, Permanent: true, Reason: ReasonUnsupported}
	switch spec := &image.Spec; {
	case b.Volumes == nil:
		failed.Reason, failed.Message = ReasonDisabled, "clusterCopy is Always, and copies are disabled: an admin enables virtualImages.copies"
	case virtualimages.Packed(spec.Format):
		failed.Message = fmt.Sprintf("virtual machines of this cluster cannot boot the format %s: set clusterCopy to Never", spec.Format)
	case spec.ContainerFormat != v1alpha1.ContainerBare && spec.ContainerFormat != "":
		failed.Message = fmt.Sprintf("CDI imports no container of the format %s: set clusterCopy to Never", spec.ContainerFormat)
	default:
		return nil
	}
	return failed
}

// Ensure implements backend.Backend.
func (b *Backend) Ensure(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	if b.wanted(image) {
		if fault := b.fault(image); fault != nil {
			return *fault, nil
		}
	}
	stored, err := b.Store.Ensure(ctx, image)
	if err != nil || stored.State != virtualimages.Ready || !b.wanted(image) {
		return stored, err //nolint:wrapcheck // the contract is the same
	}
	source, err := b.sourceOf(image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	volume, err := b.volume(ctx, image)
	switch {
	case err != nil:
		return virtualimages.Observation{}, err
	case volume == nil:
		err = b.credentials(ctx, image, source)
	case stale(volume, source):
		o, err := b.Volumes.Delete(ctx, source)
		return combined(&stored, &o), err //nolint:wrapcheck // as above
	}
	if err != nil {
		return virtualimages.Observation{}, err
	}
	copied, err := b.Volumes.Ensure(ctx, source)
	return combined(&stored, &copied), err //nolint:wrapcheck // as above
}

// Observe implements backend.Backend.
func (b *Backend) Observe(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	stored, err := b.Store.Observe(ctx, image)
	if err != nil || !b.wanted(image) || b.Volumes == nil {
		return stored, err //nolint:wrapcheck // the contract is the same
	}
	absent := stored.State == virtualimages.Absent || stored.State == virtualimages.Spent
	if stored.State != virtualimages.Ready && !absent {
		return stored, nil
	}
	source, err := b.sourceOf(image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	volume, err := b.volume(ctx, image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	if absent {
		if stored.Left = volume != nil; stored.Left && !stale(volume, source) {
			stored.Message = "the image was deleted where it is stored, and only its copy in the cluster is left: delete the VirtualImage and create it again"
		}
		return stored, nil
	}
	copied := virtualimages.Observation{State: virtualimages.Absent}
	if volume == nil || !stale(volume, source) {
		if copied, err = b.Volumes.Observe(ctx, source); err != nil {
			return virtualimages.Observation{}, err //nolint:wrapcheck // as above
		}
	}
	return combined(&stored, &copied), nil
}

// Delete implements backend.Backend. The copy is deleted first: it reads the stored image.
func (b *Backend) Delete(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	if b.Volumes != nil {
		o, err := b.Volumes.Delete(ctx, image)
		if err != nil || o.State != virtualimages.Absent {
			return o, err //nolint:wrapcheck // the contract is the same
		}
	}
	return b.Store.Delete(ctx, image) //nolint:wrapcheck // as above
}

// ListsUsers implements backend.Lister.
func (b *Backend) ListsUsers() bool {
	lister, ok := b.Store.(backend.Lister)
	return ok && lister.ListsUsers()
}

// Users implements backend.Lister: those of the stored image. The users of its copy are in the cluster.
func (b *Backend) Users(ctx context.Context, image *backend.Image) *virtualimages.CloudUsers {
	return b.Store.(backend.Lister).Users(ctx, image) //nolint:forcetypeassert // ListsUsers has checked it
}

// combined is the observation of an image that is stored, and of its copy.
func combined(stored, copied *virtualimages.Observation) virtualimages.Observation {
	o := *copied
	o.SizeBytes, o.Checksum = stored.SizeBytes, stored.Checksum
	switch copied.State {
	case virtualimages.Ready:
		return *stored
	case virtualimages.Failed:
		o.Message = "the image is stored, and it cannot be copied into the cluster: " + copied.Message
	case virtualimages.Taken:
	case virtualimages.Absent, virtualimages.Waiting: // it takes no place of an import that runs
		o.State, o.Reason = virtualimages.Importing, cmp.Or(copied.Reason, virtualimages.ReasonPending)
		o.Message = "the image is stored, and its copy in the cluster waits: " + cmp.Or(copied.Message, "the copy begins")
	default:
		o.State = virtualimages.Importing
		o.Message = "the image is stored, and it is copied into the cluster: " + copied.Message
	}
	return o
}

// volume is the DataVolume of an image, if there is one and the image owns it.
func (b *Backend) volume(ctx context.Context, image *backend.Image) (*cdiv1beta1.DataVolume, error) {
	volume := &cdiv1beta1.DataVolume{}
	err := b.Client.Get(ctx, client.ObjectKey{Namespace: image.Namespace, Name: virtualimages.VolumeName(image.Name, image.UID)}, volume)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a DataVolume: %w", err)
	}
	if owner := metav1.GetControllerOf(volume); owner == nil || owner.UID != image.UID {
		return nil, nil
	}
	return volume, nil
}

// stale reports whether a DataVolume is the copy of an earlier attempt.
func stale(volume *cdiv1beta1.DataVolume, source *backend.Image) bool {
	s := volume.Spec.Source
	return s == nil || s.HTTP == nil || s.HTTP.URL != source.Spec.Src
}

// sourceOf is the image as CDI imports it: from this process, with a token.
func (b *Backend) sourceOf(image *backend.Image) (*backend.Image, error) {
	if image.ID == "" {
		return nil, errors.New("the image has no identifier")
	}
	source := *image
	source.Spec.Src = b.URL + pathOf(image.Namespace, image.Name, image.ID)
	source.Spec.Upload, source.Spec.Checksum, source.Spec.ContainerFormat = nil, "", v1alpha1.ContainerBare
	name := fmt.Sprintf("%s-%s-%d", virtualimages.VolumeName(image.Name, image.UID), strings.ReplaceAll(image.ID, "-", "")[:8], b.expires().Unix()/3600)
	source.Spec.SecretRef, source.Spec.CertConfigMap = name, name
	return &source, nil
}

// expires is when the tokens of this hour end.
func (b *Backend) expires() time.Time {
	return b.Clock.Now().Truncate(time.Hour).Add(time.Hour + b.Lifetime)
}

// credentials creates the Secret and the ConfigMap of a copy. Within an hour, all calls create the same ones.
func (b *Backend) credentials(ctx context.Context, image, source *backend.Image) error {
	keys, err := b.Keys.current()
	if err != nil {
		return err
	}
	authorities, err := b.Authorities()
	if err != nil {
		return fmt.Errorf("reading the certificates of authorities: %w", err)
	}
	user, password := Grant{Namespace: image.Namespace, Name: image.Name, ID: image.ID, Expires: b.expires()}.sign(keys[0])
	yes := true
	meta := metav1.ObjectMeta{
		Namespace: image.Namespace, Name: source.Spec.SecretRef, Labels: map[string]string{v1alpha1.LabelImage: string(image.UID)},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: image.Name, UID: image.UID, Controller: &yes}},
	}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: meta, Immutable: &yes, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{keyUser: []byte(user), keyPassword: []byte(password)}},
		&corev1.ConfigMap{ObjectMeta: *meta.DeepCopy(), Immutable: &yes, Data: map[string]string{keyAuthorities: string(authorities)}},
	} {
		if err := b.Client.Create(ctx, object, client.FieldOwner(b.Owner)); client.IgnoreAlreadyExists(err) != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}
