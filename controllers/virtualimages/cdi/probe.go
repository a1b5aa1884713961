package cdi

import (
	"context"
	"errors"
	"fmt"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/virtualimages"
)

// Probe is what the first bytes of a source say.
type Probe struct {
	// DiskSize is the size of the disk in bytes; 0 if it is not known.
	DiskSize int64
}

// probe starts to read the header of the source, and returns the state of that.
func (b *Backend) probe(ctx context.Context, image *backend.Image) (transfers.Task[Probe], error) {
	if task, known := b.Probes.Get(image.ID); known {
		return task, nil
	}
	read, err := b.header(ctx, image)
	if err != nil {
		return transfers.Task[Probe]{Ended: true, Err: err}, transient(err)
	}
	if read == nil {
		return transfers.Task[Probe]{Ended: true}, nil
	}
	format := image.Spec.Format
	err = b.Probes.Start(image.ID, image.Namespace, func(ctx context.Context, _ *transfers.Progress) (Probe, error) {
		file, err := read(ctx)
		if err != nil {
			return Probe{}, fmt.Errorf("reading the source: %w", err)
		}
		return inspect(format, file)
	}, func() { b.Changed(image.Namespace, image.Name) })
	if errors.Is(err, transfers.ErrFull) {
		return transfers.Task[Probe]{Ahead: transfers.MaxTasks}, nil
	}
	task, _ := b.Probes.Get(image.ID)
	return task, err //nolint:wrapcheck // there is no other error
}

// header returns a function that reads the header of an image; nil if this process cannot read it.
func (b *Backend) header(ctx context.Context, image *backend.Image) (func(context.Context) (*web.File, error), error) {
	spec := image.Spec
	if b.File != nil {
		copied := *image
		return func(ctx context.Context) (*web.File, error) { return b.File(ctx, &copied) }, nil
	}
	reads, err := b.Source(ctx, image)
	if err != nil || reads == nil {
		return nil, err
	}
	reads.Close() // an image that waits keeps no certificates
	copied := *image
	return func(ctx context.Context) (*web.File, error) {
		reads, err := b.Source(ctx, &copied)
		if err != nil {
			return nil, err
		}
		if reads == nil {
			return nil, &web.Error{Reason: web.ReasonMissingCredential, Message: "the credentials cannot be read any more"}
		}
		defer reads.Close()
		return reads.Probe(ctx, spec.Src, spec.Format == v1alpha1.FormatVHD) //nolint:wrapcheck // the caller wraps it
	}, nil
}

// transient is the error if the next call can have another outcome; nil for an Error of the source, which the owner sees.
func transient(err error) error {
	var known *web.Error
	if errors.As(err, &known) {
		return nil
	}
	return err
}

func inspect(format v1alpha1.DiskFormat, file *web.File) (Probe, error) {
	size, err := virtualimages.DiskSize(format, file.Head, file.Tail, file.Size)
	if err != nil {
		return Probe{}, &web.Error{Reason: web.ReasonFormatMismatch, Message: err.Error(), Permanent: true}
	}
	return Probe{DiskSize: size}, nil
}

// waiting is the observation of a probe that runs or failed. A failure is reported once.
func (b *Backend) waiting(image *backend.Image, task *transfers.Task[Probe]) virtualimages.Observation {
	if task.Err != nil {
		b.Probes.Forget(image.ID)
	}
	var known *web.Error
	switch {
	case errors.As(task.Err, &known):
		return virtualimages.Observation{State: virtualimages.Failed, Reason: known.Reason, Message: known.Message, Permanent: known.Permanent}
	case task.Err != nil:
		return virtualimages.Observation{State: virtualimages.Failed, Message: "the source cannot be read"}
	case task.Ahead > 0:
		return virtualimages.Observation{State: virtualimages.Waiting, Message: fmt.Sprintf("%d other images are before it", task.Ahead)}
	}
	return virtualimages.Observation{State: virtualimages.Waiting, Message: "the source is checked"}
}

// probed is the observation of an image without a DataVolume.
func (b *Backend) probed(image *backend.Image) virtualimages.Observation {
	task, known := b.Probes.Get(image.ID)
	switch {
	case !known:
		return virtualimages.Observation{State: virtualimages.Absent}
	case task.Ended && task.Err == nil:
		return virtualimages.Observation{State: virtualimages.Waiting, Message: "the import begins"}
	}
	return b.waiting(image, &task)
}
