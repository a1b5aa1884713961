package glance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/texts"
	"github.com/virtward/virtward/virtualimages"
)

// The statuses of images in Glance.
const (
	queued        = "queued"
	uploading     = "uploading"
	importing     = "importing"
	saving        = "saving"
	active        = "active"
	deactivated   = "deactivated"
	killed        = "killed"
	deleted       = "deleted"
	pendingDelete = "pending_delete"
)

// remote is an image in Glance.
type remote struct {
	ID        string `json:"id"`
	Status    string `json:"status"`
	Size      *int64 `json:"size"`
	Checksum  string `json:"checksum"`
	HashAlgo  string `json:"os_hash_algo"`
	HashValue string `json:"os_hash_value"`
	Protected bool   `json:"protected"`
	Owner     string `json:"virtward_owner"`
	// Failed names the stores into which the last import failed.
	Failed string `json:"os_glance_failed_import"`
}

func (r *remote) belongs(image *backend.Image) bool { return r.Owner == image.Stamp() }

func (r *remote) gone() bool { return r.Status == deleted || r.Status == pendingDelete }

func (r *remote) size() int64 {
	if r.Size == nil {
		return 0
	}
	return *r.Size
}

// sum is the checksum of the stored image, with its algorithm.
func (r *remote) sum() string {
	switch {
	case r.HashAlgo != "" && r.HashValue != "":
		return texts.Shorten(r.HashAlgo+":"+r.HashValue, maxText)
	case r.Checksum != "":
		return texts.Shorten("md5:"+r.Checksum, maxText)
	}
	return ""
}

// job is a task of Glance for an image.
type job struct {
	Status  string `json:"status"`
	Message string `json:"message"`
	Created string `json:"created_at"`
}

// situation is what is known about an image.
type situation struct {
	image *backend.Image
	// remote is nil if Glance has no such image.
	remote *remote
	// job is the last task of Glance; nil if there is none, or if Glance lists none.
	job *job
	// task is the stream of this process, if it was started.
	task    transfers.Task[struct{}]
	started bool
}

// situation reads the image, and the tasks of Glance if the status of the image does not say what happens.
func (b *Backend) situation(ctx context.Context, image *backend.Image) (*situation, error) {
	s := &situation{image: image}
	found, err := b.Client.get(ctx, image.ID)
	switch {
	case statusOf(err) == http.StatusNotFound:
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("reading the image: %w", err)
	}
	s.remote = found
	s.task, s.started = b.Streams.Get(image.ID)
	if found.belongs(image) && found.Status == queued && (!s.started || s.task.Ended && s.task.Err == nil) {
		if s.job, err = b.Client.lastJob(ctx, image.ID); err != nil {
			return nil, fmt.Errorf("reading the tasks of the image: %w", err)
		}
	}
	return s, nil
}

// startable reports whether the import can begin: Glance has the image without data, and no import was requested.
func (s *situation) startable() bool {
	return s.remote != nil && s.remote.belongs(s.image) && s.remote.Status == queued && s.remote.Failed == "" && s.job == nil && !s.started
}

// observation is the state of the image.
func (s *situation) observation() virtualimages.Observation {
	r := s.remote
	switch {
	case r == nil:
		return virtualimages.Observation{State: virtualimages.Absent}
	case r.gone():
		return virtualimages.Observation{State: virtualimages.Spent}
	case !r.belongs(s.image):
		return virtualimages.Observation{State: virtualimages.Taken, Message: "Glance has an image with the identifier " + s.image.ID + " that does not belong to this VirtualImage"}
	}
	o := virtualimages.Observation{SizeBytes: r.size(), Checksum: r.sum()}
	switch r.Status {
	case active:
		o.State = virtualimages.Ready
	case deactivated:
		o.State, o.Message = virtualimages.Deactivated, "an admin of the cloud has deactivated the image"
	case killed:
		o.State, o.Reason, o.Message = virtualimages.Failed, ReasonKilled, "Glance could not store the image"
	case queued, uploading, saving, importing:
		s.progress(&o)
	default:
		o.State, o.Message = virtualimages.Importing, "the image has the status "+texts.Shorten(texts.OneLine(r.Status), maxText)
	}
	return o
}

// progress completes the observation of an image that is not imported yet.
func (s *situation) progress(o *virtualimages.Observation) {
	r := s.remote
	o.State, o.Done, o.Total, o.InBytes = virtualimages.Importing, s.task.Done, s.task.Total, s.task.Done > 0
	switch {
	case s.started && !s.task.Ended && !s.task.Running:
		o.State, o.Message = virtualimages.Waiting, fmt.Sprintf("the import waits: %d others are ahead", s.task.Ahead)
	case s.started && !s.task.Ended:
		o.Message = "the file is being transferred to Glance"
	case s.started && s.task.Err != nil:
		o.State = virtualimages.Failed
		o.Reason, o.Message, o.Permanent = explained(s.task.Err)
	case r.Status == importing, r.Status == saving:
		o.Message = "Glance imports the file"
	case r.Status == uploading && !s.started:
		o.State, o.Reason, o.Message = virtualimages.Failed, ReasonInterrupted, "the transfer of the file was interrupted"
	case r.Status == uploading:
		o.Message = "Glance imports the file"
	case r.Failed != "":
		o.State, o.Reason, o.Message = virtualimages.Failed, ReasonImportFailed, "Glance could not import the file"
	case s.job != nil && s.job.Status == "failure":
		o.State, o.Reason, o.Message = virtualimages.Failed, ReasonImportFailed, "Glance could not import the file: "+texts.Shorten(texts.OneLine(s.job.Message), maxText)
	case s.job != nil && s.job.Status != "success":
		o.Message = "Glance imports the file"
	case s.started, s.job != nil:
		o.State, o.Reason, o.Message = virtualimages.Failed, ReasonImportFailed, "Glance did not import the file"
	default:
		o.State, o.Message = virtualimages.Waiting, "the import begins"
	}
}

// explained is the error of a transfer, for the owner of the image.
func explained(err error) (reason, text string, permanent bool) {
	var from *web.Error
	if errors.As(err, &from) {
		return from.Reason, from.Message, from.Permanent
	}
	var fault *backend.Unavailable
	switch {
	case errors.As(err, &fault):
		return fault.Reason, fault.Message, false
	case errors.Is(err, errStalled), errors.Is(err, errEarly):
		return ReasonInterrupted, err.Error(), false
	case statusOf(err) == http.StatusRequestEntityTooLarge, statusOf(err) == http.StatusForbidden:
		return ReasonQuota, "Glance does not accept the file: the quota of the project is exhausted, or the file is too large", false
	}
	return ReasonInterrupted, strings.TrimSpace("the transfer to Glance failed: " + message(err)), false
}
