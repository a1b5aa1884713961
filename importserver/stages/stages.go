package stages

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	godigest "github.com/opencontainers/go-digest"

	"github.com/virtward/virtward/oci"
	"github.com/virtward/virtward/ovf/transfer"
	"github.com/virtward/virtward/sources/artifacts"
	"github.com/virtward/virtward/sources/compressions"
	"github.com/virtward/virtward/sources/compressions/xz"
	"github.com/virtward/virtward/sources/web"
)

// diskImage is the file of CDI in a volume with a file system.
const diskImage = "disk.img"

// bufferBytes is the size of the buffer of a copy.
const bufferBytes = 256 << 10

// MaxMemory bounds the memory of a copy beside its connection.
const MaxMemory = bufferBytes + max(transfer.MaxDictionary+xz.MaxBuffers, transfer.MaxWindow+transfer.MaxWindow/8)

// Copy copies a file. Create it with New.
type Copy struct {
	client   *web.Client
	registry *artifacts.Options
	plan     *transfer.Stage
	folder   string

	done, total atomic.Int64
}

// New returns a copy that a valid plan names. The client reads a URL, and the options a blob.
func New(client *web.Client, registry *artifacts.Options, plan *transfer.Stage, into *transfer.Volume) *Copy {
	return &Copy{client: client, registry: registry, plan: plan, folder: into.Folder}
}

// Status is how far the copy is.
func (c *Copy) Status() *transfer.StageStatus {
	return &transfer.StageStatus{Done: c.done.Load(), Total: c.total.Load()}
}

// Run copies the file. The error is a *transfer.ExitError.
func (c *Copy) Run(ctx context.Context) error {
	to, err := open(c.folder)
	if err == nil {
		err = errors.Join(c.run(ctx, to), to.Close())
	}
	if err == nil {
		return nil
	}
	return &transfer.ExitError{Code: codeOf(err), Err: err}
}

// unwritable is an error of the volume.
type unwritable struct{ error }

// Unwrap returns the cause.
func (u unwritable) Unwrap() error { return u.error }

// open empties the file of CDI, which must be a file and no link.
func open(folder string) (*os.File, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, unwritable{err}
	}
	defer root.Close()
	entry, err := root.Lstat(diskImage)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, unwritable{err}
	case err == nil && !entry.Mode().IsRegular():
		return nil, unwritable{errors.New(diskImage + " is not a file")}
	}
	to, err := root.OpenFile(diskImage, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o660)
	if err != nil {
		return nil, unwritable{err}
	}
	return to, nil
}

func (c *Copy) run(ctx context.Context, to *os.File) error {
	open := c.file
	if c.plan.Blob != "" {
		open = c.blob
	}
	size, content, stop, err := open(ctx)
	if err != nil {
		return err //nolint:wrapcheck // Run says what failed
	}
	defer stop()
	c.total.Store(max(0, size))
	if c.plan.Compression == "" && size > c.plan.MaxBytes {
		return compressions.ErrTooLarge
	}
	if err := c.write(to, counted{content, &c.done}); err != nil {
		return err
	}
	if err := to.Sync(); err != nil {
		return unwritable{err}
	}
	return nil
}

// file opens the file of the web server.
func (c *Copy) file(ctx context.Context) (size int64, content io.Reader, stop func(), err error) {
	file, err := c.client.Probe(ctx, c.plan.URL, false)
	if err != nil {
		return 0, nil, nil, err //nolint:wrapcheck // Run says what failed
	}
	stream, err := c.client.Stream(ctx, file, "")
	return file.Size, stream, func() { _ = stream.Close() }, err //nolint:wrapcheck // as above
}

// blob opens the blob of the registry. Its end is an error unless all bytes have the digest.
func (c *Copy) blob(ctx context.Context) (size int64, content io.Reader, stop func(), err error) {
	image, err := c.plan.Image()
	if err != nil {
		return 0, nil, nil, err //nolint:wrapcheck // the plan is valid
	}
	repository, err := artifacts.Open(ctx, artifacts.Reference{Image: image, Named: true}, *c.registry)
	if err != nil {
		return 0, nil, nil, err //nolint:wrapcheck // as above
	}
	layer := &oci.Descriptor{Digest: godigest.Digest(image.Digest), Size: c.plan.Size}
	part := repository.Part(ctx, layer, 0, layer.Size)
	return layer.Size, oci.Verified(part, layer), func() { _ = part.Close() }, nil
}

// write writes the content of the file.
func (c *Copy) write(to *os.File, from io.Reader) error {
	content, err := compressions.Open(c.plan.Compression, from, c.plan.MaxBytes, transfer.Window(c.plan.Compression))
	if err != nil {
		return err //nolint:wrapcheck // as above
	}
	defer content.Close()
	buffer := make([]byte, bufferBytes)
	for {
		n, err := content.Read(buffer)
		if n > 0 {
			if _, failed := to.Write(buffer[:n]); failed != nil {
				return unwritable{failed}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return content.Finish() //nolint:wrapcheck // as above
		case err != nil:
			return err //nolint:wrapcheck // as above
		}
	}
}

// counted counts what is read.
type counted struct {
	io.Reader

	bytes *atomic.Int64
}

// Read implements io.Reader.
func (c counted) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.bytes.Add(int64(n))
	return n, err //nolint:wrapcheck // io.EOF must stay
}

// codes are those of errors, in the order in which they are looked for.
var codes = []struct {
	is   func(error) bool
	code transfer.StageExit
}{
	{is(compressions.ErrTooLarge), transfer.StageTooLarge},
	{is(syscall.ENOSPC), transfer.StageTooLarge},
	{is(syscall.EDQUOT), transfer.StageTooLarge},
	{func(err error) bool { return errors.As(err, new(unwritable)) }, transfer.StageUnwritable},
	{is(compressions.ErrWindow), transfer.StageWindow},
	{is(compressions.ErrDictionary), transfer.StageDictionary},
	{is(compressions.ErrFilter), transfer.StageFilter},
	{is(compressions.ErrDamaged), transfer.StageDamaged},
	{func(err error) bool { return errors.As(err, new(*oci.Rejection)) }, transfer.StageMismatch},
	{func(err error) bool { return web.HasReason(err, web.ReasonNotPermitted) }, transfer.StageNotPermitted},
}

func is(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }

// codeOf is the code of an error.
func codeOf(err error) transfer.StageExit {
	for _, c := range codes {
		if c.is(err) {
			return c.code
		}
	}
	return transfer.StageUnavailable
}
