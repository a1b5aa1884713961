package downloads

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/virtward/virtward/cli/options"
	"github.com/virtward/virtward/ovf/archive"
)

// The patience of a download.
const (
	// maxFailures is the number of requests in a row that fail without a byte.
	maxFailures = 10
	// firstPause and maxPause bound the time before the next request.
	firstPause = time.Second
	maxPause   = 30 * time.Second
	// stall is the time without a byte after which a connection is given up.
	stall = 2 * time.Minute
	// maxReason bounds what is shown of an answer with an error.
	maxReason = 1 << 10
)

// The errors of downloads that no repetition mends.
var (
	// ErrChanged is a file that is not what it was when the download began.
	ErrChanged = errors.New("the server has another version of the file")
	// ErrDigest is a file whose bytes are not those of the server. It was removed.
	ErrDigest = errors.New("the file has another digest than the server says: it was removed")
)

// Options are those of a download.
type Options struct {
	// Client sends the requests. It must not decompress.
	Client *http.Client
	URL    string
	// Header has the token.
	Header http.Header
	// To is the name of the file. Overwrite replaces a file that exists.
	To        string
	Overwrite bool
	// ErrOut gets the progress, if it is a terminal, and what happens, such as a connection that broke.
	ErrOut io.Writer
	// Pause and Stall replace the first time before the next request, and the time without a byte; 0 for a second and two minutes.
	Pause, Stall time.Duration
	// write replaces the writing of a file in tests.
	write func(*os.File, []byte) (int, error)
}

// Result is a download that is complete.
type Result struct {
	// Size is that of the file in bytes, SHA256 its digest in hexadecimal digits.
	Size   int64
	SHA256 string
	// Resumed are the bytes that the part had at first, Breaks the connections that broke.
	Resumed int64
	Breaks  int
}

// download is one in progress.
type download struct {
	Options

	tag          string
	size, offset int64
	meter        *options.Meter
	result       Result
}

// Get downloads a file. The part of an interrupted download stays beside the file.
func Get(ctx context.Context, o Options) (*Result, error) {
	if o.write == nil {
		o.write = (*os.File).Write
	}
	if err := options.Free(o.To, o.Overwrite); err != nil {
		return nil, err
	}
	d, err := begin(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { d.meter.End() }()
	d.removeOthers()
	part, err := os.OpenFile(d.part(), os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // as other programs write downloads
	if err != nil {
		return nil, err
	}
	defer part.Close()
	if err := d.begin(part); err != nil {
		return nil, err
	}
	for d.offset < d.size {
		if err := d.retry(ctx, func(ctx context.Context) error { return d.receive(ctx, part) }); err != nil {
			return nil, err
		}
	}
	return d.finish(ctx, part)
}

// begin reads the size and the tag of the file.
func begin(ctx context.Context, o Options) (*download, error) {
	o.Pause, o.Stall = cmp.Or(o.Pause, firstPause), cmp.Or(o.Stall, stall)
	d := &download{Options: o, meter: options.NewMeter(o.ErrOut, "receiving", 0)}
	if err := d.retry(ctx, d.head); err != nil {
		d.meter.End()
		return nil, err
	}
	return d, nil
}

// part is the name of the file until it is complete.
func (d *download) part() string { return d.To + "." + d.tag + ".part" }

// partNames are the ends of the names of parts.
var partNames = regexp.MustCompile(`^\.[0-9a-f]{32}\.part$`)

// removeOthers removes parts of other versions of the file.
func (d *download) removeOthers() {
	entries, _ := os.ReadDir(filepath.Dir(d.To)) // the opening of the part has the same error
	for _, e := range entries {
		end, found := strings.CutPrefix(e.Name(), filepath.Base(d.To))
		name := filepath.Join(filepath.Dir(d.To), e.Name())
		if found && partNames.MatchString(end) && name != filepath.Clean(d.part()) && os.Remove(name) == nil {
			d.note("removed %s, a part of another version", name)
		}
	}
}

// note writes a line.
func (d *download) note(format string, args ...any) {
	d.meter.End()
	fmt.Fprintf(d.ErrOut, format+"\n", args...)
}

// begin continues behind what the part has.
func (d *download) begin(part *os.File) error {
	has, err := part.Seek(0, io.SeekEnd)
	if err == nil && has > d.size {
		has, err = 0, part.Truncate(0)
	}
	if err == nil {
		_, err = part.Seek(has, io.SeekStart)
	}
	d.offset, d.result.Resumed = has, has
	d.meter = options.NewMeter(d.ErrOut, "receiving", d.size)
	d.meter.Skip(has)
	if err == nil && has > 0 {
		d.note("continuing at %d%% of an earlier download", 100*has/d.size)
	}
	return err
}

// finish verifies the part, and gives it its name.
func (d *download) finish(ctx context.Context, part *os.File) (*Result, error) {
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	d.meter.End()
	d.meter = options.NewMeter(d.ErrOut, "verifying", d.size)
	found, err := archive.Verify(d.meter.Reader(ctx, io.LimitReader(part, d.size)))
	switch {
	case errors.Is(err, archive.ErrDamaged) || err == nil && found.Tag != d.tag:
		part.Close() // some systems remove no file that is open
		if removal := os.Remove(part.Name()); removal != nil {
			return nil, removal
		}
		return nil, ErrDigest
	case err != nil:
		return nil, err
	}
	if err := errors.Join(part.Sync(), part.Close()); err != nil {
		return nil, err
	}
	if err := options.Rename(part.Name(), d.To, d.Overwrite); err != nil {
		return nil, err
	}
	d.result.Size, d.result.SHA256 = d.size, found.SHA256
	return &d.result, nil
}
