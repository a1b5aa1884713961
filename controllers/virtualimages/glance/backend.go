package glance

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/virtualimages"
)

// PropertyOwner is the property of an image with the stamp of its VirtualImage.
const PropertyOwner = "virtward_owner"

// The reasons of observations.
const (
	ReasonForbidden      = "GlanceForbids"
	ReasonQuota          = "QuotaExceeded"
	ReasonNoMethod       = "ImportMethodMissing"
	ReasonInterrupted    = "Interrupted"
	ReasonTimeout        = "ImportTimeout"
	ReasonImportFailed   = "ImportFailed"
	ReasonKilled         = "Killed"
	ReasonProtected      = "Protected"
	ReasonInUse          = "InUse"
	ReasonNoChecksum     = "ChecksumUnsupported"
	ReasonInvalid        = "GlanceRejects"
	ReasonUnsupportedURL = "SourceNotPermitted"
	ReasonNoUploads      = "UploadUnsupported"
)

// Visibility says who can use an image.
type Visibility string

// The visibilities. Glance has others, which need decisions of other projects.
const (
	Public    Visibility = "public"
	Community Visibility = "community"
	Shared    Visibility = "shared"
	Private   Visibility = "private"
)

// Options configure a Backend.
type Options struct {
	// Client calls Glance. Connect makes one.
	Client *Client
	// Streams runs the streams.
	Streams *transfers.Pool[struct{}]
	// Changed is called when an image should be observed again; nil for no call.
	Changed func(namespace, name string)
	// Source makes the client for the source of an image, with the credentials and the authorities that the image names; nil if
	// this process may not read those.
	Source func(ctx context.Context, image *backend.Image) (*web.Client, error)
	// Visibility of the images; empty for public. One whose source needs credentials is private.
	Visibility Visibility
	// Protected images cannot be deleted by others. Virtward removes the protection before it deletes one.
	Protected bool
	// WebDownload makes Glance read the sources that need neither credentials nor authorities. Glance does not check their
	// addresses as Virtward does.
	WebDownload bool
	// IgnoreUsers makes the users of images in the cloud not count.
	IgnoreUsers bool
	// Timeout bounds each call but those that stream; 0 for 30 seconds. Stall bounds the time in which Glance takes no byte of a
	// stream; 0 for 5 minutes.
	Timeout, Stall time.Duration
	// Deadline bounds the stream of an image; 0 for 6 hours.
	Deadline time.Duration
}

// Backend implements backend.Backend. Create it with New.
type Backend struct{ Options }

var _ backend.Backend = (*Backend)(nil)

// New returns a Backend.
func New(options Options) *Backend {
	if options.Visibility == "" {
		options.Visibility = Public
	}
	if options.Timeout == 0 {
		options.Timeout = 30 * time.Second
	}
	if options.Stall == 0 {
		options.Stall = 5 * time.Minute
	}
	if options.Deadline == 0 {
		options.Deadline = 6 * time.Hour
	}
	return &Backend{Options: options}
}

