package glance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/virtward/virtward/api/kupenstack/v1alpha1"
	"github.com/virtward/virtward/controllers/virtualimages/backend"
	"github.com/virtward/virtward/sources/transfers"
	"github.com/virtward/virtward/sources/web"
	"github.com/virtward/virtward/virtualimages"
)

// tailed are the formats whose header can be at the end of the file.
var tailed = []v1alpha1.DiskFormat{v1alpha1.FormatVHD}

// transfer reads the source of an image, stages it in Glance, and requests the import. Only a file that was read to its end
// and has the checksum of the image is imported.
func (b *Backend) transfer(ctx context.Context, image *backend.Image, progress *transfers.Progress) error {
	ctx, stopped := context.WithTimeoutCause(ctx, b.Deadline, errDeadline)
	defer stopped()
	err := b.stream(ctx, image, progress)
	if err != nil && errors.Is(context.Cause(ctx), errDeadline) { // it takes a place from others
		return &web.Error{Reason: ReasonTimeout, Message: fmt.Sprintf("the import took longer than %s", b.Deadline), Permanent: true}
	}
	return err
}

func (b *Backend) stream(ctx context.Context, image *backend.Image, progress *transfers.Progress) error {
	from, err := b.Source(ctx, image)
	if err != nil {
		return err
	}
	if from == nil {
		return &web.Error{Reason: web.ReasonMissingCredential, Message: "virtward-virtualimages may not read the Secret or the ConfigMap of the source: an admin permits it with a Role"}
	}
	defer from.Close()
	file, err := from.Probe(ctx, image.Spec.Src, slices.Contains(tailed, image.Spec.Format))
	if err != nil {
		return err
	}
	if _, err := virtualimages.Check(image.Spec.Format, file.Head, file.Tail); err != nil {
		return &web.Error{Reason: web.ReasonFormatMismatch, Message: err.Error(), Permanent: true}
	}
	if err := b.Client.renew(ctx); err != nil {
		return fmt.Errorf("renewing the token: %w", err)
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := from.Stream(reading, file, image.Spec.Checksum)
	if err != nil {
		return err
	}
	defer stream.Close()
	staging, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body := &measured{stream: stream, progress: progress, total: max(0, file.Size), stall: b.Stall, closed: make(chan struct{})}
	body.stalled = time.AfterFunc(b.Stall, func() { cancel(errStalled) })
	defer body.stalled.Stop()
	err = b.Client.stage(staging, image.ID, body)
	failure := body.failed() // before the next line makes reading fail
	stop()
	<-body.closed // Glance can answer while the file is still being read
	if err != nil {
		switch {
		case failure != nil:
			return failure
		case errors.Is(context.Cause(staging), errStalled):
			return errStalled
		}
		return fmt.Errorf("staging the file: %w", err)
	}
	if !body.complete.Load() { // Glance answered before it had the whole file
		return errEarly
	}
	ctx, end := context.WithTimeout(ctx, b.Timeout)
	defer end()
	if err := b.Client.importInto(ctx, image.ID, glanceDirect, ""); err != nil && statusOf(err) != http.StatusConflict {
		return fmt.Errorf("requesting the import: %w", err)
	}
	return nil
}

// The errors of a transfer.
var (
	errEarly    = errors.New("Glance answered before it had the whole file") //nolint:staticcheck // a name
	errDeadline = errors.New("the deadline of the transfer")
	errStalled  = errors.New("Glance does not take the file") //nolint:staticcheck // a name
)

// measured is a stream whose progress is noted. The client of Glance reads it in a goroutine of its own.
type measured struct {
	stream   *web.Stream
	progress *transfers.Progress
	total    int64
	// stalled fires if Glance reads nothing for some time.
	stall   time.Duration
	stalled *time.Timer
	// complete is set at the end of the file, failure if it does not get there.
	complete atomic.Bool
	// closed is closed once nothing is read any more.
	closed  chan struct{}
	once    sync.Once
	failure atomic.Pointer[error]
}

// Read implements io.Reader.
func (m *measured) Read(p []byte) (int, error) {
	m.stalled.Stop() // the stream has a bound of its own
	n, err := m.stream.Read(p)
	m.stalled.Reset(m.stall)
	m.progress.Set(m.stream.Offset(), m.total)
	switch {
	case errors.Is(err, io.EOF):
		m.complete.Store(true)
	case err != nil:
		m.failure.Store(&err)
	}
	return n, err
}

// Close implements io.Closer.
func (m *measured) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// failed is the error of the stream; nil if there was none.
func (m *measured) failed() error {
	if err := m.failure.Load(); err != nil {
		return *err
	}
	return nil
}