// Observe implements backend.Backend.
func (b *Backend) Observe(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	s, err := b.situation(ctx, image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	return b.observed(s), nil
}

// observed is the observation of a situation. The stream of an image that is ready is forgotten.
func (b *Backend) observed(s *situation) virtualimages.Observation {
	o := s.observation()
	if o.State == virtualimages.Ready {
		b.Streams.Forget(s.image.ID)
	}
	return o
}

// Ensure implements backend.Backend.
func (b *Backend) Ensure(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	if image.Spec.Upload != nil {
		return virtualimages.Observation{State: virtualimages.Failed, Reason: ReasonNoUploads, Permanent: true, Message: "files are uploaded only to classes that store images in the cluster: in OpenStack, who may upload this image may also delete those of other namespaces"}, nil
	}
	if b.WebDownload && b.direct(image) && image.Spec.Checksum != "" {
		return virtualimages.Observation{State: virtualimages.Failed, Reason: ReasonNoChecksum, Permanent: true, Message: "Glance reads the source itself and cannot compare its checksum: remove spec.checksum"}, nil
	}
	s, err := b.situation(ctx, image)
	if err != nil {
		return virtualimages.Observation{}, err
	}
	if s.remote == nil {
		observed, err := b.create(ctx, image)
		if observed.State != "" || err != nil {
			return observed, err
		}
		if s, err = b.situation(ctx, image); err != nil {
			return virtualimages.Observation{}, err
		}
		if s.remote == nil { // Glance has deleted an image with this identifier, and keeps the identifier
			return virtualimages.Observation{State: virtualimages.Spent}, nil
		}
	}
	if !s.startable() {
		return b.observed(s), nil
	}
	return b.start(ctx, s)
}

// create creates an image without data. The observation is empty if it exists: now, before, or with another owner.
func (b *Backend) create(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	err := b.Client.create(ctx, image, b.visibility(image), b.Protected)
	failed := virtualimages.Observation{State: virtualimages.Failed, Permanent: true}
	switch status := statusOf(err); status {
	case 0, http.StatusConflict:
		if status == 0 && err != nil {
			return virtualimages.Observation{}, fmt.Errorf("creating the image: %w", err)
		}
		return virtualimages.Observation{}, nil
	case http.StatusForbidden:
		failed.Reason, failed.Message = ReasonForbidden, fmt.Sprintf("Glance does not permit images with the visibility %s: an admin can permit it or set another one", b.visibility(image))
	case http.StatusRequestEntityTooLarge:
		failed.Reason, failed.Message, failed.Permanent = ReasonQuota, "the quota of the project in Glance is exhausted", false
	case http.StatusBadRequest:
		failed.Reason, failed.Message = ReasonInvalid, "Glance rejects the image: "+message(err)
	default:
		return virtualimages.Observation{}, fmt.Errorf("creating the image: %w", err)
	}
	return failed, nil
}

func (b *Backend) visibility(image *backend.Image) Visibility {
	if image.Spec.SecretRef != "" {
		return Private
	}
	return b.Visibility
}

// direct reports whether Glance can read the source of an image.
func (b *Backend) direct(image *backend.Image) bool {
	return image.Spec.SecretRef == "" && image.Spec.CertConfigMap == ""
}

// start begins the import of an image that has no data.
func (b *Backend) start(ctx context.Context, s *situation) (virtualimages.Observation, error) {
	method := glanceDirect
	if b.WebDownload && b.direct(s.image) {
		method = webDownload
	}
	methods, err := b.Client.methods(ctx)
	if err != nil {
		return virtualimages.Observation{}, fmt.Errorf("reading the import methods: %w", err)
	}
	if !methods[method] {
		return virtualimages.Observation{State: virtualimages.Waiting, Reason: ReasonNoMethod, Message: "Glance does not have the import method " + method + ": an admin must enable it"}, nil
	}
	if method == webDownload {
		err := b.Client.importInto(ctx, s.image.ID, webDownload, s.image.Spec.Src)
		switch statusOf(err) {
		case http.StatusBadRequest, http.StatusForbidden:
			return virtualimages.Observation{State: virtualimages.Failed, Reason: ReasonUnsupportedURL, Message: "Glance rejects the URL: " + message(err), Permanent: true}, nil
		case http.StatusConflict:
			err = nil // it was requested before
		}
		return virtualimages.Observation{State: virtualimages.Importing}, err
	}
	image := *s.image
	full := b.Streams.Start(image.ID, image.Namespace, func(ctx context.Context, progress *transfers.Progress) (struct{}, error) {
		return struct{}{}, b.transfer(ctx, &image, progress)
	}, func() {
		if b.Changed != nil {
			b.Changed(image.Namespace, image.Name)
		}
	})
	if full != nil {
		return virtualimages.Observation{State: virtualimages.Waiting, Message: full.Error()}, nil //nolint:nilerr // the owner of the image reads it
	}
	s.task, s.started = b.Streams.Get(image.ID)
	return s.observation(), nil
}

// Delete implements backend.Backend.
func (b *Backend) Delete(ctx context.Context, image *backend.Image) (virtualimages.Observation, error) {
	if !b.Streams.Forget(image.ID) {
		return virtualimages.Observation{State: virtualimages.Importing, Message: "the transfer is being ended"}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.Timeout)
	defer cancel()
	remote, err := b.Client.get(ctx, image.ID)
	switch {
	case statusOf(err) == http.StatusNotFound, err == nil && !remote.belongs(image):
		return virtualimages.Observation{State: virtualimages.Absent}, nil
	case err != nil:
		return virtualimages.Observation{}, fmt.Errorf("reading the image: %w", err)
	case remote.gone():
		return virtualimages.Observation{State: virtualimages.Spent}, nil
	}
	if remote.Protected && b.Protected {
		if err := b.Client.unprotect(ctx, image.ID); err != nil {
			return virtualimages.Observation{}, fmt.Errorf("removing the protection of the image: %w", err)
		}
	}
	err = b.Client.delete(ctx, image.ID)
	blocked := virtualimages.Observation{State: virtualimages.Blocked, SizeBytes: remote.size()}
	switch statusOf(err) {
	case http.StatusNotFound:
		return virtualimages.Observation{State: virtualimages.Spent}, nil
	case http.StatusForbidden:
		blocked.Reason, blocked.Message = ReasonProtected, "Glance does not permit to delete the image: it is protected, or the account lacks the permission"
		return blocked, nil
	case http.StatusConflict:
		blocked.Reason, blocked.Message = ReasonInUse, "Glance does not delete the image: it is in use in the cloud"
		return blocked, nil
	}
	if err != nil {
		return virtualimages.Observation{}, fmt.Errorf("deleting the image: %w", err)
	}
	return virtualimages.Observation{State: virtualimages.Spent}, nil
}
